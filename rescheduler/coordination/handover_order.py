"""Decides which hand-overs of one node take their next step, and what the others wait for. Pure. Placeholders: ``placeholder_turns``.

When kube-scheduler filters a pod for a node, it adds the pods of the same or higher priority that are nominated to that
node to those that are bound there. All rules follow from that:

- While a claimant is nominated and its placeholder is still bound, its room counts twice. Another claimant on that node
  that is released at this moment is refused although its own room is empty; it loses its nomination, and with it the
  room (measured: 7 of 20 at three rooms per node). So the hand-overs of one node go together: no claimant is nominated
  once the room of another one is empty, and none is released before the room of every nominated claimant is empty.
- A pod that preempts is nominated, and counts, until its victims have ended. A claimant that kube-scheduler would refuse
  only because of such a pod stays gated, but not for ever: the last quarter of the time that it may be gated is kept
  for its binding.
- A pod that also has a scheduling gate of another program cannot be bound, nobody knows for how long. Its room stays
  held, it is not nominated, and no other hand-over waits for it.
- A claimant that was never gated cannot be nominated. The taint holds its room (``reservations.pending_claimant``). All that
  tolerate the taint have claimed a room of the node and fit there together, so it does not matter which of them takes which.
  While another pod tolerates it and would take the room, the placeholder stays (``kept_tolerations``).
- A placeholder is deleted for a claimant only once the scheduler knows of the nomination. After an outage this must be
  proven with a probe (``controller.probing``).

Promises: of any set of hand-overs at least one can take its next step, or waits for nothing but the scheduler or the
kubelet; no claimant waits for longer than it may be gated; the result does not depend on the order of the rooms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rescheduler.coordination.kept_tolerations import KeptTolerations
from rescheduler.coordination.memory import Sightings
from rescheduler.coordination.node_order import Claim, NodeOrder, SeenTaints, placeholders_by_node
from rescheduler.coordination.placeholder_turns import PlaceholderTurns
from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.never_moves import holds_gate, waits_for_others
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.handover import tainted, tolerates_taint
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.pending_claimant import takes_by_taint
from rescheduler.reservations.preallocation import waits_for_room
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.split import covering, emptied, returns, waits_for_part
from rescheduler.reservations.waits import HandoverWait, Wait
from rescheduler.scheduling.node_affinity import selects
from rescheduler.scheduling.taint_toleration import keeps_off

Rooms = Mapping[str, ObservedReservation]

REFUSAL_AVOIDED: Final = 0.75
"""Part of the time that a pod may be gated, during which it is not released if a nominated pod would block it."""
KEPT_FOR_LANDING: Final = 0.25
"""Part of the time that a pod may be gated that is kept for the hand-over, even if no scheduler has answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLag:
    """Until when a scheduler may not know yet of the pods that were just nominated."""

    known: Mapping[str, float] = field(default_factory=dict)
    """By schedulerName."""
    others_s: float = 0.0
    """Of those that are not in ``known``."""

    def awaited(self, pods: Iterable[Pod], now_s: float, *, limit_s: float, held_s: float) -> Wait | None:
        """The wait before the placeholder of ``pods`` may be deleted; None if there is none.

        ``limit_s``: when the first of the pods must be released; ``held_s``: for how long it will have been gated then.
        """
        moments = {pod.spec.scheduler_name: 0.0 for pod in pods}
        # A scheduler that never answers must not use up the time in which the pod can still be bound to its room.
        for name in moments:
            moments[name] = min(self.known.get(name, self.others_s), limit_s - KEPT_FOR_LANDING * held_s)
        behind = frozenset(name for name, until_s in moments.items() if now_s < until_s)
        if not behind:
            return None
        until_s = max(moments[name] for name in behind)
        return Wait(reason=HandoverWait.SCHEDULER_BEHIND, until_s=until_s, schedulers=behind)


NO_LAG: Final = SchedulerLag()


