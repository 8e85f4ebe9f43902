"""Why a candidate stays, before any target is looked for. Pure.

Most of it is the same for all pods of a class, so it is worked out once for each; what belongs to the single
pod (a move under way, a failure, its age, its budget) is asked for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rescheduler.model.records import Pod, PodPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.aggressiveness import disruption_weight
from rescheduler.planning.budgets import Blocked, BudgetLedger
from rescheduler.planning.disruption import disruption_of
from rescheduler.planning.history import History
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.protections import Protector
from rescheduler.policies.classes import PodClass
from rescheduler.policies.wanted import Batch, Candidate

_FREE: Final = Blocked(SkipReason.PROTECTED, "", "")
"""Stands for: nothing that the class shares holds it back."""


class Refusals:
    """Judges candidates by everything but limits, the gain now, and targets.

    In this order: moves under way, protections, the least gain, cool-down and back-off, disruption budgets.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        inputs: PlanningInputs,
        history: History,
        protector: Protector,
        budgets: BudgetLedger,
    ) -> None:
        self._snapshot = snapshot
        self._inputs = inputs
        self._history = history
        self._protector = protector
        self._budgets = budgets
        self._single = history.moving | history.failed
        self._shared: dict[tuple[object, ...], Blocked] = {}
        self._of_all: dict[tuple[PodClass, float], Blocked | None] = {}
        """The answers for classes without a budget, by class and gain."""
        self._disruptions: dict[tuple[int, int, int], float] = {}
        self._weight = disruption_weight(inputs.aggressiveness)

    def of(self, candidate: Candidate) -> Blocked | None:
        """The first reason why the pod stays, or None."""
        pod = candidate.pod
        if pod.uid in self._single or not self._protector.ordinary(pod):
            return self._judge(candidate) or self._budgets.refusal(pod, candidate.policy)
        key = (
            pod.namespace, id(pod.spec), id(pod.labels), id(pod.annotations), id(pod.controller), candidate.gain,
        )  # fmt: skip
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = self._judge(candidate) or _FREE
        return self._budgets.refusal(pod, candidate.policy) if known is _FREE else known

    def of_many(self, batch: Batch, pods: Sequence[Pod]) -> list[tuple[Blocked | None, Sequence[Pod]]]:
        """The answers of ``of`` for some pods of a batch: these stay for that reason."""
        key = batch.kind, batch.gain
        if key in self._of_all:
            return [(self._of_all[key], pods)]
        if not self._protector.same_for_class(pods[0]) or (
            self._single and not self._single.isdisjoint([pod.uid for pod in pods])
        ):
            return [(self.of(batch.candidate(pod)), (pod,)) for pod in pods]
        if not self._budgets.of(pods[0]):
            answer = self.of(batch.candidate(pods[0]))
            if not self._single:
                self._of_all[key] = answer
            return [(answer, pods)]
        alike: dict[tuple[bool, bool], list[Pod]] = {}  # by what budgets look at
        for pod in pods:
            alike.setdefault((pod.ready, pod.phase is PodPhase.PENDING), []).append(pod)
        return [(self.of(batch.candidate(some[0])), some) for some in alike.values()]

    def least_gain(self, pod: Pod) -> float:
        """What a move of the pod must gain at least."""
        return self._inputs.limits.minimum_gain + self._weight * self.disruption(pod)

    def disruption(self, pod: Pod) -> float:
        """What a move of the pod costs."""
        key = (id(pod.spec), id(pod.annotations), id(pod.controller))
        known = self._disruptions.get(key)
        if known is None:
            known = self._disruptions[key] = disruption_of(pod, self._snapshot)
        return known

    def _judge(self, candidate: Candidate) -> Blocked | None:
        """All but the budgets, which change with every move."""
        pod = candidate.pod
        if pod.uid in self._history.moving:
            return Blocked(SkipReason.IN_PROGRESS, "a move of it is under way", "PodMigration")
        protected = self._protector.refusal(pod)
        if protected is not None:
            return Blocked(*protected)
        least = self.least_gain(pod)
        if candidate.gain < least:
            return Blocked(
                SkipReason.GAIN_TOO_SMALL,
                f"a move could gain {candidate.gain:.2f} at most, less than {least:.2f}",
                "minimumGain",
            )
        return self._resting(pod)

    def _resting(self, pod: Pod) -> Blocked | None:
        now_s = self._snapshot.taken_at_s
        rests = self._history.rests_until(pod, self._inputs.limits.workload_cooldown_s)
        if rests is not None:
            message = f"its workload was moved lately and rests for {rests - now_s:.0f} s more"
            return Blocked(SkipReason.COOLDOWN, message, "limits.workloadCooldown")
        waits = self._history.backs_off_until(pod)
        if waits is not None:
            message = f"its last move failed; the next try is in {waits - now_s:.0f} s"
            return Blocked(SkipReason.BACKOFF, message, "back-off")
        return None
