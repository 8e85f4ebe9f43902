"""The replacement of mode StartFirst: a pod from its ReplicaSet's template that the ReplicaSet does not select yet.

Pure. Until the old pod is evicted it has the template's labels without ``pod-template-hash`` (so that budgets and Services
select it, and the ReplicaSet does not), one label of our own, and is pinned to its node. For a ReplicaSet without
Deployment it has our label only: any label of the template could make the ReplicaSet adopt it. Its selectors are those of a
pod with all labels of the template, because it keeps them after its adoption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from rescheduler.migrations.label_keys import with_merged_label_keys
from rescheduler.model import names
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.selectors import LabelSet

Json = dict[str, Any]

_NAME: Final = 57
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def replacement_name(owner: str, migration_uid: str) -> str:
    """A name like those of the ReplicaSet's own pods: the same after a crash, a different one for a later move."""
    digest = hashlib.blake2b(migration_uid.encode(), digest_size=3).hexdigest()
    return f"{owner[:_NAME].rstrip('-.')}-{digest}"


def replaces(controller_uid: str, pod_uid: str) -> str:
    """The value of annotation ``names.ANNOTATION_REPLACES``."""
    return f"{controller_uid}/{pod_uid}"


def replaced_by(replacement: Pod) -> tuple[str, str]:
    """(uid of the ReplicaSet, uid of the old pod) of a replacement; "" if the annotation is missing."""
    controller, _, pod = (replacement.annotations.get(names.ANNOTATION_REPLACES) or "").partition("/")
    return controller, pod


def replica_set_of(replacement: Pod, workloads: Mapping[str, Workload]) -> Workload | None:
    """The ReplicaSet that it is for. One of another namespace is none: anybody may write any uid into a pod of his own."""
    found = workloads.get(replaced_by(replacement)[0])
    return found if found is not None and found.namespace == replacement.namespace else None


def is_unadopted(pod: Pod) -> bool:
    """True for a replacement that no ReplicaSet has adopted."""
    return pod.controller is None and pod.labels.get(names.LABEL_START_FIRST) is not None


def labelled_fully(pod: Pod, owner: Workload) -> bool:
    """True if the pod has every label of the template, so that the ReplicaSet adopts it."""
    return all(pod.labels.get(key) == value for key, value in owner.template_labels.items())


def missing_labels(pod: Pod, owner: Workload) -> LabelSet:
    """The labels of the template that the pod lacks."""
    return LabelSet({k: v for k, v in owner.template_labels.items() if pod.labels.get(k) != v})


def replacement_manifest(
    template: Json, *, key: ObjectKey, migration: ObjectKey, labels: Mapping[str, str], says: str, node: str
) -> Json:
    """The pod to create. ``template``: the owner's ``spec.template`` as stored, of which all rules are kept.

    ``labels``: of birth. ``says``: of whom it takes the place. A node named by the template is left out: a
    pod that is bound at birth would pass by the scheduler.
    """
    given: Json = template.get("metadata") or {}
    spec: Json = {k: v for k, v in (template.get("spec") or {}).items() if k != "nodeName"}
    spec = with_merged_label_keys(spec, given.get("labels") or {})
    annotations = {
        **(given.get("annotations") or {}),
        names.ANNOTATION_MIGRATION: str(migration),
        names.ANNOTATION_REPLACES: says,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "labels": dict(labels),
            "annotations": annotations,
            "finalizers": list(given.get("finalizers") or ()),
        },
        "spec": {**spec, "affinity": _pinned(spec.get("affinity") or {}, node)},
    }


def _pinned(affinity: Json, node: str) -> Json:
    """The affinity with the node added to each of its terms (terms are ORed)."""
    demand = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity: Json = affinity.get("nodeAffinity") or {}
    terms: list[Json] = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*(term.get("matchFields") or ()), demand]} for term in terms]
    return {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: {"nodeSelectorTerms": pinned}}}