@dataclass(slots=True, kw_only=True)
class HandoverOrder:
    """Decides for all Reservations of one round."""

    placement: Placement
    settings: ReservationSettings
    sightings: Sightings
    unbound: Iterable[Pod]
    """All pods without a node, gated ones included."""
    waiting: Sequence[Pod]
    """Pods without a node that are not gated."""
    kept: KeptTolerations
    unseen: Callable[[ObjectKey], bool]
    """True if the cache does not show yet what a machine wrote last: a Reservation's may be the nomination, a node's its taint or the end of it."""
    now_s: float
    lag: SchedulerLag = NO_LAG
    _nodes: Mapping[str, NodeOrder] = field(default_factory=dict, init=False)
    _taints: SeenTaints = field(init=False)

    def __post_init__(self) -> None:
        self._taints = SeenTaints(sightings=self.sightings, unseen=self.unseen, now_s=self.now_s)

    def of(self, rooms: Rooms) -> dict[str, ObservedReservation]:
        """``rooms`` with what each of them waits for, what its placeholder does, and which nodes need the taint."""
        self._nodes = self._gather(rooms)
        turns = PlaceholderTurns(
            placement=self.placement,
            sightings=self.sightings,
            taints=self._taints,
            nodes=self._nodes,
            settle_s=self.settings.taint_settle_s,
            now_s=self.now_s,
        )
        return {name: self._decided(observed, turns) for name, observed in rooms.items()}

    def _gather(self, rooms: Rooms) -> Mapping[str, NodeOrder]:
        nodes = placeholders_by_node(self.unbound, self.settings.namespace)
        for name, observed in rooms.items():
            status = observed.reservation.status
            self._taints.since_s(observed.node)
            if status.phase not in FINISHED and observed.flying:
                nodes[status.node_name].handing_over.add(observed.reservation.uid)
            if claimants(observed):
                nodes[status.node_name].claims.append(self._claim(name, observed))
        return nodes

    def _on(self, node: str) -> NodeOrder:
        return self._nodes.get(node) or NodeOrder()

    def _decided(self, observed: ObservedReservation, turns: PlaceholderTurns) -> ObservedReservation:
        observed = turns.with_choice(observed)
        turn, kept_tainted = turns.of(observed)
        observed = self._without_gate(observed)
        needs_taint = kept_tainted or self._contended(observed)
        wait = self._wait(observed, needs_taint=needs_taint)
        machine = ObjectKey("", observed.reservation.name)
        since_s = self.sightings.since("wait", machine, self.now_s, state=wait.reason if wait else "")
        passes_on = wait is None and self._only_nomination_lacks(observed, needs_taint=needs_taint)
        if wait is None and turn is observed.turn and not needs_taint and not passes_on:
            return observed
        wait = dataclasses.replace(wait, since_s=since_s) if wait is not None else None
        return dataclasses.replace(
            observed, wait=wait, turn=turn, needs_taint=needs_taint, passes_on=passes_on
        )

    # Claimants

    def _without_gate(self, observed: ObservedReservation) -> ObservedReservation:
        """Since when it has been claimed by pods without a gate, and whether they still fit."""
        pods = [pod for pod in claimants(observed) if not holds_gate(pod)]
        machine = ObjectKey("", observed.reservation.name)
        uids = " ".join(sorted(pod.uid for pod in pods))
        since_s = self.sightings.since("without gate", machine, self.now_s, state=uids)
        if not pods:
            return observed
        holder, node = _standing(observed), observed.reservation.status.node_name
        by_taint = [pod for pod in pods if takes_by_taint(pod, node)] if holder is not None else []
        found = [self.placement.would_take(pod, node, holder) for pod in by_taint if holder is not None]
        unfit = next((permission.message for permission in found if not permission.ok), "")
        return dataclasses.replace(observed, claimed_since_s=since_s, unfit=unfit)

    def _claim(self, name: str, observed: ObservedReservation) -> Claim:
        node, pods = observed.reservation.status.node_name, claimants(observed)
        barred = any(map(waits_for_others, pods))
        gated = [pod for pod in pods if holds_gate(pod)]
        if not gated:
            # A pod that the scheduler refused has lost its nomination, so it counts on no node and blocks no hand-over.
            landing = any(pod.nominated_node == node or not pod.unschedulable_message for pod in pods)
            return Claim(name, landing=landing and not barred, doubled=False)
        nominated = [pod.nominated_node == node for pod in (*gated, *_rests(observed))]
        empty = _emptied(observed)
        return Claim(
            name,
            landing=empty and all(nominated) and not barred,
            # A write that the cache does not show may be the nomination, so the room is assumed to count twice.
            doubled=not empty and (any(nominated) or self.unseen(ObjectKey("", name))),
        )

    def _wait(self, observed: ObservedReservation, *, needs_taint: bool) -> Wait | None:
        """The first reason, in the order of ``HandoverWait``, for which its claimants take no step now."""
        pods = observed.in_flight
        if observed.node is None or not pods or not _hands_over(observed.reservation):
            return None
        gated = [pod for pod in pods if holds_gate(pod)]
        standing, rests = _standing(observed), _rests(observed)
        released = not gated and standing is None and not any(map(waits_for_room, rests))
        if released or (not gated and observed.by_koordinator):
            return Wait(reason=HandoverWait.BINDING)
        # Released now, the claimant would be refused on this node and bound to another one.
        if not observed.node_usable and (gated or standing is not None):
            return Wait(reason=HandoverWait.NODE_NOT_USABLE)
        if observed.by_koordinator:
            return None  # Koordinator's scheduler lets no other pod use the Reservation, so there is nothing to order
        unbound = (*rests, *gated)
        # Only before the placeholder is deleted: without it the nomination is all that holds the room.
        if standing is not None and any(map(waits_for_others, pods)):
            return Wait(reason=HandoverWait.FOREIGN_GATE)
        # Only before the placeholder is deleted: afterwards a wait could not bring the room back.
        if standing is not None:
            limit_s = min(self._limit_s(observed, pod) for pod in pods)
            pending = [pod for pod in pods if takes_by_taint(pod, observed.node.name)]
            held_s = self.settings.gate_limit_s
            behind = self.lag.awaited((*unbound, *pending), self.now_s, limit_s=limit_s, held_s=held_s)
            if behind is not None:
                return behind
            if pending and self.kept.overtakes(pending, observed.node.name, standing) is not None:
                return Wait(reason=HandoverWait.TOLERATED)
        return self._wait_for_neighbours(observed, observed.node, unbound, standing, needs_taint=needs_taint)

    def _wait_for_neighbours(
        self,
        observed: ObservedReservation,
        node: Node,
        unbound: Sequence[Pod],
        standing: Pod | None,
        *,
        needs_taint: bool,
    ) -> Wait | None:
        order, name = self._on(node.name), observed.reservation.name
        others = [claim for claim in order.claims if claim.name != name]
        nominated = [pod for pod in unbound if pod.nominated_node == node.name]
        if len(nominated) < len(unbound):
            # Once some of its claimants are nominated, the other hand-overs wait for it: stopping here would block both.
            blocked = not nominated and any(other.landing for other in others)
            return Wait(reason=HandoverWait.OTHER_LANDING) if blocked else None
        if any(pod.deleting for pod in observed.placeholders):
            return Wait(reason=HandoverWait.PLACEHOLDER_TERMINATING)
        if standing is not None:
            return self._before_deletion(observed, node, needs_taint=needs_taint)
        # Released now, the claimants would be refused: the scheduler counts the nominated claimants of the other room
        # and its placeholder.
        if any(other.doubled for other in others):
            return Wait(reason=HandoverWait.OTHER_ROOM_OCCUPIED)
        return self._wait_for_nominated_pods([pod for pod in unbound if holds_gate(pod)], node.name)

    def _before_deletion(
        self, observed: ObservedReservation, node: Node, *, needs_taint: bool
    ) -> Wait | None:
        """Once the placeholder is deleted only the nomination holds the room, so everything that could take it must be out of the way."""
        settled_s = (self._taints.since_s(node) or self.now_s) + self.settings.taint_settle_s
        if needs_taint and self.now_s < settled_s:
            return Wait(reason=HandoverWait.TAINT_SETTLING, until_s=settled_s)
        blocked = self._on(node.name).unbound_placeholder(observed.reservation)
        return Wait(reason=HandoverWait.PLACEHOLDER_UNBOUND) if blocked else None

    def _only_nomination_lacks(self, observed: ObservedReservation, *, needs_taint: bool) -> bool:
        """True if the placeholder may be deleted as soon as the API server has stored the nomination of its claimant."""
        claimant, standing, node = observed.claimant, _standing(observed), observed.node
        if claimant is None or claimant.node or not observed.reservation.allocate_once:
            return False
        if standing is None or node is None or any(pod.deleting for pod in observed.placeholders):
            return False
        return self._before_deletion(observed, node, needs_taint=needs_taint) is None

    def _limit_s(self, observed: ObservedReservation, pod: Pod) -> float:
        if takes_by_taint(pod, observed.reservation.status.node_name):
            return observed.claimed_since_s + self.settings.gate_limit_s
        held_s = self.settings.gate_limit_s if holds_gate(pod) else self.settings.landing_limit_s
        return pod.created_at_s + held_s

    def _wait_for_nominated_pods(self, gated: Iterable[Pod], node: str) -> Wait | None:
        # Limited in time: the nominated pod may be pending for ever, for example if one of its victims does not end.
        for pod in gated:
            until_s = pod.created_at_s + REFUSAL_AVOIDED * self.settings.gate_limit_s
            if self.now_s < until_s and self.placement.blocked_by_nominated(pod, node):
                return Wait(reason=HandoverWait.NOMINATED_POD_COUNTED, until_s=until_s)
        return None

    # The taint

    def _contended(self, observed: ObservedReservation) -> bool:
        """True while the node must be tainted for the claimants, because pending pods could be bound there before them.

        Once set, the taint stays until the claimants are bound or gone: without it the other pods would be bound there. It
        does not stay if a released claimant does not tolerate it.
        """
        node, pods = observed.node, observed.in_flight
        if node is None or not pods or observed.by_koordinator or not _hands_over(observed.reservation):
            return False
        pending = [pod for pod in pods if not holds_gate(pod)]
        if pending and _standing(observed) is not None:
            return observed.node_usable and all(tolerates_taint(pod, node.name) for pod in pending)
        # After the release it is never set, only kept: a claimant gets the toleration together with its release, and one
        # without it could not be bound any more.
        if len(pending) == len(pods):
            kept = self.now_s < observed.claimed_since_s + self.settings.landing_limit_s
            return tainted(node) and kept and all(tolerates_taint(pod, node.name) for pod in pods)
        if tainted(node):
            return True
        # Nothing but the taint keeps what an owner leaves while claimants are on their way.
        if _standing(observed) is not None and returns(observed):
            return True
        least = min(pod.spec.priority for pod in observed.owners if not pod.node)
        # A pod that is nominated here already, such as a preallocation, has room of its own.
        return any(
            pod.spec.priority > least and pod.nominated_node != node.name and _may_go(pod, node)
            for pod in self.waiting
        )


