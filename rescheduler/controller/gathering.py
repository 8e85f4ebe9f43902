"""What a round finds out about all Reservations together, before any of them takes a step: nothing is sent here.

Each is observed, hand-overs are ordered, gated pods are assigned, and from that follows what gate and taints should be. These stages
look at many objects at once. If one crashes, the round goes on without the objects of which it crashes: they rest, with
those on the same node and on the other side of a link, because their steps depend on each other. What they hold stays:
their gate keys, the taint of their node, and the pods that may be theirs, which are held no longer than the limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rescheduler.controller.effects import NotLeaderError
from rescheduler.coordination.assumed import Written
from rescheduler.coordination.contested_rooms import contested_rooms
from rescheduler.coordination.handover_order import HandoverOrder, SchedulerLag
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.isolation import isolated
from rescheduler.coordination.lost_targets import lost_targets
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.observe_reservations import ReservationObserver, awaited_pods, links_of
from rescheduler.coordination.observe_start_first import StartFirstObserver, UnadoptedReplacements
from rescheduler.coordination.pending_owners import PendingOwners
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.room_assignment import RoomAssignment
from rescheduler.coordination.rooms_beyond_quota import rooms_beyond_quota
from rescheduler.coordination.sight import Left, Sight, group_of
from rescheduler.coordination.switches import TaintSwitches, gate_keys, taint_switches
from rescheduler.migrations.observed import MigrationSettings
from rescheduler.model.migration import MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import namespaces_of
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.assignment import Assignment
from rescheduler.reservations.handover import holds_gate
from rescheduler.reservations.observed import ObservedReservation, ReservationSettings
from rescheduler.reservations.template import name_of_reservation


class Group(NamedTuple):
    """Objects that rest together: those of one node, or one that is on none."""

    what: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The outcome."""

    index: RoundIndex
    """Without what rests."""
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
    sight: Sight
    """Of what the index was made, and what rests besides what the stages here crash of."""
    placement: Placement
    """That of the configuration in force, which is another one after each change of it."""
    reservations: ReservationSettings
    migrations: MigrationSettings
    lag: SchedulerLag
    now_s: float


@dataclass(slots=True, kw_only=True)
class Gatherer:
    """Used by the core thread only."""

    memory: Memory
    unadopted: UnadoptedReplacements
    unseen: Callable[[ObjectKey], bool]
    """True if the cache does not show the last write of that machine yet."""
    releasing: Callable[[Pod], bool]
    """True while a pod is being released."""
    resting: Callable[[Pod], bool]
    """True while a pod rests because a call about it failed."""
    crashed: Callable[[Reservation | PodMigration, Exception], None]
    """Told of each object that rests because a stage crashes of it, or of one beside it; it goes into backoff."""
    _resting: dict[Group, ObjectKey] = field(default_factory=dict)
    """With one of the machines of each: its backoff is that of all."""
    _keys: Mapping[str, str] = field(default_factory=dict)
    """The gate keys of the last round."""

    def of(self, given: RoundInput, *, few: bool) -> Gathered:
        """One round. Raises what a stage raises if it crashes of no single object.

        ``few``: also if objects of several namespaces would have to rest, maybe because of a pod that is none of theirs.
        """
        expectations = self.memory.expectations
        expectations.nodes = {m: n for m, n in expectations.nodes.items() if self.unseen(m)}
        at = given.now_s
        rests = {group for group, one in self._resting.items() if self.memory.backoff.crashed(one, at)}
        members = _Members(given.index)
        rests.update(map(members.group_of, given.sight.rests))

        def compute(out: Collection[Group]) -> Gathered:
            sightings = self.memory.sightings.copy()
            try:
                return self._without(members, rests | set(out), given, expectations.nodes)
            except BaseException:
                self.memory.sightings.restore(sightings)  # a try leaves no trace
                raise

        found, bad = isolated(
            compute, lambda: members.groups(rests), known=lambda _: self._resting, fatal=(NotLeaderError,)
        )
        if few and len(set(members.homes(bad))) > 1:
            raise next(iter(bad.values()))
        self._resting = {group: one for group, one in self._resting.items() if group in rests}
        for group, error in bad.items():
            for member in members.of((group,)):
                self._resting.setdefault(group, machine_of(member))
                self.crashed(member, error)
        self._keys = found.gate_keys
        return found

    def _without(
        self, members: _Members, out: Collection[Group], given: RoundInput, written: Written
    ) -> Gathered:
        index, left_out = given.index, {machine_of(m): m for m in (*members.of(out), *given.sight.rests)}
        if left_out:
            index = index.about(
                {n: r for n, r in index.view.reservations.items() if ObjectKey("", n) not in left_out},
                {key: m for key, m in index.view.migrations.items() if key not in left_out},
            )
        given = dataclasses.replace(given, index=index)
        replacements = Replacements(index.view, index.pods_of)
        given.placement.begin(replacements, written)
        start_first = self._start_first(given)
        rooms: Mapping[str, ObservedReservation] = self._ordered(self._observed(given, written), given)
        rooms = lost_targets(rooms, given.placement, awaited_pods(rooms, index))
        contested = contested_rooms(
            rooms, self._assigned(rooms, start_first, given), index.waiting, given.placement
        )
        rooms, assignment = contested.rooms, contested.assignment
        gate = gate_keys(rooms.values(), index)
        keys = {**gate.keys, **start_first.gate_keys()}
        rooms = {**rooms, **gate.left_out}
        rooms = {**rooms, **_kept_out(rooms, assignment)}
        taints = taint_switches(
            rooms.values(), index.kept.nodes.shut, lambda name: self.unseen(ObjectKey("", name))
        )
        if left_out or given.sight.namespaces:
            keys = {**_kept(self._keys, left_out.values()), **keys}
            assignment = _held(assignment, left_out.values(), given)
            taints = _untouched(taints, {group.name for group in out if group.what == "node"})
        return Gathered(
            index=index,
            replacements=replacements,
            start_first=start_first,
            rooms=rooms,
            assignment=assignment,
            gate_keys=keys,
            taints=taints,
        )

    def _start_first(self, given: RoundInput) -> StartFirstObserver:
        return StartFirstObserver(
            index=given.index,
            unadopted=self.unadopted,
            begun=self.memory.expectations.begun,
            by_default=given.migrations.default_mode is MoveMode.START_FIRST,
            policies=given.migrations.start_first_policies,
        )

    def _observed(self, given: RoundInput, written: Written) -> dict[str, ObservedReservation]:
        settings, links = given.reservations, links_of(given.index, self.memory.preparing)
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
        self, rooms: Mapping[str, ObservedReservation], given: RoundInput
    ) -> dict[str, ObservedReservation]:
        return HandoverOrder(
            placement=given.placement,
            settings=given.reservations,
            sightings=self.memory.sightings,
            unbound=given.index.unbound(),
            waiting=given.index.waiting,
            unseen=lambda name: self.unseen(ObjectKey("", name)),
            now_s=given.now_s,
            lag=given.lag,
        ).of(rooms)

    def _assigned(
        self, rooms: Mapping[str, ObservedReservation], start_first: StartFirstObserver, given: RoundInput
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
            ),
            now_s=given.now_s,
        ).of(rooms)


