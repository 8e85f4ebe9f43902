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
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.assignment import Assignment
from rescheduler.reservations.observed_reservation import ObservedReservation


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
class Gatherer:
    """What a round begins with."""

    index: RoundIndex
    placement: Placement
    """That of the configuration in force, which is another one after each change of it."""
    migrations: MigrationSettings
    memory: Memory
    lag: SchedulerLag
    unseen: Callable[[ObjectKey], bool]
    """True if the cache does not show the last write of that machine yet."""
    releasing: Callable[[Pod], bool]
    """True while a pod is being released."""
    resting: Callable[[Pod], bool]
    """True while a pod rests because a call about it failed."""
    crashed: Callable[[ObjectKey, Exception, float], None]
    """Told of each Reservation whose observation crashes, with the time; it goes into backoff."""
    now_s: float

    def all(self) -> Gathered:
        """One round. Raises what a stage raises."""
        expectations = self.memory.expectations
        expectations.nodes = {m: n for m, n in expectations.nodes.items() if n and self.unseen(m)}
        index, written = self.index, expectations.nodes
        replacements = Replacements(index.view, index.pods_of)
        self.placement.begin(replacements, written, expectations.intent_s)
        start_first = self._start_first()
        kept = KeptTolerations(index=index, placement=self.placement)
        rooms: Mapping[str, ObservedReservation] = self._ordered(self._observed(written), kept)
        rooms = lost_targets(rooms, self.placement, awaited_pods(rooms, index))
        rooms, assignment = contested_rooms(
            rooms, self._assigned(rooms, start_first, kept), index.waiting, self.placement
        )
        coming = coming_rooms(self.memory.preparing, index, self.now_s)
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

    def _start_first(self) -> StartFirstObserver:
        return StartFirstObserver(
            index=self.index,
            begun=self.memory.expectations.begun,
            by_default=self.migrations.mode is MoveMode.START_FIRST,
            policies=self.migrations.start_first_policies,
        )

    def _observed(self, written: Written) -> dict[str, ObservedReservation]:
        settings, links = self.migrations.reservations, links_of(self.index)
        return ReservationObserver(
            index=self.index,
            placement=self.placement,
            memory=self.memory,
            links=links,
            written=written,
            beyond_quota=rooms_beyond_quota(self.index, links, settings.quotas),
            koordinator_scheduler=settings.koordinator_scheduler,
            crashed=self.crashed,
            now_s=self.now_s,
        ).all()

    def _ordered(
        self, rooms: Mapping[str, ObservedReservation], kept: KeptTolerations
    ) -> dict[str, ObservedReservation]:
        return HandoverOrder(
            placement=self.placement,
            settings=self.migrations.reservations,
            sightings=self.memory.sightings,
            unbound=self.index.unbound(),
            waiting=self.index.waiting,
            kept=kept,
            unseen=self.unseen,
            now_s=self.now_s,
            lag=self.lag,
        ).of(rooms)

    def _assigned(
        self,
        rooms: Mapping[str, ObservedReservation],
        start_first: StartFirstObserver,
        kept: KeptTolerations,
    ) -> Assignment:
        return RoomAssignment(
            index=self.index,
            placement=self.placement,
            unseen=lambda name: self.unseen(ObjectKey("", name)),
            claimed=self.memory.expectations.claimed,
            released=self.releasing,
            start_first=start_first.gate_keys(),
            resting=lambda name: self.memory.backoff.crashed(ObjectKey("", name), self.now_s),
            gate_limit_s=self.migrations.reservations.gate_limit_s,
            pending=PendingOwners(
                index=self.index,
                placement=self.placement,
                resting=self.resting,
                kept=kept,
            ),
            now_s=self.now_s,
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
