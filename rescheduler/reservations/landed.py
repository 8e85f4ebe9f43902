"""An owner that was bound in its room: when that counts as a success (pure).

Being bound is not enough. A pending pod of higher priority can preempt the owner in the next second, and the kubelet can refuse
it (OutOfcpu). So a Reservation has Succeeded once the owner runs, or has been bound for ``STARTS_WITHIN_S``, and no pending pod
is about to preempt it. An owner that ends before is a failure, and the Reservation and its move say so. That it has not
started is told once it has lasted ``TOLD_AFTER_S``, as every wait of a hand-over.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.records import Pod, PodPhase
from rescheduler.reservations.handover_outcome import Handover
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.waits import TOLD_AFTER_S, claim_message

STARTS_WITHIN_S: Final = 2.0
"""A kubelet that refuses a pod does so within this time. Nobody waits longer for images to be pulled."""
THREATENED_FOR_S: Final = 10.0
"""kube-scheduler tries a pending pod again within this time: its longest back-off."""


def landed(observed: ObservedReservation, claimant: Pod, now_s: float) -> Handover:
    """The outcome for a claimant that is bound to the node of its room and is not being deleted."""
    where = f"{claimant.key} landed on node {claimant.node}"
    if claimant.phase is PodPhase.FAILED:
        return Handover(
            event=ReservationEvent.CLAIMANT_LOST, message=f"{where} and failed there before it had started"
        )
    since_s = observed.landed_since_s or now_s
    until_s = since_s + (THREATENED_FOR_S if observed.threatened else STARTS_WITHIN_S)
    started = claimant.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED)
    if now_s >= until_s or (started and not observed.threatened):
        return Handover(event=ReservationEvent.OWNER_BOUND, message=where)
    told_s = since_s + TOLD_AFTER_S
    if not observed.threatened and now_s < told_s:
        claimed = claim_message((claimant,), claimant.node, None, now_s)
        return Handover(event=ReservationEvent.CLAIMED, message=claimed, wake_at_s=told_s)
    why = observed.threatened or "it has not started yet"
    return Handover(event=ReservationEvent.CLAIMED, message=f"{where}; {why}", wake_at_s=until_s)


def lost_after_landing(claimant: Pod) -> Handover:
    """The outcome for a claimant that was bound there and is being deleted before its landing was confirmed."""
    why = f" ({claimant.disruption_reason})" if claimant.disruption_reason else ""
    return Handover(
        event=ReservationEvent.CLAIMANT_LOST,
        message=f"{claimant.key} landed on node {claimant.node} and was deleted within seconds{why}",
    )
