"""StatefulSets: pods with fixed names and claims, in order (pkg/controller/statefulset).

OrderedReady: one pod at a time, the next only when all before it are available; a rolling update deletes
from the highest ordinal down. Parallel: creation and removal do not wait. The claims of
``volumeClaimTemplates`` are made once and kept.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from kube_sandbox.controllers.pod_control import (
    OwnerController,
    claim,
    pod_from_template,
    template_hash,
    write_counts,
)
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    CLAIM,
    CONTROLLER_REVISION,
    POD,
    STATEFUL_SET,
    Obj,
    available,
    controller_ref,
    deleting,
    key,
    labels,
    meta,
    min_ready_s,
    next_available_s,
    ready,
    replicas_of,
    spec,
    status,
    terminal,
    uid,
)
from rescheduler.model.records import ObjectKey

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController(OwnerController):
    """Keeps the ordinals of each StatefulSet running, in the order that it asks for."""

    name = "statefulset"
    kind = STATEFUL_SET
    watches = frozenset({STATEFUL_SET, POD})

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Advance by the steps that the order allows now, then write the status."""
        owner = ctx.indexer.at(STATEFUL_SET, request)
        if owner is None:
            return None
        pods = claim(ctx, owner, wanted=lambda p: ordinal_of(owner, p) is not None)
        by_ordinal = {o: p for p in pods if (o := ordinal_of(owner, p)) is not None}
        revision = f"{request.name}-{template_hash(spec(owner).get('template') or {})}"
        try:
            if not deleting(owner):
                record_revision(ctx, owner, revision)
                _Sync(ctx, owner, by_ordinal, revision).run()
        finally:
            _write_status(ctx, owner, list(by_ordinal.values()), revision)
        return next_available_s(owner, pods, ctx.now_s)


class _Sync:
    """One reconcile of one StatefulSet."""

    def __init__(self, ctx: ReconcileContext, owner: Obj, pods: Mapping[int, Obj], revision: str) -> None:
        self._ctx = ctx
        self._owner = owner
        self._pods = pods
        self._revision = revision
        self._one_by_one = spec(owner).get("podManagementPolicy") != "Parallel"
        self._min_ready_s = min_ready_s(owner)
        self._desired = ordinals_of(owner)

    def run(self) -> None:
        if self._scale_available() and self._scale_down():
            self._update()

    def _scale_available(self) -> bool:
        """Create missing ordinals and replace terminal pods; False while an ordinal waits for the one before it."""
        for ordinal in self._desired:
            pod = self._pods.get(ordinal)
            if pod is None:
                self._create(ordinal)
            elif terminal(pod) and not deleting(pod):
                self._ctx.api.delete(pod)
            elif not deleting(pod) and self._available(pod):
                continue
            if self._one_by_one:
                return False
        return True

    def _scale_down(self) -> bool:
        """Remove ordinals that are no longer desired, highest first; False while that waits."""
        surplus = sorted((o for o in self._pods if o not in self._desired), reverse=True)
        for ordinal in surplus:
            pod = self._pods[ordinal]
            if not deleting(pod):
                self._ctx.api.delete(pod)
            if self._one_by_one:
                return False
        return True

    def _update(self) -> None:
        """Delete the highest pod of an older revision once all pods above it are available."""
        if (spec(self._owner).get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        for ordinal in reversed(self._desired):
            if below_partition(self._owner, ordinal):
                return
            pod = self._pods.get(ordinal)
            if pod is None or deleting(pod):
                return
            if labels(pod).get(REVISION_LABEL) != self._revision:
                self._ctx.api.delete(pod)
                return
            if not self._available(pod):
                return

    def _available(self, pod: Obj) -> bool:
        return available(pod, self._min_ready_s, self._ctx.now_s)

    def _create(self, ordinal: int) -> None:
        revision, template = self._revision_for(ordinal)
        pod = pod_of_ordinal(self._owner, ordinal, revision, template)
        for wanted in spec(self._owner).get("volumeClaimTemplates") or []:
            name = claim_name(wanted, key(pod).name)
            if self._ctx.indexer.get(CLAIM, key(self._owner).namespace, name) is None:
                self._ctx.api.create(self._claim(wanted, name))
        self._ctx.api.create(pod)

    def _revision_for(self, ordinal: int) -> tuple[str, Obj]:
        former = str(status(self._owner).get("currentRevision") or "")
        if former != self._revision and below_partition(self._owner, ordinal):
            template = revision_template(self._ctx, self._owner, former)
            if template is not None:
                return former, template
        return self._revision, spec(self._owner)["template"]

    def _claim(self, template: Obj, name: str) -> Obj:
        match_labels = (spec(self._owner).get("selector") or {}).get("matchLabels") or {}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": key(self._owner).namespace,
                "name": name,
                "labels": {**(meta(template).get("labels") or {}), **match_labels},
                "annotations": dict(meta(template).get("annotations") or {}),
            },
            "spec": copy.deepcopy(spec(template)),
        }


