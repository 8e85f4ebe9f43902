"""A step of a Reservation while it is computed: the status so far, the calls, and when to step again. Pure.

A room whose node is in trouble before any pod has claimed it goes to another node: the node is drained, cordoned or NotReady for
longer than its grace, or the kubelet or somebody evicted the placeholder. Whoever reserved the room asked for room, not for that
node: the Reservation is Pending again and is placed anew, on the same terms as a new one, until its own end. Rows K2, K13. A node
that is deleted ends it (row K72), and so does the loss of a room that a move or a pod counts on: its target cannot be another
node any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import delete_placeholder, release
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.own_objects import condition, seconds_of
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.model.room_of_move import made_for
from rescheduler.model.times import earliest
from rescheduler.reservations.koordinator import let_go
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_lifecycle import (
    CONDITION_READY,
    FINISHED,
    ReservationEvent,
    ReservationReason,
    transition,
)
from rescheduler.reservations.settings import ReservationSettings

_LOSSES: Final = frozenset({ReservationEvent.NODE_NOT_READY, ReservationEvent.PLACEHOLDER_LOST})
"""Events after which the room may be on another node."""


@dataclass(slots=True, kw_only=True)
class ReservationDraft:
    """Collects the outcome of one step. Only the modules of the machine use it."""

    observed: ObservedReservation
    now_s: float
    settings: ReservationSettings
    status: ReservationStatus
    calls: list[AnyCall] = field(default_factory=list)
    wake_at_s: float | None = None

    def wake(self, at_s: float | None) -> None:
        """Take the next step at that time at the latest."""
        self.wake_at_s = earliest(self.wake_at_s, at_s)

    def do(self, *calls: AnyCall) -> None:
        """Add calls, to be carried out after the status is written."""
        self.calls.extend(calls)

    def change(self, **fields: Any) -> None:
        """Set fields of the status."""
        self.status = msgspec.structs.replace(self.status, **fields)

    def enter(self, event: ReservationEvent, message: str) -> None:
        """Take the transition of ``event`` (``lifecycle``). Raises TransitionError."""
        if event is ReservationEvent.CLAIM_DROPPED:
            self.change(current_owners=(), allocated=NO_RESOURCES)
        if event in _LOSSES and self._goes_elsewhere():
            self.without_node(message)
            self.do(*(delete_placeholder(pod) for pod in self._standing() if not pod.terminal))
            self.delete_ended()
            return
        self.status = transition(self.status, event, message, self.now_s)
        if self.status.phase in FINISHED:
            self.let_go()

    def node_deleted(self, node: str) -> None:
        """The node of the room does not exist any more."""
        self.enter(ReservationEvent.NODE_DELETED, f"node/{node} does not exist any more")

    def node_bad(self) -> None:
        """The node of the room is not usable. It often comes back; the pods on it are not evicted at once either."""
        observed = self.observed
        message = f"node/{self.status.node_name} is not Ready or not schedulable"
        if observed.other_node and observed.migration is not None:  # its pod has come and is not kept waiting
            message = f"{message}; node/{observed.other_node} would take the replacement"
            self.enter(ReservationEvent.NODE_NOT_READY, message)
            return
        ready = condition(self.status.conditions, CONDITION_READY)
        if ready is None or ready.reason != ReservationReason.NODE_NOT_READY:
            self.enter(ReservationEvent.NODE_BAD, message)
            return
        limit_s = seconds_of(ready.last_probe_time) + self.settings.node_grace_s
        if self.now_s >= limit_s:
            self.enter(ReservationEvent.NODE_NOT_READY, message)
        else:
            self.wake(limit_s)

    def take_owner(self, pod: Pod) -> None:
        """The pod uses the room from now on."""
        owner = ObjectRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        self.change(current_owners=(owner,), allocated=pod.spec.requests)

    def claim(self, pod: Pod) -> None:
        """The room is for that pod from now on."""
        self.take_owner(pod)
        self.enter(ReservationEvent.CLAIMED, f"claimed by {pod.key}")

    def without_node(self, why: str) -> None:
        """It looks for a node again. Raises TransitionError."""
        message = f"{why}; another node is looked for"
        self.status = transition(self.status, ReservationEvent.NODE_LOST, message, self.now_s)
        self.change(node_name="", allocatable=NO_RESOURCES, allocated=NO_RESOURCES, making_room=None)

    def delete_placeholders(self) -> None:
        """Delete those that stand."""
        self.do(*map(delete_placeholder, self._standing()))

    def delete_ended(self) -> None:
        """Delete those that have ended, which makes room for the next ones, each ``retarget_s`` after it was made at the earliest.

        A kubelet that ends each at once, because a device is missing, say, would get them as fast as they can be made.
        """
        for pod in self._standing():
            due_s = pod.created_at_s + self.settings.retarget_s
            if pod.terminal and self.now_s >= due_s:
                self.do(delete_placeholder(pod))
            elif pod.terminal:
                self.wake(due_s)

    def _standing(self) -> list[Pod]:
        return [pod for pod in self.observed.placeholders if not pod.deleting]

    def let_go(self) -> None:
        """Release everything: the claimant's gate first, so that no pod waits for room that is being freed."""
        why = f"Reservation {self.observed.reservation.name} has ended"
        self.do(*(release(pod, why) for pod in self.observed.in_flight if holds_gate(pod)))
        self.delete_placeholders()
        self.do(*let_go(self.observed))

    def _goes_elsewhere(self) -> bool:
        """True if room on any node will do: nobody uses it, no move counts on it, and no node is named."""
        observed, reservation = self.observed, self.observed.reservation
        return not (
            self.status.current_owners
            or observed.migration is not None
            or made_for(reservation)
            or reservation.template_node
            or observed.by_koordinator
        )
