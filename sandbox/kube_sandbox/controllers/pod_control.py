"""What all workload controllers do with pods: create, adopt, release, and rank them for deletion.

Follows pkg/controller (controller_ref_manager, pod_control, ActivePodsWithRanks).
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from kube_sandbox.apiserver.json_values import seconds
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    POD,
    GroupKind,
    Obj,
    active,
    annotations_of,
    condition,
    controller_of,
    controller_ref,
    deleting,
    group_kind,
    is_controlled_by,
    key,
    labels,
    meta,
    owners,
    ready,
    selects,
    spec,
    status,
    uid,
)
from rescheduler.model.names import POD_DELETION_COST
from rescheduler.model.records import ObjectKey

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names: no vowels, so that no words arise (rand.SafeEncodeString)."""


class OwnerController:
    """What the controllers of workloads have in common: which of their objects a change concerns."""

    kind: ClassVar[GroupKind]

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The workload itself; the controller of an object; for an orphan every workload that selects it."""
        if group_kind(change.object) == self.kind:
            return [key(change.object)]
        return owner_keys(indexer, self.kind, change.object, change.previous)


def owner_keys(indexer: Indexer, kind: GroupKind, obj: Obj, old: Obj | None) -> list[ObjectKey]:
    """Objects of this kind that control, or controlled, or could adopt the object."""
    namespace = key(obj).namespace
    refs = [controller_of(obj), controller_of(old) if old is not None else None]
    found = [ObjectKey(namespace, r["name"]) for r in refs if r and r.get("kind") == kind.kind]
    if refs[0] is None and labels(obj):
        found += [key(o) for o in indexer.within(kind, namespace) if selects(spec(o).get("selector"), obj)]
    return found


def write_counts(ctx: ReconcileContext, owner: Obj, new: Obj) -> None:
    """Write the status if it changed."""
    if any(status(owner).get(k, 0) != v for k, v in new.items()):
        ctx.api.patch(owner, {"status": new}, subresource="status")


def template_hash(template: Obj, collisions: int = 0) -> str:
    """A short digest of a pod template, the same on every run."""
    text = json.dumps([template, collisions], sort_keys=True)
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SAFE[b % len(_SAFE)] for b in digest[:10])


def pod_from_template(owner: Obj, template: Obj, *, name: str = "") -> Obj:
    """A pod as its controller creates it. Without ``name`` the server generates one from the owner's."""
    m = meta(template)
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": meta(owner)["namespace"],
            "labels": dict(m.get("labels") or {}),
            "annotations": dict(m.get("annotations") or {}),
            "ownerReferences": [controller_ref(owner)],
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }
    if finalizers := m.get("finalizers"):
        pod["metadata"]["finalizers"] = list(finalizers)
    if name:
        pod["metadata"]["name"] = name
    else:
        pod["metadata"]["generateName"] = f"{meta(owner)['name']}-"
    return pod


def claim(
    ctx: ReconcileContext, owner: Obj, kind: GroupKind = POD, wanted: Callable[[Obj], bool] | None = None
) -> list[Obj]:
    """Adopt matching orphans, and release own objects that no longer match; returns the objects of ``owner``.

    A terminating owner adopts nothing, and a terminating orphan is not adopted. ``wanted``: others are passed over.
    """
    mine: list[Obj] = []
    chosen = spec(owner).get("selector")
    candidates = filter(wanted, ctx.indexer.claimable(uid(owner), kind, key(owner).namespace))
    for obj in candidates:
        if is_controlled_by(obj, owner):
            if selects(chosen, obj):
                mine.append(obj)
            elif not deleting(owner) and not deleting(obj):
                rest = [o for o in owners(obj) if o.get("uid") != uid(owner)]
                ctx.api.patch(obj, {"metadata": {"ownerReferences": rest or None}})
        elif (
            controller_of(obj) is None and selects(chosen, obj) and not deleting(owner) and not deleting(obj)
        ):
            change = {"metadata": {"ownerReferences": [*owners(obj), controller_ref(owner)]}}
            mine.append(ctx.api.patch(obj, change))
    return sorted(mine, key=lambda o: str(meta(o)["name"]))


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Sequence[Obj], related: Sequence[Obj], now_s: float) -> list[Obj]:
    """``pods`` sorted in the order in which they are deleted.

    Unassigned, earlier phase, not ready, lower deletion cost, more related pods on the same node, ready or
    created for a shorter time (on a logarithmic scale), more restarts; ties by uid. ``related``: the active
    pods of all ReplicaSets of the same owner.
    """
    related_on_node = Counter(spec(p).get("nodeName", "") for p in related if active(p))
    return sorted(pods, key=lambda p: _rank(p, related_on_node[spec(p).get("nodeName", "")], now_s))


def deletion_cost(pod: Obj) -> int:
    """The pod's deletion cost; an invalid value counts as 0."""
    text = annotations_of(pod).get(POD_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _rank(pod: Obj, related_on_node: int, now_s: float) -> tuple[object, ...]:
    is_ready = ready(pod)
    ready_since_s = seconds((condition(pod, "Ready") or {}).get("lastTransitionTime")) if is_ready else 0.0
    restarts = max((c.get("restartCount", 0) for c in status(pod).get("containerStatuses") or ()), default=0)
    return (
        bool(spec(pod).get("nodeName")),
        _PHASES.get(status(pod).get("phase", "Pending"), 0),
        is_ready,
        deletion_cost(pod),
        -related_on_node,
        _age_rank(ready_since_s, now_s) if is_ready else 0,
        -restarts,
        _age_rank(seconds(meta(pod).get("creationTimestamp")), now_s),
        uid(pod),
    )


def _age_rank(since_s: float, now_s: float) -> int:
    """Ages in powers of two: among pods of a similar age the uid decides, which spreads deletions over the nodes."""
    age_s = now_s - since_s
    return int(math.log2(age_s)) + 1 if age_s >= 1 else 0