def claimants(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Claimants that are not bound yet and whose placeholder this controller deletes for them."""
    if observed.soft or observed.by_koordinator or not _hands_over(observed.reservation):
        return ()
    return observed.in_flight


def _hands_over(reservation: Reservation) -> bool:
    live = not reservation.deleting and reservation.status.phase not in FINISHED
    return live and bool(reservation.status.current_owners)


def _standing(observed: ObservedReservation) -> Pod | None:
    """The placeholder that will be deleted for the claimants."""
    if not observed.reservation.allocate_once:
        return covering(observed)
    holder = observed.placeholder
    return holder if holder is not None and not holder.deleting else None


def _emptied(observed: ObservedReservation) -> bool:
    """True if no placeholder holds the room of the claimants any more."""
    return observed.placeholder is None if observed.reservation.allocate_once else emptied(observed)


def _rests(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Placeholders, not bound yet, of what is left of a Reservation that is being split."""
    if observed.reservation.allocate_once:
        return ()
    unbound = (pod for pod in observed.placeholders if not pod.node and not pod.deleting)
    return tuple(pod for pod in unbound if not waits_for_part(observed, pod))


def _may_go(pod: Pod, node: Node) -> bool:
    """True if the scheduler could bind ``pod`` to ``node``, as far as node selector, affinity, taints and node size tell."""
    spec, size = pod.spec, node.allocatable
    if spec.requests.cpu_milli > size.cpu_milli or spec.requests.memory_bytes > size.memory_bytes:
        return False
    others = (taint for taint in node.taints if taint.key != names.ANNOTATION_HANDOVER_TAINT)
    return selects(spec, node) and not any(keeps_off(spec.tolerations, taint) for taint in others)
