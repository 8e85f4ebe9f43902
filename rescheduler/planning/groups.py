"""Candidates that belong together (the pods of a node that is emptied): all of them find room, or none is moved.

Groups of a policy that wants nodes emptied are first searched for the most that go together (``emptying``); what the
search leaves is tried one by one, so that every node that stays has a reason. What the limits of a cycle do not allow
now follows in later cycles, and so does a pod whose budget the moves before it use up; in a plan without limits it begins after
one of those. ``stay`` names the nodes of which a rest cannot leave, now or soon. The room that was found for what follows is kept: a group that the search did not choose beside it waits, also while
a workload rests. A plan that ends after so many moves ends between groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.decided import BeingEmptied
from rescheduler.planning.emptying import Chosen, nodes_to_empty
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.planning.steps import FirstProposals, PlannedStep
from rescheduler.planning.targets import Target
from rescheduler.planning.total_change import refusal_of_group
from rescheduler.planning.unfinished_plan import UnfinishedPlan
from rescheduler.policies.framework import EmptyingPolicy, Policy
from rescheduler.policies.objective import lowers, nothing, reaches, worsens_wishes
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.scheduling.framework import IntArray


class _Turn(NamedTuple):
    """When a pod of a group may begin."""

    after: tuple[Pod, ...] = ()
    """Once the moves of these have landed."""
    used_up: Blocked | None = None
    """In a later cycle, because moves of this one use up its budget."""


class _Planned(NamedTuple):
    """The moves of a group; empty: none is planned."""

    changes: Sequence[IntArray]
    """What the first none, one, two, ... of them change."""
    turns: Sequence[_Turn]
    """Of each."""


class _Searched(NamedTuple):
    """What a search over all groups of a policy led to: as long as nothing else happens, another one has nothing to find."""

    version: int
    """Once that was planned which it chose and limits allow."""
    pods: Mapping[str, frozenset[str]]
    """By group, the uids of its pods."""
    later: tuple[str, ...]
    """Nodes that pods are to leave in later cycles."""

    def answers(self, version: int, groups: Mapping[str, Sequence[Candidate]]) -> bool:
        """True if these groups, at that version, are the same, or what is left of them."""
        return version == self.version and all(
            self.pods.get(group, frozenset()).issuperset(one.pod.uid for one in members)
            for group, members in groups.items()
        )


_NOTHING: Final = _Planned((), ())
_PASSES: Final = frozenset(
    {
        SkipReason.DISRUPTION_BUDGET,
        SkipReason.TOO_FEW_AVAILABLE,
        SkipReason.COOLDOWN,
        SkipReason.BACKOFF,
        SkipReason.IN_PROGRESS,
        SkipReason.WORKLOAD_BUSY,
    }
)
"""What one of a group waits for without changing that it may leave."""


class Groups:
    """Plans the groups of policies."""

    def __init__(self, plan: UnfinishedPlan) -> None:
        self._plan, self._limits, self._refusals = plan, plan.limits, plan.refusals
        self._later: dict[str, None] = {}
        """Nodes that pods are to leave in later cycles: the room that was found for them is kept."""
        self._answers: dict[tuple[object, ...], tuple[int, Blocked | None]] = {}
        """By ``_question``: at which version all had a place by themselves, and why they stay all the same, if not for room that is kept."""
        self._searched: dict[str, _Searched] = {}
        """By policy."""
        self.stay: set[str] = set()
        """Groups that cannot leave, and wait for nothing that passes by itself."""

    def run(self, policy: Policy, proposals: Proposals) -> None:
        """Plan what can be planned of all groups."""
        self._plan.skipped.settle()
        left = {group: tuple(members) for group, members in groupby(proposals, key=attrgetter("group"))}
        if isinstance(policy, EmptyingPolicy):
            done = self._together(policy, left)
            left = {g: m for g, m in left.items() if not m[0].spare and m[0].pod.node not in done}
        else:
            self._later = {}
        while left and not self._limits.exhausted:
            self._try(policy, left.pop(next(iter(left))))
        if left:
            rest = set(left)
            self._plan.skipped.leave(b for b in proposals.queue().rest() if b.group in rest)

    def emptying(
        self, snapshot: Snapshot, asked: Iterable[FirstProposals], steps: Iterable[PlannedStep]
    ) -> frozenset[BeingEmptied]:
        """Nodes that pods leave now, and those that are held since earlier decisions and are still to be emptied.

        ``asked``: what was proposed before anything was planned.
        """
        found = {BeingEmptied(step.move.policy, step.pod.node) for step in steps}
        held = {name for name, node in snapshot.nodes.items() if node.held_empty}
        for batch in (b for one in asked for b in one.found.queue().rest()) if held else ():
            node = batch.pods[0].node
            if node in held and batch.group and batch.group not in self.stay:
                found.add(BeingEmptied(batch.policy, node))
        return frozenset(found)

    def _together(self, policy: EmptyingPolicy, left: dict[str, tuple[Candidate, ...]]) -> set[str]:
        """Plan the groups that a search over all of them chooses, and take them out of ``left``. Gives their nodes."""
        nodes: set[str] = set()
        searched = self._searched.get(policy.name)
        if searched is not None and searched.answers(self._plan.trial.version, left):
            self._later = dict.fromkeys(searched.later)
            return nodes
        self._later = {}
        pods = {group: frozenset(one.pod.uid for one in members) for group, members in left.items()}
        open_ = {group: members for group, members in left.items() if not any(map(self._refused, members))}
        while open_ and not self._limits.exhausted:
            done = refused = False
            for one in nodes_to_empty(self._plan, policy, list(open_.values())):
                if self._limits.full is not None:
                    break
                group = one.members[0].group
                del open_[group]
                if any(map(self._rests, one.members)):
                    self._later[one.members[0].pod.node] = None
                    continue
                if self._try(policy, one.members, one):
                    del left[group]
                    nodes.add(one.members[0].pod.node)
                    done = True
                else:
                    refused = True
            open_ = {group: some for group, some in open_.items() if some[0].pod.node not in nodes}
            # Where the rules refused a pod that the numbers allowed, the others are searched again with what is left.
            if not (done and refused) or self._later:
                break
        self._searched[policy.name] = _Searched(self._plan.trial.version, pods, tuple(self._later))
        return nodes

    def _refused(self, candidate: Candidate) -> bool:
        """True if the pod may not leave its node, in this cycle or soon."""
        refused = self._refusals.of(candidate, in_turn=True)
        lasts = refused is not None and refused.reason is not SkipReason.COOLDOWN
        return lasts or self._plan.is_planned(candidate.pod)

    def _rests(self, candidate: Candidate) -> bool:
        """True if it may not leave it in this cycle."""
        return self._refusals.of(candidate, in_turn=True) is not None

    def _try(self, policy: Policy, members: Sequence[Candidate], chosen: Chosen | None = None) -> bool:
        """Plan a group; ``chosen``: where its pods are to go if the rules allow it. False if none of them moves."""
        plan = self._plan
        beyond = self._limits.beyond(len(members))
        if beyond is not None:
            for candidate in members:
                plan.skipped.add(candidate, self._refusals.of(candidate) or beyond)
            return False
        start = plan.number()
        self.stay.discard(members[0].group)
        if chosen is None and self._answered(policy, members):
            return False
        # What limits do not allow now is planned last, so that all the others may go.
        members, chosen = _last(
            [i for i, one in enumerate(members) if plan.limit(one) is not None], members, chosen
        )
        planned = self._move_all(policy, members, chosen)
        changes = planned.changes
        if not changes:
            return False
        part = next((c for c in changes[1:-1] if worsens_wishes(changes[-1] - c)), None)
        if part is not None or not reaches(changes[-1]):
            change = changes[-1] if part is None else changes[-1] - part
            effects = [effect for step in plan.steps[start:] for effect in step.move.effects]
            refused = refusal_of_group(change, members[0].pod.node, effects)
            plan.undo(start)
            if chosen is None:
                self._answers[_question(policy, members)] = self._plan.trial.version, refused
            self._refuse(members, refused, lasts=True)
            return False
        kept = self._kept(members) if chosen is None else None
        if kept is not None:
            plan.undo(start)
            self._answers[_question(policy, members)] = self._plan.trial.version, None
            self._refuse(members, kept, lasts=False)
            return False
        # Limits are looked at only now: they may cut a group in two, because the rest follows in later cycles, while
        # a pod without a target means that the node is not emptied at all.
        return self._cut(members, start, planned)

    def _answered(self, policy: Policy, members: Sequence[Candidate]) -> bool:
        """True if the group was tried by itself as the others stand now, and stays; the reasons are told again."""
        version, refused = self._answers.get(_question(policy, members), (None, None))
        why = refused or self._kept(members)
        if version != self._plan.trial.version or why is None:
            return False
        for member in members:
            self._plan.skipped.drop(member.pod.uid)
        self._refuse(members, why, lasts=refused is not None)
        return True

    def _kept(self, members: Sequence[Candidate]) -> Blocked | None:
        """Why a group that the search did not choose waits although all of it has a place."""
        if not self._later or members[0].pod.node in self._later:
            return None
        first = next(iter(self._later))
        words = f"room that it would take is kept for pods that leave node/{first} in later cycles"
        return Blocked(SkipReason.GROUP, words, first)

    def _refuse(self, members: Sequence[Candidate], why: Blocked, *, lasts: bool) -> None:
        """None of them moves; ``lasts``: it does not pass by itself."""
        if lasts:
            self.stay.add(members[0].group)
        for member in members:
            self._plan.skipped.add(member, why)

    def _move_all(self, policy: Policy, members: Sequence[Candidate], chosen: Chosen | None) -> _Planned:
        """Plan all of them, or none if not all have a place."""
        plan = self._plan
        start = plan.number()
        changes: list[IntArray] = [nothing()]
        turns: list[_Turn] = []
        for i, candidate in enumerate(members):
            # Another policy moved one of them in this plan: the node changed, so the group is planned next time.
            if plan.is_planned(candidate.pod):
                plan.undo(start)
                return _NOTHING
            wanted = chosen.wanted(i) if chosen is not None else None
            turn = self._turn(candidate)
            with self._plan.trial.following({pod.uid for pod in turn.after}):
                refused = self._refusals.of(candidate, in_turn=True)
                found = refused or plan.find(policy, candidate, wanted)
            if not isinstance(found, Target):
                plan.undo(start)
                self._skip(members, candidate, found)
                if found.reason not in _PASSES:
                    self.stay.add(candidate.group)
                return _NOTHING
            changes.append(changes[-1] + found.change)
            turns.append(turn)
            plan.move(candidate, found, turn.after)
        return _Planned(changes, turns)

    def _turn(self, candidate: Candidate) -> _Turn:
        """When a pod may begin, beside the moves planned so far."""
        budgets = self._plan.budgets
        used_up = budgets.refusal(candidate.pod, candidate.policy)
        if used_up is None or not self._limits.unlimited:
            return _Turn(used_up=used_up)
        earlier = budgets.before(candidate.pod)
        return _Turn(() if earlier is None else (earlier,))

    def _cut(self, members: Sequence[Candidate], start: int, planned: _Planned) -> bool:
        """Leave for later what limits and budgets do not allow now; what goes must make the whole better. False if nothing goes."""
        plan = self._plan
        taken = 0
        limit: Blocked | None = None
        for candidate, turn in zip(members, planned.turns, strict=True):
            limit = turn.used_up or plan.limit(candidate, follows=bool(turn.after))
            if limit is not None:
                break
            plan.take(candidate.pod)
            taken += 1
        if limit is None:
            return True
        self._later[members[0].pod.node] = None
        falling = taken
        while falling and not lowers(planned.changes[falling]):
            falling -= 1
        plan.undo(start + falling)
        if planned.turns[taken].used_up is not None:
            self._skip(members[falling:], members[taken], limit)
            return falling > 0
        for late in members[falling:]:
            plan.skipped.add(late, limit)
        return falling > 0

    def _skip(self, members: Sequence[Candidate], failed: Candidate, why: Blocked) -> None:
        self._plan.skipped.add(failed, why)
        name = f"{failed.pod.namespace}/{failed.pod.name}"
        message = f"the pods that were to leave node/{failed.pod.node} together stay because of {name}"
        for member in _others(members, failed):
            self._plan.skipped.add(member, Blocked(SkipReason.GROUP, message, name))


def _last(
    late: Sequence[int], members: Sequence[Candidate], chosen: Chosen | None
) -> tuple[Sequence[Candidate], Chosen | None]:
    """The same group, these of it last."""
    order = [*(i for i in range(len(members)) if i not in late), *late]
    return tuple(members[i] for i in order), chosen and chosen.in_order(order)


def _question(policy: Policy, members: Sequence[Candidate]) -> tuple[object, ...]:
    return policy, members[0].group, *(member.pod.uid for member in members)


def _others(members: Sequence[Candidate], failed: Candidate) -> Iterator[Candidate]:
    return (member for member in members if member is not failed)
