"""The wanted pods that stay, as a decision leaves them: compact, and written out only where asked for. Pure.

On a large cluster most wanted pods are left because the limits are used up. They are kept as
batches; why each of them stays is worked out when it is counted or reported. That is the same answer later,
because nothing is moved any more once the limits are used up. The first reason of a pod counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import Blocked
from rescheduler.planning.plan import PodRef, Skipped, SkipReason
from rescheduler.policies.wanted import Batch, Candidate


class Stay(NamedTuple):
    """A candidate that stays."""

    candidate: Candidate
    why: Blocked


Why = Callable[[Batch, Sequence[Pod]], list[tuple[Blocked, Sequence[Pod]]]]
"""Of some pods of a batch: these stay for that reason."""


class Stays:
    """Collects who stays. ``why``: the reasons of pods left over; ``imagined``: uids that are moved."""

    def __init__(self, why: Why, imagined: AbstractSet[str]) -> None:
        self._why = why
        self._imagined = imagined
        self._known: dict[str, Stay] = {}
        self._left: list[Batch] = []

    def add(self, candidate: Candidate, why: Blocked) -> None:
        """It stays, unless an earlier reason is known; spares are never reported."""
        if not candidate.spare:
            self._known.setdefault(candidate.pod.uid, Stay(candidate, why))

    def leave(self, batches: Iterable[Batch]) -> None:
        """All of these stay, because nothing more may be moved."""
        self._left.extend(batch for batch in batches if not batch.spare)

    def drop(self, uid: str) -> None:
        """The pod is moved after all. Not after ``leave``, unless ``settle`` was called since."""
        self._known.pop(uid, None)

    def clear(self) -> None:
        """Nothing is known to stay."""
        self._known.clear()
        self._left.clear()

    def settle(self) -> None:
        """Work out what was left over now; ``drop`` and ``add`` may follow."""
        if self._left:
            self._known.update((stay.candidate.pod.uid, stay) for stay in list(self._left_over()))
            self._left.clear()

    def counts(self) -> Counter[SkipReason]:
        """How many pods stay for which reason."""
        counted = Counter(stay.why.reason for stay in self._known.values())
        for _, why, pods in self._runs():
            counted[why.reason] += len(pods)
        return counted

    def skipped(self) -> tuple[Skipped, ...]:
        """One record for each pod, by namespace, name and uid."""
        found = [_skipped(stay) for stay in (*self._known.values(), *self._left_over())]
        found.sort(key=lambda s: (s.pod.namespace, s.pod.name, s.pod.uid))
        return tuple(found)

    def _left_over(self) -> Iterator[Stay]:
        for batch, why, pods in self._runs():
            for pod in pods:
                yield Stay(batch.candidate(pod), why)

    def _runs(self) -> Iterator[tuple[Batch, Blocked, Sequence[Pod]]]:
        """What was left over, without pods that stay or move already: these of a batch stay for that reason."""
        seen = set(self._known) | self._imagined
        for batch in self._left:
            fresh = [pod for pod in batch.pods if pod.uid not in seen]
            if fresh:
                for why, pods in self._why(batch, fresh):
                    seen.update([pod.uid for pod in pods])
                    yield batch, why, pods


def _skipped(stay: Stay) -> Skipped:
    candidate, why = stay
    pod = candidate.pod
    return Skipped(
        pod=PodRef(pod.namespace, pod.name, pod.uid),
        policy=candidate.policy,
        reason=why.reason,
        message=why.message,
        blocked_by=why.by,
        node=pod.node,
        gain=round(candidate.gain, 4),
    )
