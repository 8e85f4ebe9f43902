"""What a claimant, or a placeholder that is not bound, waits for: the reasons and their messages (pure).

``coordination.handover_order`` decides for all Reservations of a node at once whether one of the reasons holds.
``handover`` and ``split`` take the next step when none holds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rescheduler.model.records import Pod

_WAITING: Final = "; waiting: "
TOLD_AFTER_S: Final = 1.0
"""A wait is written into the status once it has lasted this long. A hand-over without trouble takes less time in all,
and must not cost further writes."""


class HandoverWait(enum.StrEnum):
    """What a claimant waits for before the next step of its hand-over. Decided in ``coordination.handover_order``.

    A claimant waits for them in this order; ``docs/troubleshooting.md`` says what to do about each.
    """

    NODE_NOT_USABLE = "NodeNotUsable"
    FOREIGN_GATE = "ForeignGate"
    SCHEDULER_BEHIND = "SchedulerBehind"
    TOLERATED = "Tolerated"
    OTHER_LANDING = "OtherLanding"
    PLACEHOLDER_TERMINATING = "PlaceholderTerminating"
    TAINT_SETTLING = "TaintSettling"
    PLACEHOLDER_UNBOUND = "PlaceholderUnbound"
    OTHER_ROOM_OCCUPIED = "OtherRoomOccupied"
    NOMINATED_POD_COUNTED = "NominatedPodCounted"
    BINDING = "Binding"


WAIT_MESSAGES: Final[Mapping[HandoverWait, str]] = {
    HandoverWait.NODE_NOT_USABLE: "node/{node} is not Ready or not schedulable",
    HandoverWait.FOREIGN_GATE: "another program has not removed its own scheduling gate yet",
    HandoverWait.SCHEDULER_BEHIND: "its scheduler has not shown yet that it is up to date after an outage or a restart",
    HandoverWait.TOLERATED: "another pending pod tolerates the hand-over taint of node/{node} and would take the room",
    HandoverWait.OTHER_LANDING: "another replacement on node/{node} has not landed yet",
    HandoverWait.PLACEHOLDER_TERMINATING: "its placeholder on node/{node} has not terminated yet",
    HandoverWait.TAINT_SETTLING: "other pods are pending, and node/{node} is being tainted against them",
    HandoverWait.PLACEHOLDER_UNBOUND: "another Reservation's placeholder is pending for node/{node} and could take the room",
    HandoverWait.OTHER_ROOM_OCCUPIED: "the placeholder of another nominated replacement on node/{node} has not terminated yet",
    HandoverWait.NOMINATED_POD_COUNTED: "a pod that is nominated to node/{node} is counted there by kube-scheduler until it fits",
    HandoverWait.BINDING: "kube-scheduler has not bound it to node/{node} yet",
}
"""Part of the message of the condition Ready. ``{node}``: name of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why the claimants of one Reservation take no further step now."""

    reason: HandoverWait
    since_s: float = 0.0
    """When this reason was first seen, without a break."""
    until_s: float | None = None
    """When the wait ends at the latest; None: it ends only when something changes in the cluster."""
    schedulers: frozenset[str] = frozenset()
    """For SCHEDULER_BEHIND: the schedulers that may be behind, by schedulerName."""


class PlaceholderTurn(enum.StrEnum):
    """What a placeholder that is not bound does now. Decided in ``coordination.handover_order``."""

    WAIT = "Wait"
    """Nothing; if it is gone, it is created again."""
    NOMINATE = "Nominate"
    """Its room is not free yet: it is nominated, so that other pods do not take what becomes free."""
    WITHDRAW = "Withdraw"
    """Its nomination is withdrawn: it would count against a hand-over, or against an older preallocation that fits now."""
    ADMIT = "Admit"
    """Its room is free: its scheduling gate is removed."""
    GIVE_WAY = "GiveWay"
    """It is deleted, and not created again, while another room on its node is handed over: it could take that room."""
    MOVE = "Move"
    """It is created again on another node that has room: other pods have, or keep, the room on its own node."""


def claim_message(pods: Iterable[Pod], node: str, wait: Wait | None, now_s: float) -> str:
    """The message of the condition Ready while ``pods`` are on their way to ``node``."""
    claimed = f"claimed by {', '.join(str(pod.key) for pod in pods)}"
    if wait is None or now_s < wait.since_s + TOLD_AFTER_S:
        return claimed
    return f"{claimed}{_WAITING}{WAIT_MESSAGES[wait.reason].format(node=node)}"


def wait_is_over(stored: str, now: str) -> bool:
    """True if the stored ``claim_message`` tells of a wait, and that of now is the same without it."""
    return stored.startswith(f"{now}{_WAITING}")


def look_again_s(wait: Wait | None, now_s: float, limit_s: float) -> float:
    """When the claimants must be looked at again, even if nothing happens. ``limit_s``: at the latest."""
    if wait is None:
        return limit_s
    told_s = wait.since_s + TOLD_AFTER_S
    moments = (limit_s, wait.until_s, told_s if now_s < told_s else None)
    return min(at_s for at_s in moments if at_s is not None)
