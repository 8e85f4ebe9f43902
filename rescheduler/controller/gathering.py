"""What a round finds out about all Reservations together, before any of them takes a step: nothing is sent here.

Each is observed, hand-overs are ordered, gated pods are assigned, and from that follows what gate and taints should be. These stages
look at many objects at once: what one raises ends the round before any machine takes a step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rescheduler.coordination.assumed import Written
from rescheduler.coordination.handover_order import HandoverOrder, SchedulerLag
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_tolerations import KeptTolerations
from rescheduler.coordination.lost_targets import contested_rooms, lost_targets
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.observe_reservations import (
    ReservationObserver,
    awaited_pods,
    links_of,
    rooms_beyond_quota,
)
from rescheduler.coordination.observe_start_first import StartFirstObserver
from rescheduler.coordination.pending_owners import PendingOwners
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.room_assignment import RoomAssignment
from rescheduler.coordination.switches import TaintSwitches, coming_rooms, gate_keys, taint_switches
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.assignment import Assignment
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.settings import ReservationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The outcome."""

    index: RoundIndex
    replacements: Replacements
    start_first: StartFirstObserver
    rooms: Mapping[str, ObservedReservation]
    assignment: Assignment
    gate_keys: Mapping[str, str]
    taints: TaintSwitches


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundInput:
    """What a round begins with."""

    index: RoundIndex
    placement: Placement
    """That of the configuration in force, which is another one after each change of it."""
    migrations: MigrationSettings
    lag: SchedulerLag
    now_s: float

    @property
    def reservations(self) -> ReservationSettings:
        """The Reservation machine's."""
        return self.migrations.reservations


@dataclass(slots=True, kw_only=True)
class Gatherer:
    """Used by the core thread only."""

    memory: Memory
    unseen: Callable[[ObjectKey], bool]
    """True if the cache does not show the last write of that machine yet."""
    releasing: Callable[[Pod], bool]
    """True while a pod is being released."""
    resting: Callable[[Pod], bool]
    """True while a pod rests because a call about it failed."""
    crashed: Callable[[Reservation, Exception], None]
    """Told of each Reservation whose observation crashes; it goes into backoff."""

    def of(self, given: RoundInput) -> Gathered:
        """One round. Raises what a stage raises."""
        expectations = self.memory.expectations
        expectations.nodes = {m: n for m, n in expectations.nodes.items() if self.unseen(m)}
        index, written = given.index, expectations.nodes
        replacements = Replacements(index.view, index.pods_of)
        given.placement.begin(replacements, written, expectations.intents)
        start_first = self._start_first(given)
        kept = KeptTolerations(index=index, placement=given.placement, namespace=given.reservations.namespace)
        rooms: Mapping[str, ObservedReservation] = self._ordered(self._observed(given, written), kept, given)
        rooms = lost_targets(rooms, given.placement, awaited_pods(rooms, index))
        rooms, assignment = contested_rooms(
            rooms, self._assigned(rooms, start_first, kept, given), index.waiting, given.placement
        )
        coming = coming_rooms(self.memory.preparing, index, given.now_s)
        gate = gate_keys((*rooms.values(), *coming), index)
        rooms = {name: gate.left_out.get(name, observed) for name, observed in rooms.items()}
        rooms = {**rooms, **_kept_out(rooms, assignment)}
        return Gathered(
            index=index,
            replacements=replacements,
            start_first=start_first,
            rooms=rooms,
            assignment=assignment,
            gate_keys={**gate.keys, **start_first.gate_keys()},
            taints=taint_switches(
                rooms.values(), index.kept.nodes.shut, lambda name: self.unseen(ObjectKey("", name))
            ),
        )

    def _start_first(self, given: RoundInput) -> StartFirstObserver:
        return StartFirstObserver(
            index=given.index,
            begun=self.memory.expectations.begun,
            by_default=given.migrations.mode is MoveMode.START_FIRST,
            policies=given.migrations.start_first_policies,
        )

    def _observed(self, given: RoundInput, written: Written) -> dict[str, ObservedReservation]:
        settings, links = given.reservations, links_of(given.index)
        return ReservationObserver(
            index=given.index,
            placement=given.placement,
            memory=self.memory,
            links=links,
            written=written,
            beyond_quota=rooms_beyond_quota(given.index, links, settings.quotas),
            namespace=settings.namespace,
            koordinator_scheduler=settings.koordinator_scheduler,
            crashed=self.crashed,
            now_s=given.now_s,
        ).all()

    def _ordered(
        self, rooms: Mapping[str, ObservedReservation], kept: KeptTolerations, given: RoundInput
    ) -> dict[str, ObservedReservation]:
        return HandoverOrder(
            placement=given.placement,
            settings=given.reservations,
            sightings=self.memory.sightings,
            unbound=given.index.unbound(),
            waiting=given.index.waiting,
            kept=kept,
            unseen=self.unseen,
            now_s=given.now_s,
            lag=given.lag,
        ).of(rooms)

    def _assigned(
        self,
        rooms: Mapping[str, ObservedReservation],
        start_first: StartFirstObserver,
        kept: KeptTolerations,
        given: RoundInput,
    ) -> Assignment:
        return RoomAssignment(
            index=given.index,
            placement=given.placement,
            unseen=lambda name: self.unseen(ObjectKey("", name)),
            claims=self.memory.expectations.claims,
            released=self.releasing,
            start_first=start_first.gate_keys(),
            resting=lambda name: self.memory.backoff.crashed(ObjectKey("", name), given.now_s),
            gate_limit_s=given.reservations.gate_limit_s,
            pending=PendingOwners(
                index=given.index,
                placement=given.placement,
                namespace=given.reservations.namespace,
                resting=self.resting,
                kept=kept,
            ),
            now_s=given.now_s,
        ).of(rooms)


def _kept_out(
    rooms: Mapping[str, ObservedReservation], assignment: Assignment
) -> dict[str, ObservedReservation]:
    """The Reservations that an owner waits for in vain, with that owner."""
    return {
        name: dataclasses.replace(rooms[name], owners_wait=message)
        for name, message in assignment.kept_out.items()
        if name in rooms
    }