Member = Reservation | PodMigration


def machine_of(member: Member) -> ObjectKey:
    """The key under which the steps of an object are remembered."""
    return member.key if isinstance(member, PodMigration) else ObjectKey("", member.name)


class _Members:
    """The objects of a round by their group; gathered when they are needed, which few rounds do."""

    def __init__(self, index: RoundIndex) -> None:
        self._index = index
        self._found: dict[Group, list[Member]] | None = None

    def groups(self, but: Collection[Group]) -> list[Group]:
        """All groups in order, without some."""
        return sorted(group for group in self._all() if group not in but)

    def of(self, groups: Iterable[Group]) -> list[Member]:
        """The objects of some groups."""
        return [member for group in groups for member in self._all().get(group, ())]

    def homes(self, groups: Iterable[Group]) -> Iterator[Left | None]:
        """Whose the objects of some groups are."""
        return (group_of(member, self._index.snapshot.reservations) for member in self.of(groups))

    def group_of(self, member: Member) -> Group:
        """The group of an object, which need not be one of this round."""
        if isinstance(member, Reservation):
            return _group_of(member)
        linked = self._index.snapshot.reservations.get(name_of_reservation(member))
        return _group_of(linked) if linked is not None else Group("move", str(member.key))

    def _all(self) -> dict[Group, list[Member]]:
        if self._found is None:
            self._found = {}
            for group, member in self._each():
                self._found.setdefault(group, []).append(member)
        return self._found

    def _each(self) -> Iterator[tuple[Group, Member]]:
        for room in self._index.view.reservations.values():
            yield self.group_of(room), room
        for move in self._index.view.migrations.values():
            yield self.group_of(move), move


def _group_of(room: Reservation) -> Group:
    node = room.status.node_name
    return Group("node", node) if node else Group("room", room.name)


def _kept(keys: Mapping[str, str], left_out: Iterable[Member]) -> dict[str, str]:
    """The gate keys that were there for what is left out."""
    names = set[str]()
    for member in left_out:
        if isinstance(member, Reservation):
            names.add(member.name)
        elif member.status.replacement is not None:
            names.add(member.status.replacement.name)
    return {key: name for key, name in keys.items() if name in names}


def _kept_out(
    rooms: Mapping[str, ObservedReservation], assignment: Assignment
) -> dict[str, ObservedReservation]:
    """The Reservations that an owner waits for in vain, with that owner."""
    return {
        name: dataclasses.replace(rooms[name], owners_wait=message)
        for name, message in assignment.kept_out.items()
        if name in rooms
    }


def _held(assignment: Assignment, left_out: Iterable[Member], given: RoundInput) -> Assignment:
    """Pods that may belong to what is left out are neither released before the limit nor given another room."""
    rooms = [member for member in left_out if isinstance(member, Reservation)]
    homes = {home for room in rooms for home in namespaces_of(room)}.union(given.sight.namespaces)
    theirs = {owner.uid for room in rooms for owner in room.status.current_owners}

    def waits(pod: Pod) -> bool:
        young = given.now_s < pod.created_at_s + given.reservations.gate_limit_s
        return young and ("" in homes or pod.namespace in homes)

    held = [pod.uid for pod, _ in assignment.released if waits(pod)]
    why = f"held for {given.reservations.gate_limit_s:g} s"
    overdue = [(pod, why) for pod in given.sight.gone if holds_gate(pod) and not waits(pod)]
    claims = {
        name: tuple(pod for pod in pods if pod.uid not in theirs) for name, pods in assignment.claims.items()
    }
    return Assignment(
        claims={name: pods for name, pods in claims.items() if pods},
        held=assignment.held.union(held),
        released=(*((pod, why) for pod, why in assignment.released if not waits(pod)), *overdue),
        preparing=tuple((pod, name) for pod, name in assignment.preparing if pod.uid not in theirs),
    )


def _untouched(taints: TaintSwitches, nodes: Collection[str]) -> TaintSwitches:
    """The switches without those of the nodes of what is left out."""
    return TaintSwitches(
        tuple(node for node in taints.on if node.name not in nodes),
        tuple(node for node in taints.off if node.name not in nodes),
    )
