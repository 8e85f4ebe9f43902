"""The wanted pods that stay, as a decision leaves them: compact, and written out only where asked for. Pure.

On a large cluster most wanted pods are left because the limits are used up. They are kept as lists of
candidates; why each of them stays is worked out when it is counted or reported. That is the same answer later,
because nothing is moved any more once the limits are used up. The first reason of a pod counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rescheduler.planning.budgets import Blocked
from rescheduler.planning.plan import PodRef, Skipped, SkipReason
from rescheduler.policies.framework import Candidate


class Stay(NamedTuple):
    """A candidate that stays."""

    candidate: Candidate
    why: Blocked


class Stays:
    """Collects who stays. ``why``: the reason of a candidate left over; ``imagined``: uids that are moved."""

    def __init__(self, why: Callable[[Candidate], Blocked | None], imagined: AbstractSet[str]) -> None:
        self._why = why
        self._imagined = imagined
        self._known: dict[str, Stay] = {}
        self._left: list[list[Candidate]] = []

    def add(self, candidate: Candidate, why: Blocked) -> None:
        """It stays, unless an earlier reason is known; spares are never reported."""
        if not candidate.spare:
            self._known.setdefault(candidate.pod.uid, Stay(candidate, why))

    def leave(self, candidates: Iterable[Candidate]) -> None:
        """All of these stay, because nothing more may be moved."""
        self._left.append(list(candidates))

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
            self._known.update((stay.candidate.pod.uid, stay) for stay in self._left_over())
            self._left.clear()

    def counts(self) -> Counter[SkipReason]:
        """How many pods stay for which reason."""
        return Counter(stay.why.reason for stay in self._all())

    def skipped(self) -> tuple[Skipped, ...]:
        """One record for each pod, by namespace, name and uid."""
        found = [_skipped(stay) for stay in self._all()]
        found.sort(key=lambda s: (s.pod.namespace, s.pod.name, s.pod.uid))
        return tuple(found)

    def _all(self) -> Iterator[Stay]:
        yield from self._known.values()
        yield from self._left_over()

    def _left_over(self) -> Iterator[Stay]:
        seen = set(self._known) | self._imagined
        for candidates in self._left:
            for candidate in candidates:
                uid = candidate.pod.uid
                if candidate.spare or uid in seen:
                    continue
                why = self._why(candidate)
                if why is not None:
                    seen.add(uid)
                    yield Stay(candidate, why)


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
