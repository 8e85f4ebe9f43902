"""PodDisruptionBudgets: how many evictions each allows right now (pkg/controller/disruption).

The eviction subresource decrements ``disruptionsAllowed``; only this controller increases it. Healthy is a Ready pod
that is neither terminating nor in ``disruptedPods``; an entry of ``disruptedPods`` expires after two minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube_sandbox.apiserver.json_values import seconds
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    BUDGET,
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Obj,
    condition,
    controller_of,
    deleting,
    group_kind,
    group_kind_of,
    key,
    meta,
    new_condition,
    ready,
    scaled_value,
    selects,
    spec,
    status,
    terminal,
    with_condition,
)
from rescheduler.model.records import ObjectKey

DELETION_TIMEOUT_S = 120.0
"""How long a granted eviction may take until the pod is deleted (DeletionTimeout)."""

_SCALABLE = (REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)


class DisruptionController:
    """Keeps the status of every PodDisruptionBudget."""

    name = "disruption"
    watches = frozenset({BUDGET, POD, DEPLOYMENT, *_SCALABLE})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The budget; for a pod the budgets that select it; for a workload all budgets of its namespace."""
        obj, old = change.object, change.previous
        kind = group_kind(obj)
        if kind == BUDGET:
            return [key(obj)]
        budgets = indexer.within(BUDGET, key(obj).namespace)
        if kind == POD:
            seen = [obj, *([old] if old is not None else [])]
            return [key(b) for b in budgets if any(_covers(b, p) for p in seen)]
        if old is not None and change.type == "MODIFIED" and spec(old) == spec(obj):
            return []
        return [key(b) for b in budgets]

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Compute the status and write it if it changed; returns when the next entry of disruptedPods expires."""
        budget = ctx.indexer.at(BUDGET, request)
        if budget is None:
            return None
        pods = [
            p for p in ctx.indexer.within(POD, request.namespace) if _covers(budget, p) and not terminal(p)
        ]
        found = expected_pods(ctx.indexer, budget, pods)
        if found is None:  # failSafe: a pod has no controller with a scale
            self._write(ctx, budget, (0, 0, 0, 0), {}, "SyncFailed")
            return None
        expected, desired = found
        disrupted = _still_disrupted(budget, pods, ctx.now_s)
        healthy = sum(ready(p) and not deleting(p) and key(p).name not in disrupted for p in pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        reason = "SufficientPods" if allowed else "InsufficientPods"
        self._write(ctx, budget, (healthy, desired, expected, allowed), disrupted, reason)
        due = [seconds(t) + DELETION_TIMEOUT_S for t in disrupted.values()]
        return min(due) + 1.0 if due else None

    def _write(
        self,
        ctx: ReconcileContext,
        budget: Obj,
        counts: tuple[int, int, int, int],
        disrupted: dict[str, str],
        reason: str,
    ) -> None:
        healthy, desired, expected, allowed = counts
        former = status(budget).get("disruptedPods") or {}
        generation = int(meta(budget).get("generation") or 0)
        new = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": generation,
        }
        old = condition(budget, "DisruptionAllowed") or {}
        same = all(status(budget).get(k) == v for k, v in new.items())
        if same and former == disrupted and old.get("reason") == reason:
            return
        conditions = _marked(budget, reason, allowed=bool(allowed), now_s=ctx.now_s)
        gone = dict.fromkeys(former.keys() - disrupted.keys())
        change = {**new, "disruptedPods": {**disrupted, **gone}, "conditions": conditions}
        guard = {"resourceVersion": meta(budget).get("resourceVersion")}
        ctx.api.patch(budget, {"metadata": guard, "status": change}, subresource="status")


def expected_pods(indexer: Indexer, budget: Obj, pods: Sequence[Obj]) -> tuple[int, int] | None:
    """(expectedPods, desiredHealthy); None if the controller of a pod has no scale."""
    most_down = spec(budget).get("maxUnavailable")
    least_up = spec(budget).get("minAvailable")
    if most_down is None and isinstance(least_up, int):
        return len(pods), least_up
    if most_down is None and least_up is None:
        return 0, 0
    expected = _scale_of_controllers(indexer, pods)
    if expected is None:
        return None
    if most_down is not None:
        return expected, max(expected - scaled_value(most_down, expected, round_up=True), 0)
    return expected, scaled_value(least_up, expected, round_up=True)


def _scale_of_controllers(indexer: Indexer, pods: Sequence[Obj]) -> int | None:
    """Sum of the replicas of all controllers of these pods; a Deployment stands for its ReplicaSets."""
    scales: dict[str, int] = {}
    for pod in pods:
        ref = controller_of(pod)
        if ref is None:
            continue
        owner = indexer.by_uid(ref.get("uid", ""))
        if owner is None or group_kind_of(ref.get("apiVersion", ""), ref["kind"]) not in _SCALABLE:
            return None
        above = controller_of(owner)
        if above is not None and above.get("kind") == "Deployment":
            owner = indexer.by_uid(above.get("uid", "")) or owner
        replicas = spec(owner).get("replicas")
        scales[meta(owner)["uid"]] = 1 if replicas is None else int(replicas)
    return sum(scales.values())


def _covers(budget: Obj, pod: Obj) -> bool:
    return selects(spec(budget).get("selector"), pod)


def _still_disrupted(budget: Obj, pods: Sequence[Obj], now_s: float) -> dict[str, str]:
    entries = status(budget).get("disruptedPods") or {}
    alive = {key(p).name for p in pods if not deleting(p)}
    return {n: t for n, t in entries.items() if n in alive and seconds(t) + DELETION_TIMEOUT_S >= now_s}


def _marked(budget: Obj, reason: str, *, allowed: bool, now_s: float) -> list[Obj]:
    mark = new_condition("DisruptionAllowed", reason, "", now_s, state="True" if allowed else "False")
    mark["observedGeneration"] = int(meta(budget).get("generation") or 0)
    return with_condition(status(budget).get("conditions") or [], mark)
