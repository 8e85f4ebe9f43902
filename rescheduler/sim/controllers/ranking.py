"""In which order a ReplicaSet or Job gives pods up (controller.ActivePodsWithRanks). Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rescheduler.model.names import POD_DELETION_COST
from rescheduler.sim.controllers.wire import (
    Obj,
    active,
    condition,
    meta,
    notes,
    ready,
    seconds,
    spec,
    status,
    uid,
)

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Sequence[Obj], related: Sequence[Obj], now_s: float) -> list[Obj]:
    """``pods`` sorted by who goes first.

    Unassigned, earlier phase, not ready, lower deletion cost, more related pods on the same node, ready or
    created for a shorter time (on a logarithmic scale), more restarts; ties by uid. ``related``: the active
    pods of all ReplicaSets of the same owner.
    """
    neighbours = Counter(spec(p).get("nodeName", "") for p in related if active(p))
    return sorted(pods, key=lambda p: _rank(p, neighbours[spec(p).get("nodeName", "")], now_s))


def deletion_cost(pod: Obj) -> int:
    """The pod's deletion cost; one that cannot be read counts as 0."""
    text = notes(pod).get(POD_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _rank(pod: Obj, neighbours: int, now_s: float) -> tuple[object, ...]:
    is_ready = ready(pod)
    ready_since_s = seconds((condition(pod, "Ready") or {}).get("lastTransitionTime")) if is_ready else 0.0
    restarts = max((c.get("restartCount", 0) for c in status(pod).get("containerStatuses") or ()), default=0)
    return (
        bool(spec(pod).get("nodeName")),
        _PHASES.get(status(pod).get("phase", "Pending"), 0),
        is_ready,
        deletion_cost(pod),
        -neighbours,
        _age_rank(ready_since_s, now_s) if is_ready else 0,
        -restarts,
        _age_rank(seconds(meta(pod).get("creationTimestamp")), now_s),
        uid(pod),
    )


def _age_rank(since_s: float, now_s: float) -> int:
    """Ages in powers of two: pods of a like age are chosen by uid, which spreads the choice over nodes."""
    age_s = now_s - since_s
    return int(math.log2(age_s)) + 1 if age_s >= 1 else 0
