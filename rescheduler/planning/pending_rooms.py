"""Room for pending pods in a plan: who steps aside for which of them, within budgets and limits, and why nothing helps.

All pods of one priority are drafted together by the search that repairs, the highest priority first: room for most of them, with the fewest
moves. What the rules, budgets or limits refuse of that is drafted once more without it, and where a preference would have to be given
up for room, only then. A way is planned as a whole or not at all, and so is a gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.model.room_pod import room_of_pod
from rescheduler.planning.badness import Badness, MoveEffect
from rescheduler.planning.chain_moves import PlansDrafts, makes_room
from rescheduler.planning.chains import AsideTo, ChainStep
from rescheduler.planning.group_members import GroupMembers, gangs_of, least_of, words_of
from rescheduler.planning.limits import shorter
from rescheduler.planning.plan import Blocked, PendingRoom, PodRef, SkipReason
from rescheduler.planning.repair_drafts import MOST_PODS, DraftedMove, Extent, RepairDraft
from rescheduler.planning.targets import Target
from rescheduler.planning.trial import TrialMark
from rescheduler.planning.why_no_room import NO_WAY, Nearest, explaining, why_no_room
from rescheduler.policies.objective import Tier, nothing
from rescheduler.policies.pending_pods import MOST_DEPTH, PendingPods
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.scheduling.classes import PodClass

_MOST_DRAFTS: Final = 24
"""Of one plan; whoever is left then has no room."""

_ENOUGH: Final = (
    "enough pods of its group get room now (minMember); the others are planned for once those run"
)
_DEFECT: Final = "the words for it could not be found because of a defect, please report it"

Gang = tuple[Candidate, ...]


class _Room(NamedTuple):
    """Room that stands in the plan."""

    candidate: Candidate
    way: Sequence[ChainStep]
    """The moves that make it, and the arrival of the pod."""
    mark: TrialMark
    """The trial before it."""
    moves: int
    """Of the plan before it."""

    @property
    def node(self) -> str:
        """Where it is."""
        return self.way[-1].target.node

    @property
    def new(self) -> tuple[Pod, ...]:
        """Pods that leave the node for the first time with these moves."""
        moved = {step.pod.uid for step in self.way}
        return tuple(pod for pod in self.way[-1].after if pod.uid in moved)


@dataclass(slots=True, kw_only=True)
class PendingRooms(PlansDrafts):
    """Makes room in one decision."""

    comes_back: Callable[[Pod], bool]
    """True if another pod would come in the place of this one."""
    explains: bool
    """True: who stands in the way, and what holds them, is said of pods that find no room. That takes a search more."""
    _rooms: list[_Room] = field(default_factory=list)
    _leavers: dict[int, list[Pod]] = field(default_factory=dict)
    """By node: pods that leave it for rooms that stand in the plan."""
    _drafts_left: int = _MOST_DRAFTS
    _denied: set[str] = field(default_factory=set)
    """Uids of pods that a budget or a limit keeps from moving with the others of a way."""
    left: list[PendingRoom] = field(default_factory=list)
    """Pods without room, and why."""
    _members: GroupMembers = field(init=False)
    _before: TrialMark | None = None
    """The trial before the placeholders of rooms that wait were taken off."""
    _found: dict[str, int] = field(default_factory=dict)
    """By uid of the first pod of a gang: how many found room when the gang was planned last."""

    def __post_init__(self) -> None:
        self._members = GroupMembers(self.plan.trial.snapshot)

    def start_again(self) -> None:
        """The plan was taken back."""
        if self._before is not None:
            self.plan.trial.rollback(self._before)
            self._before = None
        self._rooms.clear()
        self._leavers.clear()
        self.drafts.refused.clear()
        self._drafts_left = _MOST_DRAFTS
        self._denied.clear()
        self.left = []
        self._found.clear()

    def touched(self) -> bool:
        """True if anything was changed in the trial for the sake of rooms; else the moves of the plan and ``left`` are all that is to be kept of it."""
        return bool(self._rooms or self.plan.trial.holders)

    def records(self) -> tuple[PendingRoom, ...]:
        """What the plan says of each pod: those with room first, in the order of the plan."""
        return (*map(_record, self._rooms), *self.left)

    def arrivals(self) -> list[tuple[Pod, str]]:
        """The pods, also those of Reservations, that get room, with their nodes."""
        return [(room.candidate.pod, room.node) for room in self._rooms]

    def pods(self) -> int:
        """How many pending pods get room."""
        return sum(not room_of_pod(room.candidate.pod) for room in self._rooms)

    def run(self, policy: PendingPods, proposals: Proposals) -> None:
        """Plan room for the pods that the policy proposes."""
        known = {room.pod.uid for room in self.left}  # of an earlier round
        gangs = gangs_of((one for one in proposals if one.pod.uid not in known), self._members)
        if not gangs:
            return
        if self.plan.limits.full is not None:
            for gang in gangs:
                self._leave(gang, self.plan.limits.full)
            return
        self._before = self._before or self.plan.trial.mark()
        asking = {one.pod.uid for gang in gangs for one in gang}
        holders = {uid: holder for uid, holder in self.plan.trial.holders.items() if uid in asking}
        for holder in holders.values():
            self.plan.trial.take_off(holder)
        self._make(policy, gangs)
        placed = {room.candidate.pod.uid for room in self._rooms}
        for uid, holder in holders.items():
            if uid not in placed:
                self.plan.trial.state.wait(holder)

    def _make(self, policy: PendingPods, gangs: Sequence[Gang]) -> None:
        failed = self._serve(policy, sorted(gangs, key=_order))
        why = {gang[0].pod.uid: self._why(gang) for gang in failed}
        alike: dict[PodClass, Candidate] = {}
        for gang in failed:
            if why[gang[0].pod.uid] is None:
                alike.setdefault(self._kind(gang), gang[0])
        said = self._explained(policy, list(alike.values())) if alike and self.explains else {}
        for gang in failed:
            uid = gang[0].pod.uid
            alone = alike.get(self._kind(gang))
            found = said.get(alone.pod.uid) if alone is not None else None
            self._leave(gang, why[uid] or found or Blocked(SkipReason.NO_TARGET, NO_WAY, ""))
        self._leave_the_rest(gangs)

    def _leave_the_rest(self, gangs: Iterable[Gang]) -> None:
        """Pods of which enough others found room: they are planned for once those run."""
        known = {room.candidate.pod.uid for room in self._rooms} | {room.pod.uid for room in self.left}
        for gang in gangs:
            rest = tuple(one for one in gang if one.pod.uid not in known)
            if rest:
                self._leave(rest, Blocked(SkipReason.GROUP, _ENOUGH, "gang"))

    def _serve(self, policy: PendingPods, gangs: Sequence[Gang]) -> list[Gang]:
        """Those that find no room."""
        failed: list[Gang] = []
        for _, alike in groupby(gangs, key=lambda gang: -gang[0].pod.spec.priority):
            waiting = list(alike)
            while waiting and self._drafts_left > 0 and not self.plan.limits.exhausted:
                number = _at_once(waiting)
                left = self._try(policy, waiting[:number], loses_wishes=False)
                if left and not self.plan.limits.exhausted:
                    left = self._try(policy, left, loses_wishes=True)
                # Where one finds no room, those like it find none.
                kinds = {self._kind(gang) for gang in left if len(gang) == 1}
                failed += [*left, *(gang for gang in waiting[number:] if self._kind(gang) in kinds)]
                waiting = [gang for gang in waiting[number:] if self._kind(gang) not in kinds]
            failed += waiting
        return failed

    def _kind(self, gang: Gang) -> PodClass:
        return self.plan.trial.state.cluster.kind_of(gang[0].pod)

    def _try(self, policy: PendingPods, gangs: Sequence[Gang], *, loses_wishes: bool) -> list[Gang]:
        """Those that find no room now. ``loses_wishes``: as for ``Extent``; the search is shorter then."""
        draft = self._draft(policy, gangs, loses_wishes=loses_wishes)
        drafted = {one.candidate.pod.uid: one for one in draft.moves}
        aside = draft.by_node(self.plan.trial.state.node_index)
        # Where limits end the plan, room for most is made first.
        moves = {uid: _moves(one.to.node, aside) for uid, one in drafted.items()}
        ranked = sorted(gangs, key=lambda gang: sum(moves.get(one.pod.uid, 0) for one in gang))
        placed = {id(gang) for gang in ranked if self._place(policy, gang, drafted, aside)}
        return [gang for gang in gangs if id(gang) not in placed]

    def _draft(self, policy: PendingPods, gangs: Sequence[Gang], *, loses_wishes: bool) -> RepairDraft:
        """With room for no gang that is of no use: what those would take others get."""
        some = [gang for gang in gangs if least_of(gang, self._members) <= len(gang)]
        passes = shorter(self.drafts.passes, 1 if loses_wishes else 0)
        highest = None if policy.args.move_higher_priorities else gangs[0][0].pod.spec.priority

        def may_leave(pod: Pod) -> bool:
            if pod.uid in self._denied or (highest is not None and pod.spec.priority > highest):
                return False
            return self.plan.trial.view.movable(pod) and self.held(makes_room(pod, gangs[0][0])) is None

        while True:
            self._drafts_left -= 1
            asking = [one for gang in some for one in gang]
            extent = Extent.of_rooms(policy.args, passes, may_leave, self._leavers, loses_wishes=loses_wishes)
            draft = self.drafts.draft([(policy, one) for one in asking], extent)
            uids = {one.candidate.pod.uid for one in draft.moves}
            found = {id(gang): sum(one.pod.uid in uids for one in gang) for gang in some}
            short = [gang for gang in some if 0 < found[id(gang)] < least_of(gang, self._members)]
            for gang in short:
                self._found[gang[0].pod.uid] = found[id(gang)]
            if not short:
                return draft
            # Without all the others the one that lacks least may find room for all.
            lacks = {id(gang): least_of(gang, self._members) - found[id(gang)] for gang in short}
            kept = min(short, key=lambda gang: lacks[id(gang)]) if len(short) > 1 else None
            some = [gang for gang in some if id(gang) not in lacks or gang is kept]

    def _place(
        self,
        policy: PendingPods,
        gang: Gang,
        drafted: Mapping[str, DraftedMove],
        aside: Mapping[int, Sequence[AsideTo]],
    ) -> bool:
        """All pods of it that the draft has, or none."""
        rooms, found = len(self._rooms), 0
        for candidate in gang:
            one = drafted.get(candidate.pod.uid)
            if one is not None and not self.plan.limits.exhausted:
                way = self.drafts.chains.room(one.to, aside, self._leavers, policy.args.most_moves)
                found += bool(way) and self._take(candidate, way)
        if found and found >= least_of(gang, self._members):
            return True
        if found:
            self._found[gang[0].pod.uid] = found
        self._undo(rooms)
        return False

    def _take(self, candidate: Candidate, way: Sequence[ChainStep]) -> bool:
        """Plan all moves of the way, or none: then the pod that may not be moved beside the others is denied."""
        room = _Room(candidate, way, self.plan.trial.mark(), self.plan.number())
        steps = list(way[:-1])
        if steps:
            steps[-1] = steps[-1]._replace(target=_with_room(steps[-1].target, candidate.policy))
        denied = self.take_all(candidate, steps)
        if denied is not None:
            self._denied.add(denied.uid)
            return False
        self.plan.trial.arrive(candidate.pod, room.node)
        self._leavers.setdefault(self.plan.trial.state.node_index[room.node], []).extend(room.new)
        self._rooms.append(room)
        return True

    def _undo(self, rooms: int) -> None:
        """Take back all but the first so many rooms of the plan, of which they are the last."""
        while len(self._rooms) > rooms:
            room = self._rooms.pop()
            leavers = self._leavers[self.plan.trial.state.node_index[room.node]]
            del leavers[len(leavers) - len(room.new) :]
            self.plan.undo(room.moves)
            self.plan.trial.rollback(room.mark)

    def _leave(self, gang: Gang, why: Blocked) -> None:
        for candidate in gang:
            self.plan.skipped.add(candidate, why)
            self.left.append(
                PendingRoom(
                    pod=PodRef.of(candidate.pod),
                    policy=candidate.policy,
                    reservation=room_of_pod(candidate.pod),
                    message=why.message,
                )
            )

    def _why(self, gang: Gang) -> Blocked | None:
        """None: it takes a search to say."""
        found, least = self._found.get(gang[0].pod.uid, 0), least_of(gang, self._members)
        if (len(gang) > 1 and found) or least > len(gang):
            return Blocked(SkipReason.GROUP, words_of(gang[0].pod, found, len(gang), least), "gang")
        return self.plan.limits.full

    def _explained(self, policy: PendingPods, wanted: Sequence[Candidate]) -> Mapping[str, Blocked]:
        """What only explains neither ends the decision nor changes it: its defects are told in place of the words. By uid."""
        mark, moved = self.plan.trial.mark(), self.plan.trial.hypothetical

        def may_leave(pod: Pod) -> bool:
            return self.comes_back(pod) and pod.uid not in moved

        def held_back(candidate: Candidate, pod: Pod) -> Blocked | None:
            if pod.spec.priority > candidate.pod.spec.priority and not policy.args.move_higher_priorities:
                return Blocked(SkipReason.PROTECTED, "has a higher priority", "priority")
            return self.held(makes_room(pod, candidate))

        try:
            nearest = Nearest(policy, explaining(self.drafts, len(wanted)), self._leavers, may_leave)
            return why_no_room(wanted, nearest, held_back)
        except Exception as error:  # noqa: BLE001 - whatever it is, the decision has been made without it
            words = f"{NO_WAY} ({_DEFECT}: {error!r})"
            return {one.pod.uid: Blocked(SkipReason.NO_TARGET, words, "") for one in wanted}
        finally:
            self.plan.trial.rollback(mark)


def _moves(node: int, aside: Mapping[int, Sequence[AsideTo]], depth: int = MOST_DEPTH) -> int:
    """About so many pods step aside for one that comes to the node."""
    if not depth:
        return 0
    return sum(1 + _moves(to.node, aside, depth - 1) for to in aside.get(node, ()))


def _at_once(gangs: Sequence[Gang]) -> int:
    """How many of the first gangs one draft is made for."""
    pods = accumulate(len(gang) for gang in gangs)
    return max(1, sum(number <= MOST_PODS for number in pods))


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


def _record(room: _Room) -> PendingRoom:
    candidate, (*steps, arrival) = room.candidate, room.way
    return PendingRoom(
        pod=PodRef.of(candidate.pod),
        policy=candidate.policy,
        reservation=room_of_pod(candidate.pod),
        node=room.node,
        moves=tuple(PodRef.of(step.pod) for step in steps),
        after=tuple(map(PodRef.of, arrival.after)),
    )
