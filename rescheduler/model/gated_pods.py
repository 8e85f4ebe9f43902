"""Why a pod waits at our gate: which Reservation holds it, lacks, or refuses it. Pure.

The words are those of ``explain``, of ``status`` and the live page, and of the Event on the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rescheduler.model.bounds import LONGEST_NAME
from rescheduler.model.names import ANNOTATION_RESERVATION
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.own_objects import condition, who_waits
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.visible import visible_line

RELEASE: Final = "rescheduler release-gates"
"""The command that lets them go while no controller runs."""


def gated_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Those that wait, the oldest first."""
    return sorted(
        (pod for pod in pods if holds_gate(pod) and not pod.deleting), key=lambda p: (p.created_at_s, p.key)
    )


def why_gated(pod: Pod, rooms: Mapping[str, Reservation]) -> str:
    """What people read behind "at the gate: ", about a pod that has it. ``rooms``: empty also where none can be read."""
    name = pod.annotations.get(ANNOTATION_RESERVATION) or ""
    room = rooms.get(name)
    if not 0 < len(name) <= LONGEST_NAME:
        return "it names no Reservation, so the controller lets it go"
    if room is None:
        named = visible_line(f"Reservation {name}")
        gone = f"{named} does not exist, so the controller lets it go"
        return gone if rooms else f"it waits for {named}, of which nothing is known here"
    status = room.status
    if status.phase in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED):
        taken = ", ".join(f"{one.namespace}/{one.name}" for one in status.current_owners)
        ended = f"was used by {taken}" if taken else f"has ended: {status.phase}{_said(room)}"
        return f"Reservation {name} {ended}; the controller gives it another one, or lets it go"
    if refused := who_waits(status.conditions):
        return f"Reservation {name} keeps pods out: {refused}"
    if any(owner.uid == pod.uid for owner in status.current_owners):
        return f"Reservation {name} is being handed over to it on node/{status.node_name}"
    if status.phase is ReservationPhase.AVAILABLE:
        return f"Reservation {name} is held on node/{status.node_name}"
    return f"Reservation {name} has no capacity yet: {status.phase}{_said(room)}"


def _said(room: Reservation) -> str:
    for kind in ("Scheduled", "Ready"):
        found = condition(room.status.conditions, kind)
        if found is not None and found.status != "True" and (found.message or found.reason):
            return f": {found.message or found.reason}"
    return ""
