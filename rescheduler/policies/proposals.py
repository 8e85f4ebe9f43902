"""What policies propose: badly placed pods, in batches of pods that are alike, put in order only as far as asked.

On a large cluster tens of thousands of pods are proposed and a handful is moved. So nothing is made for a single
pod before its turn comes: ``Proposals`` count pods by batch, and order them lazily. The order is the same
whatever order the pods were read in. Pure.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import msgspec

from rescheduler.model.names import DESCHEDULER_PREFER_NO_EVICTION, POD_DELETION_COST
from rescheduler.model.records import Pod
from rescheduler.model.selectors import NO_LABELS, int64
from rescheduler.policies.objective import Tier, gain
from rescheduler.scheduling.classes import PodClass

NODE = "{node}"
"""Stands for the name of the pod's node in the message of a batch."""


class _Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a badly placed pod."""

    policy: str
    """The policy that proposes it."""
    reason: str
    message: str
    """One sentence for people, without the pod's name."""
    gain: float
    """The most that a move could bring, 0..1."""
    tier: Tier = Tier.SOFT
    """Of the objective: what is bad about where it stands."""
    group: str = ""
    """All candidates of one group are moved or none (emptying a node); "": this one stands alone."""
    spare: bool = False
    """Badly placed only if others like it cannot move; never reported as left behind."""
    unit: int = 0
    """What counts as one whole pod, node or rule of its tier; 0: what it does for others, too (``UNITS``)."""
    least: float = 0.0
    """So many of these its tier must fall by at least, for it to move."""


class Candidate(_Proposed, frozen=True, gc=False, kw_only=True):
    """A badly placed pod."""

    pod: Pod


class Batch(_Proposed, frozen=True, kw_only=True):
    """Candidates that differ in nothing but the pod; the message has ``NODE`` where the pod's node is named."""

    kind: PodClass
    pods: Sequence[Pod]
    """Pods of that one class, by name."""

    @classmethod
    def of(
        cls,
        policy: str,
        kind: PodClass,
        pods: Iterable[Pod],
        *,
        why: tuple[str, str],
        tier: Tier,
        falls: float = 1.0,
        **more: Any,
    ) -> Batch:
        """Pods of the class of which a move takes so many units off that tier. ``why``: reason and message; ``more``: the other fields."""
        return cls(
            kind=kind,
            pods=by_name(pods),
            policy=policy,
            reason=why[0],
            message=why[1],
            gain=gain(tier, falls),
            tier=tier,
            **more,
        )

    def candidate(self, pod: Pod) -> Candidate:
        """One of them."""
        return Candidate(
            pod=pod,
            policy=self.policy,
            reason=self.reason,
            message=self.message.replace(NODE, pod.node),
            gain=self.gain,
            tier=self.tier,
            group=self.group,
            spare=self.spare,
            unit=self.unit,
            least=self.least,
        )


class Proposals:
    """All that one policy proposes."""

    def __init__(self, tiers: Sequence[Sequence[Batch]]) -> None:
        """``tiers``: one comes after the other; the batches of a tier are merged by the names of their pods."""
        self._tiers = tiers

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.queue())

    def queue(self) -> ProposalQueue:
        """Everything, to be taken one by one."""
        return ProposalQueue(self._tiers)

    def by(self, policy: str) -> Proposals:
        """The same as proposed by that policy."""
        if all(batch.policy == policy for tier in self._tiers for batch in tier):
            return self
        return Proposals([[msgspec.structs.replace(b, policy=policy) for b in tier] for tier in self._tiers])

    @property
    def empty(self) -> bool:
        """True if nothing is proposed."""
        return not any(batch.pods for tier in self._tiers for batch in tier)

    @property
    def grouped(self) -> bool:
        """True if the candidates come in groups."""
        return any(batch.group for tier in self._tiers for batch in tier)

    def gains(self) -> list[float]:
        """The gain of every candidate that is no spare, in ascending order."""
        batches = sorted((b for tier in self._tiers for b in tier if not b.spare), key=lambda b: b.gain)
        return [one for batch in batches for one in repeat(batch.gain, len(batch.pods))]


class ProposalQueue:
    """Gives candidates in order, and knows which were not given yet."""

    def __init__(self, tiers: Sequence[Sequence[Batch]]) -> None:
        self._tiers = tiers
        self._given: dict[int, int] = {}
        self._ordered = _in_order(tiers, self._given)

    def __iter__(self) -> Iterator[Candidate]:
        return self._ordered

    def rest(self) -> list[Batch]:
        """What was not given yet, in no order."""
        given = self._given
        return [
            batch if id(batch) not in given else _without(batch, given[id(batch)])
            for tier in self._tiers
            for batch in tier
            if given.get(id(batch), 0) < len(batch.pods)
        ]


def reluctance(pod: Pod | PodClass) -> tuple[bool, int, int]:
    """Sorts pods that are better left alone last: those that ask for it, costly to delete, of high priority."""
    notes = pod.annotations
    if notes is NO_LABELS:
        return False, pod.spec.priority, 0
    cost = int64(notes.get(POD_DELETION_COST) or "") or 0
    return notes.get(DESCHEDULER_PREFER_NO_EVICTION) is not None, pod.spec.priority, cost


def least_disturbing(
    disruption: Callable[[Pod], float],
) -> Callable[[tuple[Pod, PodClass]], tuple[object, ...]]:
    """Sorts pods of which any may leave by their reluctance, then by what a move of them costs."""
    return lambda one: (*reluctance(one[1]), disruption(one[0]), one[0].namespace, one[0].name)


def by_gain(batches: Iterable[Batch]) -> Proposals:
    """Spares last, then highest gain first, then the least reluctant, then by name."""
    tiers: defaultdict[tuple[object, ...], list[Batch]] = defaultdict(list)
    for batch in batches:
        tiers[(batch.spare, -batch.gain, *reluctance(batch.kind), batch.kind.namespace)].append(batch)
    return Proposals([tiers[rank] for rank in sorted(tiers)])


def by_name(pods: Iterable[Pod]) -> list[Pod]:
    """Pods of one namespace in order."""
    return sorted(pods, key=attrgetter("name"))


def _in_order(tiers: Sequence[Sequence[Batch]], given: dict[int, int]) -> Iterator[Candidate]:
    """Notes in ``given`` how many of a batch it gave. It knows no queue that knows it: both end without a garbage collection."""
    for tier in tiers:
        if len(tier) == 1:
            (batch,) = tier
            for number, pod in enumerate(batch.pods, 1):
                given[id(batch)] = number
                yield batch.candidate(pod)
            continue
        for batch, pod in _by_name(tier):
            given[id(batch)] = given.get(id(batch), 0) + 1
            yield batch.candidate(pod)


def _by_name(tier: Sequence[Batch]) -> Iterable[tuple[Batch, Pod]]:
    """The pods of all batches, which are by name in each of them."""
    streams = (zip(repeat(batch), batch.pods, strict=False) for batch in tier)
    if all(len(batch.pods) == 1 for batch in tier):
        return sorted(chain.from_iterable(streams), key=_name)
    return heapq.merge(*streams, key=_name)


def _name(item: tuple[Batch, Pod]) -> str:
    return item[1].name


def _without(batch: Batch, number: int) -> Batch:
    return msgspec.structs.replace(batch, pods=batch.pods[number:])
