"""StatefulSets: pods with fixed names and claims, in order (pkg/controller/statefulset).

OrderedReady: one pod at a time, the next only when all before it are available; a rolling update deletes
from the highest ordinal down. Parallel: creation and removal do not wait. The claims of
``volumeClaimTemplates`` are made once and kept.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.podcontrol import claim, pod_from_template, template_hash
from rescheduler.sim.controllers.revisions import remember, template_of
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.view import View
from rescheduler.sim.controllers.wire import (
    CLAIM,
    POD,
    STATEFUL_SET,
    Key,
    Obj,
    available,
    available_at_s,
    controller_of,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    ready,
    selector,
    selects,
    spec,
    status,
    terminal,
    uid,
)

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController:
    """Keeps the ordinals of each StatefulSet running, in the order that it asks for."""

    name = "statefulset"
    watches = frozenset({STATEFUL_SET, POD})

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """The StatefulSet; the controller of a pod; for an orphan, whoever selects it."""
        obj = change.object
        if group_kind(obj) == STATEFUL_SET:
            return [key(obj)]
        ref = controller_of(obj) or (controller_of(old) if old is not None else None)
        if ref is not None:
            return [Key(key(obj).namespace, ref["name"])] if ref.get("kind") == "StatefulSet" else []
        sets = view.within(STATEFUL_SET, key(obj).namespace)
        return [key(s) for s in sets if labels(obj) and selects(selector(spec(s).get("selector")), obj)]

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Advance by the steps that the order allows now, then write the status."""
        owner = ctx.view.at(STATEFUL_SET, place)
        if owner is None:
            return None
        candidates = [
            p for p in ctx.view.claimable(uid(owner), POD, place.namespace) if _ordinal(owner, p) is not None
        ]
        pods = claim(ctx, owner, selector(spec(owner).get("selector")), candidates)
        by_ordinal = {o: p for p in pods if (o := _ordinal(owner, p)) is not None}
        revision = f"{place.name}-{template_hash(spec(owner).get('template') or {})}"
        try:
            if not deleting(owner):
                remember(ctx, owner, revision)
                _Round(ctx, owner, by_ordinal, revision).run()
        finally:
            _write_status(ctx, owner, list(by_ordinal.values()), revision)
        min_ready_s = int(spec(owner).get("minReadySeconds") or 0)
        due = [available_at_s(p, min_ready_s) for p in pods if min_ready_s and ready(p)]
        return min((d for d in due if d > ctx.now_s), default=None)


class _Round:
    """One reconcile of one StatefulSet."""

    def __init__(self, ctx: Context, owner: Obj, pods: Mapping[int, Obj], revision: str) -> None:
        self._ctx = ctx
        self._owner = owner
        self._pods = pods
        self._revision = revision
        self._one_by_one = spec(owner).get("podManagementPolicy") != "Parallel"
        self._min_ready_s = int(spec(owner).get("minReadySeconds") or 0)
        start = int((spec(owner).get("ordinals") or {}).get("start") or 0)
        self._wanted = range(start, start + replicas_of(owner))
        rolling = (spec(owner).get("updateStrategy") or {}).get("rollingUpdate") or {}
        self._first_updated = start + int(rolling.get("partition") or 0)

    def run(self) -> None:
        if self._fill() and self._shed():
            self._update()

    def _fill(self) -> bool:
        """Create missing ordinals and replace terminal pods; False while a pod before the next is not up."""
        for ordinal in self._wanted:
            pod = self._pods.get(ordinal)
            if pod is None:
                self._create(ordinal)
            elif terminal(pod) and not deleting(pod):
                self._ctx.api.delete(pod)
            elif not deleting(pod) and self._up(pod):
                continue
            if self._one_by_one:
                return False
        return True

    def _shed(self) -> bool:
        """Remove ordinals that are no longer wanted, highest first; False while that waits."""
        surplus = sorted((o for o in self._pods if o not in self._wanted), reverse=True)
        for ordinal in surplus:
            pod = self._pods[ordinal]
            if not deleting(pod):
                self._ctx.api.delete(pod)
            if self._one_by_one:
                return False
        return True

    def _update(self) -> None:
        """Delete the highest pod of an older revision once all above it are up again."""
        if (spec(self._owner).get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        for ordinal in reversed(self._wanted):
            if ordinal < self._first_updated:
                return
            pod = self._pods.get(ordinal)
            if pod is None or deleting(pod):
                return
            if labels(pod).get(REVISION_LABEL) != self._revision:
                self._ctx.api.delete(pod)
                return
            if not self._up(pod):
                return

    def _up(self, pod: Obj) -> bool:
        return available(pod, self._min_ready_s, self._ctx.now_s)

    def _create(self, ordinal: int) -> None:
        name = f"{key(self._owner).name}-{ordinal}"
        revision, template = self._revision_for(ordinal)
        pod = pod_from_template(self._owner, template, name=name)
        own = {REVISION_LABEL: revision, POD_NAME_LABEL: name, INDEX_LABEL: str(ordinal)}
        pod["metadata"]["labels"] |= own
        pod["spec"] |= {"hostname": name, "subdomain": spec(self._owner).get("serviceName") or ""}
        if not pod["spec"]["subdomain"]:
            del pod["spec"]["subdomain"]
        self._give_claims(pod, name)
        self._ctx.api.create(pod)

    def _revision_for(self, ordinal: int) -> tuple[str, Obj]:
        """Ordinals below the partition come back as they were; all others as the template says now."""
        former = str(status(self._owner).get("currentRevision") or "")
        if ordinal < self._first_updated and former != self._revision:
            template = template_of(self._ctx, self._owner, former)
            if template is not None:
                return former, template
        return self._revision, spec(self._owner)["template"]

    def _give_claims(self, pod: Obj, name: str) -> None:
        """Make the claims of this ordinal if they are missing, and mount them."""
        templates = spec(self._owner).get("volumeClaimTemplates") or []
        names = {meta(t)["name"] for t in templates}
        volumes = [v for v in pod["spec"].get("volumes") or [] if v.get("name") not in names]
        for template in templates:
            claim_name = f"{meta(template)['name']}-{name}"
            source = {"claimName": claim_name}
            volumes.append({"name": meta(template)["name"], "persistentVolumeClaim": source})
            if self._ctx.view.get(CLAIM, key(self._owner).namespace, claim_name) is None:
                self._ctx.api.create(self._claim(template, claim_name))
        if volumes:
            pod["spec"]["volumes"] = volumes

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


def replicas_of(owner: Obj) -> int:
    """spec.replicas; 1 if not given."""
    replicas = spec(owner).get("replicas")
    return 1 if replicas is None else int(replicas)


def _ordinal(owner: Obj, pod: Obj) -> int | None:
    prefix, _, number = key(pod).name.rpartition("-")
    own = prefix == key(owner).name and number.isdecimal() and str(int(number)) == number
    return int(number) if own else None


def _write_status(ctx: Context, owner: Obj, pods: Sequence[Obj], revision: str) -> None:
    min_ready_s = int(spec(owner).get("minReadySeconds") or 0)
    alive = [p for p in pods if not deleting(p)]
    updated = sum(labels(p).get(REVISION_LABEL) == revision for p in alive)
    up = sum(available(p, min_ready_s, ctx.now_s) for p in alive)
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
    if any(status(owner).get(k) != v for k, v in new.items()):
        ctx.api.patch(owner, {"status": new}, subresource="status")
