"""Candidates that belong together (the pods of a node that is emptied): all of them find room, or none is moved.

Groups of a policy that wants nodes emptied are first searched for the most that go together (``emptying``); what the
search leaves is tried one by one, so that every node that stays has a reason. What the limits of a cycle do not allow
now follows in later cycles; a plan that ends after so many moves ends between groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Protocol

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import Blocked, LimitLedger
from rescheduler.planning.emptying import Chosen, Emptying, Wanted
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.skipped import SkippedPods
from rescheduler.planning.targets import Target
from rescheduler.planning.total_change import refusal_of_group
from rescheduler.policies.emptying import EmptyingPolicy
from rescheduler.policies.framework import Policy
from rescheduler.policies.objective import lowers, nothing, reaches, worsens_wishes
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.policies.relieving import RelievingPolicy
from rescheduler.scheduling.framework import IntArray


class MakesMoves(Protocol):
    """What a plan lets groups do: single moves, and to take the last ones back."""

    skipped: SkippedPods

    def find(self, policy: Policy, candidate: Candidate, wanted: Wanted | None) -> Target | Blocked | None:
        """A target, why there is none, or None if the pod need not move any more."""
        ...

    def move_to(self, policy: RelievingPolicy, candidate: Candidate, node: int) -> bool:
        """Plan a move to that node (an index), if it is better and all rules allow it, as ``move`` does; False: it is not."""
        ...

    def move(self, candidate: Candidate, target: Target, after: Sequence[Pod] = ()) -> None:
        """Plan it, and spend what its eviction takes from a budget. ``after``: pods whose moves must have landed before."""
        ...

    def number(self) -> int:
        """Of the moves planned so far."""
        ...

    def undo(self, number: int) -> None:
        """Take back all but the first ``number`` moves, and give back what they took from budgets."""
        ...

    def is_planned(self, pod: Pod) -> bool:
        """True if the plan has moved the pod already."""
        ...

    def limit(self, candidate: Candidate, *, follows: bool = False) -> Blocked | None:
        """Which of our own limits the move would pass, or None. ``follows``: it begins after another move of the plan."""
        ...

    def take(self, candidate: Candidate, *, follows: bool = False) -> None:
        """Spend what the limits count."""
        ...

    def give_back(self, candidate: Candidate, *, follows: bool = False) -> None:
        """Undo ``take``."""
        ...


class Groups:
    """Plans the groups of policies."""

    def __init__(self, plan: MakesMoves, limits: LimitLedger, refusals: Refusals, emptying: Emptying) -> None:
        self._plan = plan
        self._limits = limits
        self._refusals = refusals
        self._emptying = emptying

    def run(self, policy: Policy, proposals: Proposals) -> None:
        """Plan what can be planned of all groups."""
        self._plan.skipped.settle()
        left = {group: tuple(members) for group, members in groupby(proposals, key=attrgetter("group"))}
        if isinstance(policy, EmptyingPolicy):
            done = self._together(policy, left)
            left = {g: m for g, m in left.items() if not m[0].spare and m[0].pod.node not in done}
        while left and not self._limits.exhausted:
            self._try(policy, left.pop(next(iter(left))))
        if left:
            rest = set(left)
            self._plan.skipped.leave(b for b in proposals.queue().rest() if b.group in rest)

    def _together(self, policy: EmptyingPolicy, left: dict[str, tuple[Candidate, ...]]) -> set[str]:
        """Plan the groups that a search over all of them chooses, and take them out of ``left``. Gives their nodes."""
        nodes: set[str] = set()
        open_ = {group: members for group, members in left.items() if not any(map(self._refused, members))}
        while open_ and not self._limits.exhausted:
            done = False
            for one in self._emptying.choose(policy, list(open_.values()), self._limits.left):
                if self._limits.full is not None:
                    break
                group = one.members[0].group
                del open_[group]
                if self._try(policy, one.members, one):
                    del left[group]
                    nodes.add(one.members[0].pod.node)
                    done = True
            open_ = {group: some for group, some in open_.items() if some[0].pod.node not in nodes}
            # Where the rules refused a pod that the numbers allowed, the others are searched again with what is left.
            if not done:
                break
        return nodes

    def _refused(self, candidate: Candidate) -> bool:
        return self._plan.is_planned(candidate.pod) or self._refusals.of(candidate) is not None

    def _try(self, policy: Policy, members: Sequence[Candidate], chosen: Chosen | None = None) -> bool:
        """Plan a group; ``chosen``: where its pods are to go if the rules allow it. False if none of them moves."""
        plan = self._plan
        beyond = self._limits.beyond(len(members))
        if beyond is not None:
            for candidate in members:
                plan.skipped.add(candidate, self._refusals.of(candidate) or beyond)
            return False
        start = plan.number()
        changes = self._move_all(policy, members, chosen)
        worse = [i for i, (a, b) in enumerate(pairwise(changes or ())) if worsens_wishes(b - a)]
        if changes is not None and 0 < len(worse) < len(members):
            # Without these the others may be better off: they are planned last, where that shows.
            order = [*(i for i in range(len(members)) if i not in worse), *worse]
            members = tuple(members[i] for i in order)
            chosen = chosen and chosen.in_order(order)
            plan.undo(start)
            changes = self._move_all(policy, members, chosen)
        if changes is None:
            return False
        part = next((c for c in changes[1:-1] if worsens_wishes(changes[-1] - c)), None)
        if part is not None or not reaches(changes[-1]):
            plan.undo(start)
            change = changes[-1] if part is None else changes[-1] - part
            why = refusal_of_group(change, members[0].pod.node)
            for member in members:
                plan.skipped.add(member, why)
            return False
        # Limits are looked at only now: they may cut a group in two, because the rest follows in later cycles, while
        # a pod without a target means that the node is not emptied at all.
        return self._cut(members, start, changes)

    def _move_all(
        self, policy: Policy, members: Sequence[Candidate], chosen: Chosen | None
    ) -> list[IntArray] | None:
        """Plan all of them: what the first none, one, two, ... of them change. None: not all have a place, and none is planned."""
        plan = self._plan
        start = plan.number()
        changes = [nothing()]
        for i, candidate in enumerate(members):
            # Another policy moved one of them in this plan: the node changed, so the group is planned next time.
            if plan.is_planned(candidate.pod):
                plan.undo(start)
                return None
            wanted = chosen.wanted(i) if chosen is not None else None
            found = self._refusals.of(candidate) or plan.find(policy, candidate, wanted)
            if not isinstance(found, Target):
                plan.undo(start)
                if found is not None:
                    self._skip(members, candidate, found)
                return None
            changes.append(changes[-1] + found.change)
            plan.move(candidate, found)
        return changes

    def _cut(self, members: Sequence[Candidate], start: int, changes: Sequence[IntArray]) -> bool:
        """Leave for later what the limits do not allow now; what goes must make the whole better. False if nothing goes."""
        plan = self._plan
        taken = 0
        limit: Blocked | None = None
        for candidate in members:
            limit = plan.limit(candidate)
            if limit is not None:
                break
            plan.take(candidate)
            taken += 1
        if limit is None:
            return True
        falling = taken
        while falling and not lowers(changes[falling]):
            falling -= 1
        for candidate in members[falling:taken]:
            plan.give_back(candidate)
        plan.undo(start + falling)
        for late in members[falling:]:
            plan.skipped.add(late, limit)
        return falling > 0

    def _skip(self, members: Sequence[Candidate], failed: Candidate, why: Blocked) -> None:
        self._plan.skipped.add(failed, why)
        name = f"{failed.pod.namespace}/{failed.pod.name}"
        message = f"the pods that were to leave node {failed.pod.node} together stay because of {name}"
        for member in _others(members, failed):
            self._plan.skipped.add(member, Blocked(SkipReason.GROUP, message, name))


def _others(members: Sequence[Candidate], failed: Candidate) -> Iterator[Candidate]:
    return (member for member in members if member is not failed)
