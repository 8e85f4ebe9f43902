"""Badly placed pods as policies propose them: batches of pods that are alike, put in order only as far as asked.

On a large cluster tens of thousands of pods are wanted elsewhere and a handful is moved. So nothing is made
for each pod before somebody comes to it: a ``Wanted`` counts its pods by batch, and orders them lazily.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import repeat

import msgspec

from rescheduler.model.records import Pod
from rescheduler.policies.classes import PodClass

NODE = "{node}"
"""Stands for the name of the pod's node in the message of a batch."""


class Candidate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A badly placed pod.

    ``gain``: the most that a move could bring, 0..1. ``group``: all candidates of one group are moved or
    none (emptying a node); "" stands alone. ``message``: one sentence for people, without the pod's name.
    ``spare``: badly placed only if others of its kind cannot move; never reported as left behind.
    """

    pod: Pod
    policy: str
    reason: str
    message: str
    gain: float
    group: str = ""
    spare: bool = False


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that differ in nothing but the pod. ``pods``: of the one class ``kind``, by name."""

    kind: PodClass
    pods: Sequence[Pod]
    policy: str
    reason: str
    message: str
    gain: float
    group: str = ""
    spare: bool = False

    def candidate(self, pod: Pod) -> Candidate:
        """One of them."""
        return Candidate(
            pod=pod,
            policy=self.policy,
            reason=self.reason,
            message=self.message.replace(NODE, pod.node),
            gain=self.gain,
            group=self.group,
            spare=self.spare,
        )


class Wanted:
    """All that one policy proposes. ``tiers``: one after the other; the batches of a tier are merged by name."""

    def __init__(self, tiers: Sequence[Sequence[Batch]]) -> None:
        self._tiers = tiers

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.queue())

    def queue(self) -> Queue:
        """Everything, to be taken one by one."""
        return Queue(self._tiers)

    @property
    def grouped(self) -> bool:
        """True if the candidates come in groups."""
        return any(batch.group for tier in self._tiers for batch in tier)

    def gains(self) -> list[float]:
        """The gain of every candidate that is no spare, in ascending order."""
        batches = sorted((b for tier in self._tiers for b in tier if not b.spare), key=lambda b: b.gain)
        return [gain for batch in batches for gain in repeat(batch.gain, len(batch.pods))]


class Queue:
    """Gives candidates in order, and knows which were not given yet."""

    def __init__(self, tiers: Sequence[Sequence[Batch]]) -> None:
        self._tiers = tiers
        self._given: dict[int, int] = {}
        self._ordered = self._in_order()

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

    def _in_order(self) -> Iterator[Candidate]:
        for tier in self._tiers:
            streams = [zip(repeat(batch), batch.pods, strict=False) for batch in tier]
            merged = heapq.merge(*streams, key=_name) if len(streams) > 1 else streams[0]
            for batch, pod in merged:
                self._given[id(batch)] = self._given.get(id(batch), 0) + 1
                yield batch.candidate(pod)


def _name(item: tuple[Batch, Pod]) -> str:
    return item[1].name


def _without(batch: Batch, number: int) -> Batch:
    return msgspec.structs.replace(batch, pods=batch.pods[number:])
