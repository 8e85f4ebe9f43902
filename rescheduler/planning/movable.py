"""Which pods a decision may move at all: those that no protection keeps, none that is moved already. Pure.

Policies ask by class, because on a large cluster most pods of a class have the same answer. What is remembered of a class
is true for one decision.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from rescheduler.model.records import Pod
from rescheduler.planning.history import History
from rescheduler.planning.protections import Protector
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.state import SchedulingState


class Movable:
    """Answers for one decision."""

    def __init__(
        self, state: SchedulingState, history: History, protector: Protector, hypothetical: AbstractSet[str]
    ) -> None:
        """``hypothetical``: uids of pods that do not really stand where the trial puts them."""
        self._history = history
        self._protector = protector
        self._hypothetical = hypothetical
        self._mixed = frozenset(state.cluster.kind_of(f.pod) for f in history.unfinished)
        """Classes of pods that an unfinished migration names."""
        self._answers: dict[PodClass, bool | None] = {}

    def pod(self, pod: Pod) -> bool:
        """True if this decision may move the pod."""
        return pod.uid not in self._hypothetical and self.next(pod)

    def next(self, pod: Pod) -> bool:
        """The same for the next decision, when replacements will be pods like others."""
        return pod.uid not in self._history.moving and self._protector.movable(pod)

    def of_class(self, known: PodClass) -> bool | None:
        """``pod`` of all pods of a class; None if they differ."""
        # Pods of one class differ once a plan puts some of them there, or a move of some is under way.
        if known.hypothetical or known in self._mixed:
            return None
        if known not in self._answers:
            self._answers[known] = self._protector.movable_class(known)
        return self._answers[known]
