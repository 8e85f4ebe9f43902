"""The pod of a dry-run creation: made from a template as the controllers of Kubernetes make it. Pure.

Sources: ``GetPodFromTemplate`` (pkg/controller/controller_utils.go), ``newVersionedStatefulSetPod``, ``initIdentity`` and
``updateStorage`` (pkg/controller/statefulset/stateful_set_utils.go). It differs in three ways, none of which admission
normally reads: the name is always generated, because the old pod still has that of a StatefulSet; the owner reference has no
``blockOwnerDeletion``, which would ask for a right on the owner (OwnerReferencesPermissionEnforcement); the author of the
request is this program, so policies and webhooks that match users may treat it differently.
"""

from __future__ import annotations

from typing import Any, Final

from rescheduler.model.records import OwnerRef, Pod
from rescheduler.replacements.identity import COMPLETION_INDEX, POD_INDEX, POD_NAME
from rescheduler.replacements.siblings import REVISION_HASH

Json = dict[str, Any]

_ASKED_OF: Final = frozenset(
    {
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
    }
)


def can_be_tried(owner: OwnerRef) -> bool:
    """True if it is known how the controller of this kind makes its pods."""
    return (owner.api_version, owner.kind) in _ASKED_OF


def serves_all_pods(kind: str) -> bool:
    """True if controllers of this kind create the same pod in place of any of theirs, whatever its name and labels."""
    return kind in ("ReplicaSet", "ReplicationController")


def new_pod_manifest(
    template: Json, pod: Pod, owner: OwnerRef, *, revision: str = "", stateful_set: Json | None = None
) -> Json:
    """The pod that ``owner`` would create from ``template`` in place of ``pod``.

    ``template``: a PodTemplateSpec as stored. ``stateful_set``: the spec of the StatefulSet, None for other controllers;
    ``revision``: the one that it creates the pod from.
    """
    given: Json = template.get("metadata") or {}
    spec: Json = dict(template.get("spec") or {})
    labels: Json = dict(given.get("labels") or {})
    if stateful_set is not None:
        labels |= {POD_NAME: pod.name, POD_INDEX: pod.name.rpartition("-")[2]}
        if revision:
            labels[REVISION_HASH] = revision
        spec |= {
            "hostname": pod.name,
            "subdomain": stateful_set.get("serviceName") or "",
            "volumes": _with_claims(spec.get("volumes") or [], pod, stateful_set, owner),
        }
    index = pod.labels.get(COMPLETION_INDEX)
    if owner.kind == "Job" and index is not None:
        labels[COMPLETION_INDEX] = index
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner.name}-",
            "namespace": pod.namespace,
            "labels": labels,
            "annotations": dict(given.get("annotations") or {}),
            "finalizers": list(given.get("finalizers") or ()),
            "ownerReferences": [
                {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def _with_claims(volumes: list[Json], pod: Pod, stateful_set: Json, owner: OwnerRef) -> list[Json]:
    """The claims of this ordinal, which replace volumes of the same name."""
    ordinal = pod.name.rpartition("-")[2]
    names = [claim["metadata"]["name"] for claim in stateful_set.get("volumeClaimTemplates") or []]
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{owner.name}-{ordinal}"}}
        for name in names
    ]
    return [*claims, *(volume for volume in volumes if volume.get("name") not in names)]
