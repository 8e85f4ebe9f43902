"""The status of a Deployment: counts over its ReplicaSets, Available and Progressing conditions."""

from __future__ import annotations

from collections.abc import Sequence

from kube_sandbox.apiserver.json_values import timestamp
from kube_sandbox.controllers import rollout
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import Obj, condition, meta, status, with_condition


def write_status(ctx: ReconcileContext, deployment: Obj, sets: Sequence[Obj], new: Obj | None) -> None:
    """Write the status if it changed. ``sets`` holds all ReplicaSets, the new one included."""
    counts = _counts(deployment, sets, new)
    conditions = _conditions(deployment, new, counts, ctx.now_s)
    now = status(deployment)
    unchanged = all(now.get(k, 0) == v for k, v in counts.items())
    if unchanged and conditions == (now.get("conditions") or []):
        return
    ctx.api.patch(deployment, {"status": {**counts, "conditions": conditions}}, subresource="status")


def _counts(deployment: Obj, sets: Sequence[Obj], new: Obj | None) -> dict[str, int]:
    def total(field: str, chosen: Sequence[Obj]) -> int:
        return sum(int(status(s).get(field) or 0) for s in chosen)

    newest = [s for s in sets if new is not None and meta(s)["name"] == meta(new)["name"]]
    available = total("availableReplicas", sets)
    desired = sum(rollout.size_of(s).desired for s in sets)
    return {
        "observedGeneration": int(meta(deployment).get("generation") or 0),
        "replicas": total("replicas", sets),
        "updatedReplicas": total("replicas", newest),
        "readyReplicas": total("readyReplicas", sets),
        "availableReplicas": available,
        "unavailableReplicas": max(desired - available, 0),
    }


def _conditions(deployment: Obj, new: Obj | None, counts: dict[str, int], now_s: float) -> list[Obj]:
    bounds = rollout.bounds_of(deployment)
    enough = counts["availableReplicas"] >= bounds.at_least
    result = with_condition(
        status(deployment).get("conditions") or [],
        _condition(
            "Available",
            enough,
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            now_s,
        ),
    )
    result = _keep_times(deployment, result)
    if new is None:
        return result
    done = counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == bounds.replicas
    reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
    verb = "has successfully progressed" if done else "is progressing"
    progressing = _condition("Progressing", True, reason, f'ReplicaSet "{meta(new)["name"]}" {verb}.', now_s)
    return _keep_times(deployment, with_condition(result, progressing))


def _condition(kind: str, holds: bool, reason: str, message: str, now_s: float) -> Obj:  # noqa: FBT001 - the status of a condition is a boolean
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastUpdateTime": timestamp(now_s),
        "lastTransitionTime": timestamp(now_s),
    }


def _keep_times(deployment: Obj, conditions: list[Obj]) -> list[Obj]:
    """An unchanged condition keeps its update time, so that equal statuses compare equal."""
    result = []
    for new in conditions:
        old = condition(deployment, new["type"])
        same = old is not None and all(old.get(k) == new[k] for k in ("status", "reason", "message"))
        result.append(old if same and old is not None else new)
    return result
