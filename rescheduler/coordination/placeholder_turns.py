"""What placeholders that are not bound do beside the hand-overs and the other preallocations of their node. Pure.

- A preallocation is a nomination without a room. It is withdrawn while another room of the node is handed over, or while
  an older preallocation fits. The node is tainted before that, so that no other pod takes what becomes free meanwhile,
  and stays tainted until the scheduler has surely seen the nomination again.
- A placeholder that is neither gated nor bound takes whatever becomes free on its node, in spite of our taint if it
  tolerates it, and has a higher priority than most claimants. It is deleted before a placeholder there is deleted for a
  claimant, and created again later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from rescheduler.coordination.memory import Sightings
from rescheduler.coordination.node_order import NodeOrder, SeenTaints
from rescheduler.coordination.placement import Placement
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.planning.single_pod import Choice
from rescheduler.reservations.handover import tainted
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.preallocation import about_to_bind, waits_for_room
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.split import returns
from rescheduler.reservations.waits import PlaceholderTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderTurns:
    """Decides in one round. ``settle_s``: how long a scheduler may not know of a taint or a nomination yet."""

    placement: Placement
    sightings: Sightings
    taints: SeenTaints
    nodes: Mapping[str, NodeOrder]
    settle_s: float
    now_s: float

    def of(self, observed: ObservedReservation) -> tuple[PlaceholderTurn, bool]:
        """What the placeholder does now, and whether its node must be tainted for it."""
        reservation, node = observed.reservation, observed.node
        if reservation.deleting or reservation.status.phase in FINISHED:
            return PlaceholderTurn.WAIT, False
        holder = next((pod for pod in observed.placeholders if not pod.node), None)
        nominated = holder is not None and node is not None and holder.nominated_node == node.name
        machine = ObjectKey("", reservation.name)
        back_s = self.sightings.since("nominated", machine, self.now_s, state=nominated and tainted(node))
        pinned = pinned_node(holder) if holder is not None else reservation.status.node_name
        beside = self._on(pinned).another_hands_over(reservation)
        if holder is None:
            kept = node is not None and tainted(node) and not observed.flying and returns(observed)
            return PlaceholderTurn.GIVE_WAY if beside else PlaceholderTurn.WAIT, kept
        # Pending and not preallocated: the placeholder has no scheduling gate, so only a deletion keeps it out of the room.
        if reservation.status.phase is ReservationPhase.PENDING and not reservation.preallocated:
            if beside:
                return PlaceholderTurn.GIVE_WAY, False
            moves = self._taken_by_others(observed, holder, pinned)
            return PlaceholderTurn.MOVE if moves else PlaceholderTurn.WAIT, False
        withdraws = node is not None and self._withdraws(reservation, holder, node.name)
        turn = self._preallocation(observed, holder, pinned, beside=beside, withdraws=withdraws)
        kept = self._keeps_tainted(observed, holder, back_s, withdraws=withdraws)
        return turn, kept

    def _preallocation(
        self, observed: ObservedReservation, holder: Pod, pinned: str, *, beside: bool, withdraws: bool
    ) -> PlaceholderTurn:
        node = observed.node
        if beside and not waits_for_room(holder) and not about_to_bind(holder):
            # It was admitted and then refused. A scheduling gate cannot be added again, so it can only be deleted.
            return PlaceholderTurn.GIVE_WAY
        if withdraws:
            since_s = self.taints.since_s(node)
            # Not before the taint is in force: other pods would take what becomes free in between.
            shut = since_s > 0.0 and self.now_s >= since_s + self.settle_s
            now = bool(holder.nominated_node) and shut and not about_to_bind(holder)
            return PlaceholderTurn.WITHDRAW if now else PlaceholderTurn.WAIT
        if holder.nominated_node != pinned:
            return PlaceholderTurn.NOMINATE
        if waits_for_room(holder) and node is not None and observed.node_usable:
            younger = self._on(node.name).younger(holder)
            # Younger preallocations block it only by their nominations, which are withdrawn first (``_withdraws``).
            alone = not any(other.nominated_node for other in younger)
            if alone and self.placement.has_room(holder, node.name, younger):
                return PlaceholderTurn.ADMIT
        return PlaceholderTurn.MOVE if self._goes_elsewhere(observed, holder) else PlaceholderTurn.WAIT

    def _goes_elsewhere(self, observed: ObservedReservation, holder: Pod) -> bool:
        """True if another node has room; not while what becomes free here is shut for it, or about to be its own."""
        node = observed.node
        if not observed.choice.node or node is None or tainted(node) or about_to_bind(holder):
            return False
        return not self.placement.has_room(holder, node.name, self._on(node.name).younger(holder))

    def _withdraws(self, reservation: Reservation, holder: Pod, node: str) -> bool:
        """True while another room of the node is handed over, or an older preallocation there fits now."""
        order = self._on(node)
        if order.another_hands_over(reservation):
            return True
        return any(
            self.placement.has_room(other, node, order.younger(other)) for other in order.older(holder)
        )

    def _keeps_tainted(
        self, observed: ObservedReservation, holder: Pod, back_s: float, *, withdraws: bool
    ) -> bool:
        """True from before its nomination is withdrawn until the scheduler has surely seen the nomination again."""
        node = observed.node
        if node is None or holder.deleting or about_to_bind(holder) or observed.flying:
            return False
        nominated, shut = holder.nominated_node == node.name, tainted(node)
        if withdraws:
            return nominated or shut
        return shut and (not nominated or self.now_s < back_s + self.settle_s)

    def _taken_by_others(self, observed: ObservedReservation, holder: Pod, pinned: str) -> bool:
        """True if it no longer fits on its node by our own rules either, and another node has room."""
        if not holder.unschedulable_message or observed.choice.node in ("", pinned):
            return False
        return not self.placement.has_room(holder, pinned, ())

    def with_choice(self, observed: ObservedReservation) -> ObservedReservation:
        """``observed`` without a chosen node while another room of that node is handed over.

        A new placeholder has a higher priority than most claimants and could be bound in the room that becomes free.
        """
        choice, reservation = observed.choice, observed.reservation
        node = reservation.template_node or choice.node
        if choice.message or not choice.node or not self._on(node).another_hands_over(reservation):
            return observed
        blocked = Choice(message=f"another room on node/{node} is being handed over")
        return dataclasses.replace(observed, choice=blocked)

    def _on(self, node: str) -> NodeOrder:
        return self.nodes.get(node) or NodeOrder()