def ordinals_of(owner: Obj) -> range:
    """The ordinals that it wants."""
    start = int((spec(owner).get("ordinals") or {}).get("start") or 0)
    return range(start, start + replicas_of(owner))


def below_partition(owner: Obj, ordinal: int) -> bool:
    """True if pods of that ordinal stay at, and come back from, the current revision."""
    rolling = (spec(owner).get("updateStrategy") or {}).get("rollingUpdate") or {}
    return ordinal < ordinals_of(owner).start + int(rolling.get("partition") or 0)


def pod_of_ordinal(owner: Obj, ordinal: int, revision: str, template: Obj) -> Obj:
    """The pod as the controller creates it, with its own claims among the volumes (``newStatefulSetPod``)."""
    name = f"{key(owner).name}-{ordinal}"
    pod = pod_from_template(owner, template, name=name)
    pod["metadata"]["labels"] |= {REVISION_LABEL: revision, POD_NAME_LABEL: name, INDEX_LABEL: str(ordinal)}
    pod["spec"]["hostname"] = name
    if spec(owner).get("serviceName"):
        pod["spec"]["subdomain"] = spec(owner)["serviceName"]
    wanted = spec(owner).get("volumeClaimTemplates") or []
    claims = {meta(t)["name"]: claim_name(t, name) for t in wanted}
    volumes = [v for v in pod["spec"].get("volumes") or [] if v.get("name") not in claims]
    volumes += [
        {"name": volume, "persistentVolumeClaim": {"claimName": found}} for volume, found in claims.items()
    ]
    if volumes:
        pod["spec"]["volumes"] = volumes
    return pod


def claim_name(template: Obj, pod: str) -> str:
    """The name of the claim that a pod has by this template."""
    return f"{meta(template)['name']}-{pod}"


def ordinal_of(owner: Obj, pod: Obj) -> int | None:
    """The ordinal by the pod's name; None if that is not a name of this StatefulSet's pods."""
    prefix, _, number = key(pod).name.rpartition("-")
    own = prefix == key(owner).name and number.isdecimal() and str(int(number)) == number
    return int(number) if own else None


def _write_status(ctx: ReconcileContext, owner: Obj, pods: Sequence[Obj], revision: str) -> None:
    wait_s = min_ready_s(owner)
    alive = [p for p in pods if not deleting(p)]
    updated = sum(labels(p).get(REVISION_LABEL) == revision for p in alive)
    up = sum(available(p, wait_s, ctx.now_s) for p in alive)
    done = updated == up == replicas_of(owner)
    former = status(owner).get("currentRevision") or revision
    current = revision if done else former
    new = {
        "observedGeneration": int(meta(owner).get("generation") or 0),
        "replicas": len(pods),
        "readyReplicas": sum(ready(p) for p in pods),
        "availableReplicas": up,
        "currentReplicas": sum(labels(p).get(REVISION_LABEL) == current for p in alive),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    }
    write_counts(ctx, owner, new)


def record_revision(ctx: ReconcileContext, owner: Obj, name: str) -> None:
    """Store the owner's template as a ControllerRevision."""
    known = ctx.indexer.controlled(uid(owner), CONTROLLER_REVISION)
    if any(key(r).name == name for r in known):
        return
    number = max((int(r.get("revision") or 0) for r in known), default=0) + 1
    template = copy.deepcopy(spec(owner).get("template") or {})
    ctx.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "namespace": key(owner).namespace,
                "name": name,
                "labels": dict(meta(template).get("labels") or {}),
                "ownerReferences": [controller_ref(owner)],
            },
            "data": {"spec": {"template": template}},
            "revision": number,
        }
    )


def revision_template(ctx: ReconcileContext, owner: Obj, name: str) -> Obj | None:
    """The template of a ControllerRevision."""
    found = ctx.indexer.get(CONTROLLER_REVISION, key(owner).namespace, name)
    if found is None:
        return None
    template: Obj | None = ((found.get("data") or {}).get("spec") or {}).get("template")
    return template
