"""Proposed pods that are not moved, with the reason: compact, and written out only where asked for. Pure.

On a large cluster most proposed pods are skipped because the limits are used up. They are kept as batches; why each
of them is skipped is worked out when it is counted or reported. That is the same answer later, because nothing is
moved any more once the limits are used up. Of a pod that several policies propose, the reason counts that is about the
earliest tier of the objective, and of these the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.planning.badness import tier_name
from rescheduler.planning.plan import Blocked, PodRef, Skipped, SkipReason
from rescheduler.policies.objective import Tier
from rescheduler.policies.proposals import Batch, Candidate

_PROTECTED: Final = (SkipReason.PROTECTED, SkipReason.SINGLE_REPLICA)
_tier: Final = attrgetter("tier")


class _Skip(NamedTuple):
    """A candidate that is not moved."""

    candidate: Candidate
    why: Blocked


class Tally(NamedTuple):
    """Numbers of skipped pods."""

    reasons: Counter[tuple[SkipReason, str]]
    """By why they stay, and because of what."""
    nodes: Counter[str]


Why = Callable[[Batch, Sequence[Pod]], list[tuple[Blocked, Sequence[Pod]]]]
"""Of some pods of a batch: these are skipped for that reason."""


class SkippedPods:
    """Collects them while a plan is made."""

    def __init__(self, why: Why, hypothetical: AbstractSet[str], moved: AbstractSet[str]) -> None:
        """``why``: the reasons of pods left over. ``moved``: uids of pods that are moved; ``hypothetical``: of what replaces them."""
        self._why = why
        self._hypothetical = hypothetical
        self._moved = moved
        self._known: dict[str, _Skip] = {}
        self._left: list[Batch] = []

    def add(self, candidate: Candidate, why: Blocked) -> None:
        """It is skipped, unless a reason is known that counts more; spares are never reported."""
        if not candidate.spare:
            known = self._known.get(candidate.pod.uid)
            if known is None or _rank(candidate, why) < _rank(*known):
                self._known[candidate.pod.uid] = _Skip(candidate, why)

    def leave(self, batches: Iterable[Batch]) -> None:
        """All of these are skipped, because nothing more may be moved."""
        self._left.extend(batch for batch in batches if not batch.spare)

    def drop(self, uid: str) -> None:
        """The pod is moved after all. Not after ``leave``, unless ``settle`` was called since."""
        self._known.pop(uid, None)

    def settle(self) -> None:
        """Work out what was left over now; ``drop`` and ``add`` may follow."""
        if self._left:
            self._known.update((skip.candidate.pod.uid, skip) for skip in list(self._left_over()))
            self._left.clear()

    def tally(self) -> Tally:
        """How many there are, without making a record of each."""
        known = self._known
        reasons = Counter((skip.why.reason, skip.why.by) for skip in known.values())
        nodes = [skip.candidate.pod.node for skip in known.values()]
        twice: list[_Skip] = []
        for _, why, pods in self._runs():
            reasons[why.reason, why.by] += len(pods)
            nodes.extend([pod.node for pod in pods])
            twice.extend([known[pod.uid] for pod in pods if pod.uid in known])
        reasons.subtract((skip.why.reason, skip.why.by) for skip in twice)
        on_nodes = Counter(nodes)
        on_nodes.subtract(skip.candidate.pod.node for skip in twice)
        return Tally(+reasons, +on_nodes)

    def records(self, then: Callable[[], None] = lambda: None) -> tuple[Skipped, ...]:
        """One record for each pod, by namespace, name and uid. ``then`` is called once all reasons are known, before they are written."""
        runs: list[tuple[Candidate | Batch, Blocked, Sequence[Pod]]] = [
            (skip.candidate, skip.why, (skip.candidate.pod,)) for skip in self._known.values()
        ]
        runs.extend(self._runs())
        then()
        found: dict[str, Skipped] = {}
        for proposed, why, pods in runs:
            found.update(_written(proposed, why, pods))
        return tuple(sorted(found.values(), key=lambda s: (s.pod.namespace, s.pod.name, s.pod.uid)))

    def _left_over(self) -> Iterator[_Skip]:
        for batch, why, pods in self._runs():
            for pod in pods:
                yield _Skip(batch.candidate(pod), why)

    def _runs(self) -> Iterator[tuple[Batch, Blocked, Sequence[Pod]]]:
        """What was left over, without pods that are moved or whose reason counts more: these of a batch are skipped for that reason."""
        told = set(self._hypothetical | self._moved)
        for tier, batches in groupby(sorted(self._left, key=_tier), key=_tier):
            told.update(uid for uid, skip in self._known.items() if skip.candidate.tier <= tier)
            for batch in batches:
                fresh = [pod for pod in batch.pods if pod.uid not in told]
                for why, pods in self._why(batch, fresh) if fresh else ():
                    told.update([pod.uid for pod in pods])
                    yield batch, why, pods


def _rank(candidate: Candidate, why: Blocked) -> tuple[Tier, bool]:
    """What one profile protects another one may move: then it is told what keeps that from it."""
    return candidate.tier, why.reason in _PROTECTED


def _written(proposed: Candidate | Batch, why: Blocked, pods: Sequence[Pod]) -> Iterator[tuple[str, Skipped]]:
    gain = round(proposed.gain, 4)
    for pod in pods:
        yield (
            pod.uid,
            Skipped(
                pod=PodRef.of(pod),
                policy=proposed.policy,
                reason=why.reason,
                message=why.message,
                blocked_by=why.by,
                node=pod.node,
                gain=gain,
                tier=tier_name(proposed.tier),
            ),
        )
