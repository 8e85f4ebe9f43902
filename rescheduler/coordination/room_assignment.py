"""Which rooms, which gated pods and which pending ones take part in the assignment of this round. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.lost_targets import takes_no_pod
from rescheduler.coordination.pending_owners import PendingOwners
from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.controller_key import controller_key
from rescheduler.model.migration import PodMigration
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ReservationPhase
from rescheduler.reservations.assignment import Assignment, Room, assign, from_the_node
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.split import flying, free_part


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomAssignment:
    """Assigns the rooms of one round."""

    index: RoundIndex
    placement: Placement
    unseen: Callable[[str], bool]
    """True if the cache does not show our last write for that Reservation yet; the write may be a claim."""
    claimed: Callable[[str], frozenset[str]]
    """Uids of the owners in the last written status of that Reservation."""
    released: Callable[[Pod], bool]
    """True while a pod is being released: it must not be assigned a room meanwhile."""
    start_first: Mapping[str, str]
    """Keys of ReplicaSets that will delete one of their gated pods: such pods are neither assigned nor released."""
    resting: Callable[[str], bool]
    """True for a Reservation that takes no step now: nobody but the assignment releases its claimants in time."""
    gate_limit_s: float
    pending: PendingOwners
    now_s: float

    def of(self, rooms: Mapping[str, ObservedReservation]) -> Assignment:
        """The assignment. Claimants are left out, because their own Reservation releases them, even if it has ended.

        One without a gate has nothing to be released from: once its Reservation has ended it may claim another one.
        """
        taken = {
            pod.uid
            for name, observed in rooms.items()
            for pod in observed.owners
            if holds_gate(pod) or observed.reservation.status.phase not in FINISHED
            if self._young(pod) or not (self.resting(name) or observed.reservation.unreadable)
        }
        # A claim that the cache does not show yet: its pods must not be assigned to a second room.
        for name in rooms:
            if self.unseen(name):
                taken |= self.claimed(name)
        free = [
            pod
            for pod in self.index.gated
            if pod.uid not in taken and not pod.deleting and not self.released(pod)
        ]
        young = [pod for pod in free if self._young(pod)]
        eligible = [pod for pod in young if not self._makes_room(pod)]
        refused = self.pending.waiting(taken)
        given = tuple(self._rooms(rooms, anybody=bool(self.index.gated or refused)))

        def passes_by(pod: Pod, room: Room) -> bool:
            return self._passes_by(pod, rooms[room.reservation.name])

        unfit: dict[str, str] = {}
        found = assign(
            eligible,
            given,
            self.index.controllers,
            admits=partial(self._admits, rooms=rooms, nodes={}, unfit=unfit),
            passes_by=passes_by,
        )
        left = [room for room in given if room.reservation.name not in found.claims]
        pending = self.pending.of(refused, left, rooms)
        served = taken.union(
            pod.uid for pods in (*found.claims.values(), *pending.claims.values()) for pod in pods
        )
        served |= {pod.uid for pod, _ in pending.preparing}
        overdue = [(pod, f"held for {self.gate_limit_s:g} s") for pod in free if pod not in young]
        return dataclasses.replace(
            found,
            claims={**found.claims, **pending.claims},
            held=found.held | {uid for uid, why in unfit.items() if not why and uid not in served},
            released=(
                *((pod, why) for pod, told in found.released if (why := unfit.get(pod.uid, told))),
                *overdue,
            ),
            preparing=pending.preparing,
            kept_out={**self.pending.kept_out(refused, left, rooms, served), **pending.overtaken},
        )

    def _admits(
        self,
        pod: Pod,
        room: Room,
        *,
        rooms: Mapping[str, ObservedReservation],
        nodes: dict[str, str],
        unfit: dict[str, str],
    ) -> bool:
        """What the template does not name the node must have free besides.

        ``nodes``: those on which a pod is served in this round; the next pod is judged when the first one is counted there.
        ``unfit``: why a pod is not served, by its uid; "": not yet.
        """
        if not from_the_node(pod, room.reservation) or not rooms[room.reservation.name].node_usable:
            return True  # of a node that is not usable the Reservation itself decides
        name, node = room.reservation.name, room.reservation.status.node_name
        if nodes.setdefault(node, pod.uid) != pod.uid:
            unfit[pod.uid] = ""
            return False
        answer = self.pending.admits(pod, rooms[name])
        if not answer.ok:
            del nodes[node]
            unfit[pod.uid] = f"Reservation {name}: {answer.message}"
        return answer.ok

    def _passes_by(self, pod: Pod, observed: ObservedReservation) -> bool:
        """The room of a move waits for its replacement: there the Reservation itself ends (``lost_targets``)."""
        node = observed.reservation.status.node_name
        if observed.migration is not None or observed.by_koordinator or not node:
            return False
        return bool(takes_no_pod(observed.node, pod)) and bool(self.placement.other_node(pod, node))

    def _makes_room(self, pod: Pod) -> bool:
        owner = pod.controller
        return owner is not None and controller_key(pod.namespace, owner.uid) in self.start_first

    def _young(self, pod: Pod) -> bool:
        return self.now_s < pod.created_at_s + self.gate_limit_s

    def _rooms(self, rooms: Mapping[str, ObservedReservation], *, anybody: bool) -> Iterable[Room]:
        """The rooms that take part, and whether each is open.

        A room is closed, so that matching pods stay gated, while the cache does not show its last write (it may be claimed
        already), and while its pod would be refused until other pods are bound.
        """
        found = [room for observed in rooms.values() if (room := room_of(observed)) is not None]
        unseen = {room.reservation.name for room in found if self.unseen(room.reservation.name)}
        may_open = [r.reservation for r in found if r.open and r.reservation.name not in unseen]
        open_now: frozenset[str] = frozenset()
        if anybody and may_open:
            claimed = [rooms[name].reservation for name in unseen if self.claimed(name)]
            open_now = self.placement.landable(may_open, claimed)
        for room in found:
            yield dataclasses.replace(room, open=room.reservation.name in open_now)


def room_of(observed: ObservedReservation) -> Room | None:
    """The Reservation as a room of the assignment; None if it has no room to give."""
    reservation, migration = observed.reservation, observed.migration
    status, placeholder = reservation.status, observed.placeholder
    if status.phase in FINISHED or reservation.deleting or observed.soft:
        return None
    given = bool(status.current_owners) and reservation.allocate_once
    if given and (observed.claimant is not None and not observed.claimant.deleting):
        return None
    made_for_move = bool(reservation.annotations.get(names.ANNOTATION_MIGRATION))
    if observed.by_koordinator and not made_for_move:
        return None  # its scheduler assigns it
    # Before the intent no replacement can exist: a pod that matches comes from a scale-up, and must not take this room.
    if made_for_move and (
        migration is None or migration.finished or not migration.status.eviction_requested_at_s
    ):
        return None
    pending = status.phase is ReservationPhase.PENDING
    if pending and (made_for_move or placeholder is None or not placeholder.node):
        return None
    if given and not observed.held:
        return None  # the room was lost with its claimant; if it were held, the claim would be withdrawn and pods would wait
    available = status.phase is ReservationPhase.AVAILABLE and not given and not flying(observed)
    return Room(
        reservation=reservation,
        size=free_part(observed),
        open=observed.held and available and not reservation.unreadable and not _undecided(observed),
        since_s=migration.status.eviction_requested_at_s if migration else 0.0,
        replaces=migration.pod_name if migration is not None and _intends(migration) else "",
    )


def _undecided(observed: ObservedReservation) -> bool:
    """True between the intent and the answer to the eviction: only then is it clear whether a replacement will come."""
    migration = observed.migration
    return migration is not None and not observed.evicted and _intends(migration)


def _intends(migration: PodMigration) -> bool:
    """True from the intent to evict to the end of the move: the room is for the replacement of that pod."""
    return bool(migration.status.eviction_requested_at_s) and not migration.finished
