"""Room for pending pods in a plan: who steps aside for which of them, within budgets and limits, and why nothing helps.

Pods of higher priority come first, then those that need the fewest moves. What one of them takes another one may lack, so the pods are
planned a few times, each time those first that found nothing before or took many moves, and the best is kept: room for most, the highest
priorities first, then with the fewest moves. A way is planned as a whole or not at all, and so is a gang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.model.room_pod import room_of_pod
from rescheduler.planning.badness import Badness, MoveEffect
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger
from rescheduler.planning.chain_moves import held, makes_room
from rescheduler.planning.group_members import GroupMembers, gangs_of, least_of, words_of
from rescheduler.planning.groups import MakesMoves
from rescheduler.planning.plan import PendingRoom, PodRef, SkipReason
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.room_levels import RoomLevels
from rescheduler.planning.room_search import Reach, RoomSearch, SearchWork, Way
from rescheduler.planning.targets import Target
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial, TrialMark
from rescheduler.planning.victim_sets import VictimSets
from rescheduler.planning.why_no_room import NO_WAY, why_no_room
from rescheduler.policies.framework import RoomBounds, RoomMakingPolicy
from rescheduler.policies.objective import Tier, nothing
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.scheduling.classes import PodClass

WORK: Final = 12_000_000
"""Nodes that are looked at for all pending pods of one decision: about a second."""
_TRIES: Final = 4
"""Plans besides the first."""
_SHARES: Final = 4
"""One search of a pod may use so many times its part of the work: most need less."""
_LEAST_SHARE: Final = 100_000
_AGAIN: Final = 3
"""Ways that are looked for in place of one that a budget or a limit refuses as a whole."""

_ENOUGH: Final = (
    "enough pods of its group get room now (minMember); the others are planned for once those run"
)

_DEEPEST: Final = 2
"""Levels that are told apart where no policy bounds them."""
_DEFECT: Final = "the words for it could not be found because of a defect, please report it"

Gang = tuple[Candidate, ...]


class _Room(NamedTuple):
    """Room that stands in the plan."""

    candidate: Candidate
    way: Way
    mark: TrialMark
    """The trial before it."""
    moves: int
    """Of the plan before it."""
    taken: tuple[tuple[Candidate, bool], ...]


class _Tried(NamedTuple):
    """What planning the pods in one order gave."""

    rooms: int
    """That stood before."""
    failed: list[Gang]
    value: tuple[int, ...]
    """The lowest is best."""


@dataclass(slots=True, kw_only=True)
class PendingRooms:
    """Makes room in one decision."""

    plan: MakesMoves
    limits: LimitLedger
    refusals: Refusals
    budgets: BudgetLedger
    trial: Trial
    objective: Objective
    replacement: Callable[[Pod], Pod]
    comes_back: Callable[[Pod], bool]
    """True if another pod would come in the place of this one."""
    explains: bool
    """True: who stands in the way, and what holds them, is said of pods that find no room. That takes a search more."""
    _rooms: list[_Room] = field(default_factory=list)
    _searches: dict[tuple[int | None, int], RoomSearch] = field(default_factory=dict)
    """By the highest priority that may be moved, and the depth."""
    _any: RoomSearch | None = None
    _leavers: dict[int, list[Pod]] = field(default_factory=dict)
    _work: SearchWork = field(default_factory=lambda: SearchWork(WORK))
    _share: int = WORK
    """Of one search."""
    _left: list[PendingRoom] = field(default_factory=list)
    """Pods without room."""
    _members: GroupMembers = field(init=False)
    _before: TrialMark | None = None
    """The trial before the placeholders of rooms that wait were taken off."""
    _found: dict[str, int] = field(default_factory=dict)
    """By uid of the first pod of a gang: how many found room when the gang was planned last."""

    def __post_init__(self) -> None:
        self._members = GroupMembers(self.trial.snapshot)

    def start_again(self) -> None:
        """The plan was taken back."""
        if self._before is not None:
            self.trial.rollback(self._before)
            self._before = None
        self._rooms.clear()
        self._searches.clear()
        self._any = None
        self._leavers.clear()
        self._left.clear()
        self._found.clear()
        self._work.left = WORK

    def records(self) -> tuple[PendingRoom, ...]:
        """What the plan says of each pod: those with room first, in the order of the plan."""
        return (*map(_record, self._rooms), *self._left)

    def arrivals(self) -> list[tuple[Pod, str]]:
        """The pods, also those of Reservations, that get room, with their nodes."""
        return [(room.candidate.pod, room.way.node) for room in self._rooms]

    def pods(self) -> int:
        """How many pending pods get room."""
        return sum(not room_of_pod(room.candidate.pod) for room in self._rooms)

    def run(self, policy: RoomMakingPolicy, proposals: Proposals) -> None:
        """Plan room for the pods that the policy proposes."""
        known = {room.pod.uid for room in self._left}  # of an earlier round
        gangs = gangs_of((one for one in proposals if one.pod.uid not in known), self._members)
        if not gangs:
            return
        if self.limits.full is not None:
            for gang in gangs:
                self._leave(gang, self.limits.full)
            return
        self._share = max(_LEAST_SHARE, WORK * _SHARES // sum(map(len, gangs)))
        self._before = self._before or self.trial.mark()
        asking = {one.pod.uid for gang in gangs for one in gang}
        holders = {uid: holder for uid, holder in self.trial.holders.items() if uid in asking}
        for holder in holders.values():
            self.trial.take_off(holder)
        self._make(policy, gangs)
        placed = {room.candidate.pod.uid for room in self._rooms}
        for uid, holder in holders.items():
            if uid not in placed:
                self.trial.state.wait(holder)

    def _make(self, policy: RoomMakingPolicy, gangs: Sequence[Gang]) -> None:
        reasons: dict[PodClass, Blocked] = {}
        for gang in self._best(policy.bounds, sorted(gangs, key=_order)):
            kind = self.trial.state.cluster.kind_of(gang[0].pod)
            if (
                len(gang) > 1 or kind not in reasons or least_of(gang, self._members) > len(gang)
            ):  # each takes a search
                reasons[kind] = self._why(policy.bounds, gang)
            self._leave(gang, reasons[kind])
        self._leave_the_rest(gangs)

    def _leave_the_rest(self, gangs: Iterable[Gang]) -> None:
        """Pods of which enough others found room: they are planned for once those run."""
        known = {room.candidate.pod.uid for room in self._rooms} | {room.pod.uid for room in self._left}
        for gang in gangs:
            rest = tuple(one for one in gang if one.pod.uid not in known)
            if rest:
                self._leave(rest, Blocked(SkipReason.GROUP, _ENOUGH, "gang"))

    def _best(self, bounds: RoomBounds, gangs: Sequence[Gang]) -> list[Gang]:
        """Those that find no room in the best order that is tried."""
        blame: Counter[str] = Counter()
        best = last = self._try(bounds, gangs, blame)
        best_blame = Counter(blame)
        for _ in range(_TRIES):
            done = self.limits.exhausted or self._work.left <= 0
            dear = self._dear(last)
            if done or not (last.failed or dear) or len(last.failed) == len(gangs):
                break
            blame.update([*(gang[0].pod.uid for gang in last.failed), *dear])
            self._undo(last.rooms)
            last = self._try(bounds, gangs, blame)
            if last.value < best.value:
                best, best_blame = last, Counter(blame)
        if best is not last:
            self._undo(last.rooms)
            self._work.left = max(self._work.left, WORK)
            best = self._try(bounds, gangs, best_blame)
        return best.failed

    def _try(self, bounds: RoomBounds, gangs: Sequence[Gang], blame: Counter[str]) -> _Tried:
        """Plan them, the highest priorities first, of these those that are blamed most, then those with the fewest moves."""
        rooms, failed = len(self._rooms), list[Gang]()
        value: list[int] = []
        for _, alike in groupby(gangs, key=lambda gang: -gang[0].pod.spec.priority):
            members = list(alike)
            blamed = sorted((g for g in members if blame[g[0].pod.uid]), key=lambda g: -blame[g[0].pod.uid])
            before = len(failed)
            for gang in blamed:
                failed += self._cheapest_first(bounds, [gang])
            failed += self._cheapest_first(bounds, [g for g in members if not blame[g[0].pod.uid]])
            value.append(len(failed) - before)
        return _Tried(rooms, failed, (*value, sum(len(room.way.steps) for room in self._rooms)))

    def _dear(self, tried: _Tried) -> list[str]:
        """Uids of pods for which more moves are planned than for others: planned first, they may need fewer."""
        rooms = self._rooms[tried.rooms :]
        least = min((len(room.way.steps) for room in rooms), default=0)
        return [room.candidate.pod.uid for room in rooms if len(room.way.steps) > max(least, 1)]

    def _cheapest_first(self, bounds: RoomBounds, gangs: Sequence[Gang]) -> list[Gang]:
        """Those that find no room."""
        left = list(gangs)
        for moves in range(1, bounds.most_moves + 1):
            left = [gang for gang in left if not self._place(bounds, gang, moves)]
        return left

    def _place(self, bounds: RoomBounds, gang: Gang, moves: int) -> bool:
        """All pods of it with so many moves each at most, or as many as are enough, or none."""
        rooms, least = len(self._rooms), least_of(gang, self._members)
        if least > len(gang):
            return False
        found = sum(self._place_one(bounds, candidate, moves) for candidate in gang)
        if found >= least:
            return True
        self._found[gang[0].pod.uid] = found
        self._undo(rooms)
        return False

    def _place_one(self, bounds: RoomBounds, candidate: Candidate, moves: int) -> bool:
        denied: set[str] = set()
        planned = self.trial.hypothetical

        def may_leave(pod: Pod) -> bool:
            # What a search knows of a class of pods may be older than the moves that brought some of them where they stand.
            free = pod.uid not in denied and pod.uid not in planned
            return free and self._held(makes_room(pod, candidate)) is None

        for _ in range(_AGAIN):
            if self.limits.exhausted:
                return False
            way = self._search(bounds, candidate).find(
                candidate.pod, Reach(moves, bounds.depth), may_leave, self._share
            )
            if way is None:
                return False
            refused = self._take(candidate, way)
            if refused is None:
                return True
            denied.add(refused.uid)
        return False

    def _search(self, bounds: RoomBounds, candidate: Candidate) -> RoomSearch:
        """The search among the pods that may be moved for it."""
        highest = None if bounds.higher_priorities else candidate.pod.spec.priority
        key = highest, bounds.depth
        found = self._searches.get(key)
        if found is None:
            view = self.trial.view

            def may_leave(pod: Pod) -> bool:
                return (highest is None or pod.spec.priority <= highest) and view.movable(pod)

            levels = RoomLevels(self.trial, self.replacement, may_leave, bounds.depth - 1)
            found = self._searches[key] = self._made(candidate, levels, self._work)
        return found

    def _made(self, candidate: Candidate, levels: RoomLevels, work: SearchWork) -> RoomSearch:
        sets = VictimSets(
            trial=self.trial, levels=levels, cost=self.refusals.disruption, leavers=self._leavers
        )
        return RoomSearch(self.trial, self.objective, self.replacement, candidate.policy, sets, work)

    def _take(self, candidate: Candidate, way: Way) -> Pod | None:
        """Plan all moves of the way; or none, and the pod that may not be moved beside the others."""
        room = _Room(candidate, way, self.trial.mark(), self.plan.number(), ())
        taken: list[tuple[Candidate, bool]] = []
        for number, step in enumerate(way.steps, 1):
            mover, follows = makes_room(step.pod, candidate), bool(step.after)
            if self._held(mover, follows=follows) is not None:
                self._take_back(room._replace(taken=tuple(taken)))
                return step.pod
            target = step.target if number < len(way.steps) else _with_room(step.target, candidate.policy)
            self.plan.move(mover, target, step.after)
            self.plan.take(mover, follows=follows)
            taken.append((mover, follows))
        self.trial.arrive(candidate.pod, way.node)
        self._leavers.setdefault(self.trial.state.node_index[way.node], []).extend(_new(way))
        self._rooms.append(room._replace(taken=tuple(taken)))
        return None

    def _undo(self, rooms: int) -> None:
        """Take back all but the first so many rooms of the plan, of which they are the last."""
        while len(self._rooms) > rooms:
            room = self._rooms.pop()
            leavers = self._leavers[self.trial.state.node_index[room.way.node]]
            del leavers[len(leavers) - len(_new(room.way)) :]
            self._take_back(room)

    def _take_back(self, room: _Room) -> None:
        self.plan.undo(room.moves)
        self.trial.rollback(room.mark)
        for mover, follows in room.taken:
            self.plan.give_back(mover, follows=follows)

    def _held(self, mover: Candidate, *, follows: bool = False) -> Blocked | None:
        return held(mover, self.plan, self.refusals, self.budgets, follows=follows)

    def _leave(self, gang: Gang, why: Blocked) -> None:
        for candidate in gang:
            self.plan.skipped.add(candidate, why)
            self._left.append(
                PendingRoom(
                    pod=_ref(candidate.pod),
                    policy=candidate.policy,
                    reservation=room_of_pod(candidate.pod),
                    message=why.message,
                )
            )

    def _why(self, bounds: RoomBounds, gang: Gang) -> Blocked:
        first, found = gang[0], self._found.get(gang[0].pod.uid, 0)
        least = least_of(gang, self._members)
        if (len(gang) > 1 and found) or least > len(gang):
            return Blocked(SkipReason.GROUP, words_of(first.pod, found, len(gang), least), "gang")
        if self.limits.full is not None:
            return self.limits.full
        if not self.explains:
            return Blocked(SkipReason.NO_TARGET, NO_WAY, "")
        return self._explained(bounds, first)

    def _explained(self, bounds: RoomBounds, first: Candidate) -> Blocked:
        """What only explains neither ends the decision nor changes it: its defects are told in place of the words."""
        mark = self.trial.mark()
        try:
            return why_no_room(
                first.pod, self._any_search(first), bounds, lambda pod: self._said(first, bounds, pod)
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the decision has been made without it
            self._any = None
            return Blocked(SkipReason.NO_TARGET, f"{NO_WAY} ({_DEFECT}: {error!r})", "")
        finally:
            self.trial.rollback(mark)

    def _any_search(self, candidate: Candidate) -> RoomSearch:
        """The search among all pods that would come back."""
        if self._any is None:
            moved = self.trial.hypothetical
            levels = RoomLevels(
                self.trial,
                self.replacement,
                lambda pod: self.comes_back(pod) and pod.uid not in moved,
                _DEEPEST,
            )
            self._any = self._made(candidate, levels, SearchWork(WORK))
        return self._any

    def _said(self, candidate: Candidate, bounds: RoomBounds, pod: Pod) -> Blocked | None:
        if pod.spec.priority > candidate.pod.spec.priority and not bounds.higher_priorities:
            return Blocked(SkipReason.PROTECTED, "has a higher priority", "priority")
        return self._held(makes_room(pod, candidate))


def _order(gang: Gang) -> tuple[object, ...]:
    """The highest priority first, then who waits longest."""
    pod = gang[0].pod
    return -pod.spec.priority, pod.unschedulable_since_s, pod.key


def _with_room(target: Target, policy: str) -> Target:
    """The last move of a way: with it the pod that waited has room."""
    placed = nothing()
    placed[Tier.PENDING] = -1
    effects = (*target.effects, MoveEffect(policy, Badness.of(placed)))
    return target._replace(change=target.change + placed, effects=effects)


def _new(way: Way) -> tuple[Pod, ...]:
    """Pods that leave the node for the first time with this way."""
    moved = {step.pod.uid for step in way.steps}
    return tuple(pod for pod in way.after if pod.uid in moved)


def _record(room: _Room) -> PendingRoom:
    candidate, way = room.candidate, room.way
    return PendingRoom(
        pod=_ref(candidate.pod),
        policy=candidate.policy,
        reservation=room_of_pod(candidate.pod),
        node=way.node,
        moves=tuple(_ref(step.pod) for step in way.steps),
        after=tuple(map(_ref, way.after)),
    )


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)
