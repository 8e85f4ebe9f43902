"""The hand-over to a pod that was pending before its room was there, and so has no gate of ours (pure).

Such a pod cannot be nominated: whenever kube-scheduler tries and refuses it, the nomination is lost (0 of 10 landed). The
hand-over taint on the node, which only this pod tolerates, holds the room instead (10 of 10, also against pods of higher
priority). Which step comes next is derived from the objects:

| what is seen | what is done next |
|---|---|
| the pod does not tolerate our taint | it gets the toleration; nothing is claimed yet (``coordination.pending_owners``) |
| it tolerates it | the room is claimed (``machine``) |
| claimed, the node not tainted, or only just | the node is tainted (``coordination.handover_order``); wait until the scheduler has surely seen it |
| the taint is in force | the placeholder is deleted |
| the placeholder is gone | wait until the pod is bound (``handover``), then the taint is removed |

Promises: until the placeholder is deleted, whatever happens to the pod or the node only drops the claim, and the room stays held
for the next owner; no claim keeps a node tainted for longer than its limits.
"""

from __future__ import annotations

from rescheduler.calls.pods import delete_placeholder
from rescheduler.model.records import Pod
from rescheduler.reservations.expiry import expired
from rescheduler.reservations.handover import holds_gate, tolerates_taint
from rescheduler.reservations.handover_outcome import Handover
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import claim_message, look_again_s


def takes_by_taint(pod: Pod, node: str) -> bool:
    """True for a claimant of room on ``node`` that is held by the taint instead of a nomination."""
    return not holds_gate(pod) and tolerates_taint(pod, node)


def hand_over_by_taint(
    observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> Handover | None:
    """The next step while the placeholder stands; None if the claimant is another one, or the placeholder is gone."""
    claimant, placeholder = observed.claimant, observed.placeholder
    target = observed.reservation.status.node_name
    if (
        claimant is None
        or claimant.deleting
        or not takes_by_taint(claimant, target)
        or observed.by_koordinator
    ):
        return None
    if placeholder is None or not observed.held or claimant.node == target or observed.node is None:
        return None
    limit_s = observed.claimed_since_s + settings.gate_limit_s if observed.claimed_since_s else None
    why = _dropped(observed, claimant, now_s, limit_s, settings)
    if why:
        message = f"room is held on node {target}; {why}"
        return Handover(event=ReservationEvent.CLAIM_DROPPED, message=message)
    return Handover(
        event=ReservationEvent.CLAIMED,
        message=claim_message((claimant,), target, observed.wait, now_s),
        calls=(delete_placeholder(placeholder),) if observed.wait is None else (),
        wake_at_s=look_again_s(
            observed.wait, now_s, now_s + settings.gate_limit_s if limit_s is None else limit_s
        ),
    )


def _dropped(
    observed: ObservedReservation,
    claimant: Pod,
    now_s: float,
    limit_s: float | None,
    settings: ReservationSettings,
) -> str:
    """Why the claim is given back; "" if it is not."""
    target = observed.reservation.status.node_name
    if claimant.node:
        return f"{claimant.key} landed on node {claimant.node}"
    if not observed.node_usable:
        return f"it was not given to {claimant.key}, because node {target} is not Ready or not schedulable"
    if observed.unfit:
        return f"{claimant.key} does not fit there any more: {observed.unfit}"
    if expired(observed, now_s, settings):
        return "its time is over"
    if limit_s is not None and now_s >= limit_s:
        return f"it could not be given to {claimant.key} within {settings.gate_limit_s:g} s"
    return ""
