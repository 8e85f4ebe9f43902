"""Room that is promised before it is free (rows K6, K14, K22, K23, K45, K55, K56, K84).

A placeholder that is gated and nominated to its node: the scheduler counts it there against everybody of the same or
lower priority, so each piece of room that is freed stays free for it, and nothing that runs is disturbed. Once there
is room for the whole of it, its gate goes off. A plainly pending placeholder lost such room to smaller pods in 8 of 8
tries; this one kept it in 8 of 8.
"""

from __future__ import annotations

from rescheduler.model import names
from rescheduler.model.records import Pod
from rescheduler.reservations import actions as act
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.placeholder import pinned_node


def waits_for_room(pod: Pod) -> bool:
    """True if the placeholder is held until its room is free."""
    return names.GATE_ROOM in pod.spec.gates


def lands(pod: Pod) -> bool:
    """True if the placeholder was let in and the scheduler has not refused it: it is bound in a moment."""
    return not waits_for_room(pod) and not pod.unschedulable_message


def wait_for_room(observed: ObservedReservation, holder: Pod) -> tuple[act.ReservationAction, ...]:
    """The next thing to do for a placeholder that is not bound; () while there is nothing but to wait.

    While another room on the node is handed over, or an older promise there can be kept now, the nomination is taken
    back: it would count against them. Not before the node is shut to everybody else: what is freed in between would
    be lost.
    """
    node = pinned_node(holder)
    if observed.yields:
        withdraw = act.Nominate(holder.key, holder.uid, "")
        return (withdraw,) if holder.nominated_node and observed.shut and not lands(holder) else ()
    if holder.nominated_node != node:
        return (act.Nominate(holder.key, holder.uid, node),)
    if waits_for_room(holder) and observed.room_free and observed.node_usable:
        return (act.AdmitPlaceholder(holder.key, holder.uid),)
    return ()


def words(holder: Pod) -> str:
    """What people are told meanwhile."""
    node = pinned_node(holder)
    if not waits_for_room(holder) and holder.unschedulable_message:
        return f"waiting for room on node {node}: {holder.unschedulable_message}"
    return f"promised on node {node}; waiting until its pods have left enough room"
