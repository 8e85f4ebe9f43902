"""The invariants at the end of a history: nothing is left behind, and each workload has the pods that it wants.

In gentle histories also: each replacement of an evicted pod was bound in the room that was held for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import Final

from harness.histories.clusters import ClusterPlan
from harness.histories.observed_cluster import Seen, app_of, gated, over, phase
from harness.histories.user_requests import Asks
from kube_sandbox.controllers.unstructured import (
    Obj,
    annotations_of,
    condition,
    controller_of,
    deleting,
    key,
    labels,
    ready,
    spec,
    status,
    terminal,
    uid,
)
from rescheduler.model.names import (
    ANNOTATION_HANDOVER_TAINT,
    ANNOTATION_KEPT_EMPTY,
    ANNOTATION_MODE,
    LABEL_PLACEHOLDER,
    LABEL_START_FIRST,
    TAINT_KEPT_EMPTY,
)

_BROKEN: Final = frozenset({
    "LandedElsewhere", "GateTimeout", "PlaceholderLost", "ReplacementUngated", "ReplacementPending",
    "ReplacementMissing", "ReservationLost",
})  # fmt: skip
"""Reasons with which no move or Reservation of a gentle history may end."""
_OUR_TAINTS: Final = (ANNOTATION_HANDOVER_TAINT, TAINT_KEPT_EMPTY)
_BROKEN_SOFTLY: Final = frozenset({"GateTimeout", "ReplacementUngated"})
"""The same for mode Soft, in which the scheduler may give the room to any pod."""


def leftovers(seen: Seen, plan: ClusterPlan, asks: Asks) -> list[str]:
    """Messages about what has not ended, was not released, or has a wrong size."""
    return [
        *(f"move {key(m).name} is {phase(m)}" for m in seen.moves.values() if not over(m)),
        *(f"room {name} is {phase(r)}" for name, r in seen.rooms.items() if not over(r)),
        *(f"gate key {found} is left" for found in seen.live),
        *_left_on_nodes(seen),
        *_left_of_pods(seen),
        *_wrong_sizes(seen, plan, asks),
    ]


def broken(seen: Seen, excused: Container[str]) -> list[str]:
    """Moves and Reservations of a gentle history with a forbidden reason. ``excused``: uids of both."""
    forgiven = {name for name, room in seen.rooms.items() if uid(room) in excused}
    asked = Counter(spec(m)["podRef"].get("uid") for m in seen.moves.values())
    twice = {app_of(m) for m in seen.moves.values() if asked[spec(m)["podRef"].get("uid")] > 1}
    moves = (
        f"move {key(m).name} ended as {status(m).get('reason')}: {status(m).get('message')}"
        for m in seen.moves.values()
        if phase(m) == "Failed"
        and status(m).get("evictedAt")
        and status(m).get("reason") in (_BROKEN_SOFTLY if status(m).get("mode") == "Soft" else _BROKEN)
        and status(m).get("reservationName") not in forgiven
        and uid(m) not in excused
        and app_of(m)
        not in twice  # of two moves of one pod one fails, and its Reservation may be claimed by the replacement of the other
    )
    rooms = (
        f"room {name} ended as {_reason(room)}"
        for name, room in seen.rooms.items()
        if phase(room) == "Failed"
        and _reason(room) in _BROKEN
        and name not in forgiven
        and annotations_of(room).get(ANNOTATION_MODE) != "Soft"
    )
    return [*moves, *rooms]


def outcome(obj: Obj) -> str:
    """Phase and reason with which a move or a Reservation ended."""
    reason = status(obj).get("reason") or _reason(obj)
    return f"{obj['kind']} {phase(obj)}" + (f" ({reason})" if phase(obj) == "Failed" else "")


def _reason(room: Obj) -> str:
    found: str = (condition(room, "Ready") or {}).get("reason", "")
    return found


def _left_on_nodes(seen: Seen) -> Iterable[str]:
    for name, node in seen.nodes.items():
        yield from (f"node {name} has the taint {t['key']}" for t in _taints(node) if t["key"] in _OUR_TAINTS)
        if ANNOTATION_KEPT_EMPTY in annotations_of(node):
            yield f"node {name} has the note {annotations_of(node)[ANNOTATION_KEPT_EMPTY]}"
        if spec(node).get("unschedulable"):
            yield f"node {name} is cordoned"


def _taints(node: Obj) -> list[Obj]:
    found: list[Obj] = spec(node).get("taints") or []
    return found


def _left_of_pods(seen: Seen) -> Iterable[str]:
    for pod in seen.pods.values():
        name = key(pod).name
        if LABEL_PLACEHOLDER in labels(pod):
            yield f"placeholder {name} is left"
        if gated(pod):
            yield f"pod {name} is held"
        if LABEL_START_FIRST in labels(pod) and controller_of(pod) is None:
            yield f"replacement {name} belongs to nobody"


def _wrong_sizes(seen: Seen, plan: ClusterPlan, asks: Asks) -> Iterable[str]:
    for workload in plan.workloads:
        # A ReplicaSet replaces a pod that a kubelet has rejected, and leaves it to the collector of ended pods.
        alive = (p for p in seen.pods.values() if not deleting(p) and not terminal(p))
        mine = [p for p in alive if labels(p).get("app") == workload.name]
        wanted = asks.sizes[workload.name]
        stuck = any(map(_nowhere_to_go, mine))  # rollouts and ordered creation wait for such a pod
        if len(mine) != wanted and not stuck:
            yield f"{workload.name} has {len(mine)} pods, {wanted} are wanted"
        for pod in mine:
            if not ready(pod) and not _nowhere_to_go(pod):
                yield f"pod {key(pod).name} is not Ready"


def _nowhere_to_go(pod: Obj) -> bool:
    """True if the scheduler has no node for the pod, because of the workload's rules or because the cluster is too small."""
    said = condition(pod, "PodScheduled") or {}
    return said.get("status") == "False" and said.get("reason") == "Unschedulable"
