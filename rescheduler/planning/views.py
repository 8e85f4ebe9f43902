"""What the policies of a decision look at: one cluster, and the pods that the protections of each let it move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from rescheduler.model.records import Pod
from rescheduler.planning.history import History
from rescheduler.planning.plan import PolicySummary
from rescheduler.planning.protections import Protector, Protectors
from rescheduler.planning.steps import FirstProposals
from rescheduler.planning.summary import policy_summary
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.proposals import Proposals
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.memo import Memo
from rescheduler.scheduling.state import SchedulingState


class Movable:
    """Which pods a decision may move at all: those that one of these protectors lets go, none that is moved already.

    Policies ask by class, because on a large cluster most pods of a class have the same answer.
    """

    def __init__(
        self,
        state: SchedulingState,
        history: History,
        protectors: Sequence[Protector],
        hypothetical: AbstractSet[str],
    ) -> None:
        """``hypothetical``: uids of pods that do not really stand where the trial puts them."""
        self._history = history
        self._protectors = protectors
        self._hypothetical = hypothetical
        self._mixed = frozenset(state.cluster.kind_of(f.pod) for f in history.unfinished)
        """Classes of pods that an unfinished migration names."""
        self._answers: dict[PodClass, bool | None] = {}

    def pod(self, pod: Pod) -> bool:
        """True if this decision may move the pod."""
        return pod.uid not in self._hypothetical and self.next(pod)

    def next(self, pod: Pod) -> bool:
        """The same for the next decision, when replacements will be pods like others."""
        return pod.uid not in self._history.moving and any(one.movable(pod) for one in self._protectors)

    def of_class(self, known: PodClass) -> bool | None:
        """``pod`` of all pods of a class; None if they differ."""
        # Pods of one class differ once a plan puts some of them there, or a move of some is under way.
        if known.hypothetical or known in self._mixed:
            return None
        if known not in self._answers:
            answers = {one.movable_class(known) for one in self._protectors}
            self._answers[known] = True if True in answers else None if None in answers else False
        return self._answers[known]


class Views:
    """A view for each policy; policies with equal protections share one."""

    def __init__(
        self,
        view: PolicyView,
        policies: Sequence[Policy],
        protectors: Protectors,
        movable: Callable[[Sequence[Protector]], Movable],
        echoes: AbstractSet[str] = frozenset(),
    ) -> None:
        names = [policy.name for policy in policies]
        every = protectors.among(names)
        self.any, moved = _seen(view, movable(every))
        """With the pods that any of them may move."""
        seen = {one: (self.any, moved) if len(every) == 1 else _seen(view, movable((one,))) for one in every}
        self._of = {name: seen[protectors.of(name)] for name in names}
        self._others: list[PolicyView] = []
        self._echoes = echoes

    def of(self, policy: Policy) -> PolicyView:
        """With the pods that it may move."""
        return self._of[policy.name][0]

    def asked(self, policy: Policy, *, spares: bool = True) -> Proposals:
        """What it proposes; in its own name, by which its protections are found."""
        return policy.candidates(replace(self.of(policy), spares=spares)).by(policy.name)

    def all_asked(self, policies: Sequence[Policy], most: int | None) -> list[FirstProposals]:
        """What they propose before anything is planned. ``most``: moves of the plan; None: any number."""
        asked: list[FirstProposals] = []
        proposed = 0
        for policy in policies:
            # The first policies mostly use up what may be moved: then the spares of others are never looked at.
            spares = not asked or most is None or proposed < most
            found = self.asked(policy, spares=spares)
            asked.append(FirstProposals(found, spares or found.empty))
            if most:
                proposed += len(found.gains())
        return asked

    def counting(self, policies: Sequence[Policy]) -> list[Policy]:
        """Those that say how bad the placement is: of several that look at the same the first."""
        return [policy for policy in policies if policy.name not in self._echoes]

    def summary(self, policy: Policy, found: Proposals, view: PolicyView | None) -> PolicySummary:
        """What it sees in that view; None: how bad it is is not asked."""
        return policy_summary(policy, found, None if policy.name in self._echoes else view)

    def after(self, policies: Sequence[Policy]) -> list[PolicySummary]:
        """What the next decision of each would find, if nothing but the planned moves happened."""
        # What was known before is not asked for again, and would stand beside the new answers.
        self.end()
        found: list[PolicySummary] = []
        settled: dict[int, PolicyView] = {}
        for policy in policies:
            view, movable = self._of[policy.name]
            if id(view) not in settled:
                settled[id(view)] = self.another(view, settled=True, spares=False, movable=movable.next)
            seen = settled[id(view)]
            found.append(self.summary(policy, policy.candidates(seen), seen))
        return found

    def another(self, view: PolicyView, **changes: Any) -> PolicyView:
        """For questions of which the answers that are kept in ``view`` say nothing."""
        self._others.append(replace(view, memo=Memo(), **changes))
        return self._others[-1]

    def end(self) -> None:
        """Forget all answers."""
        for view in (self.any, *(view for view, _ in self._of.values()), *self._others):
            view.memo.clear()


def _seen(view: PolicyView, movable: Movable) -> tuple[PolicyView, Movable]:
    return replace(view, memo=Memo(), movable=movable.pod, movable_class=movable.of_class), movable
