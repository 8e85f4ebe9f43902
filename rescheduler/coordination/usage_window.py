"""Measured usage of nodes over some minutes: the mean, and how far chance alone may be off it. Pure; times are handed in.

A single sample says little: on an even cluster whose nodes vary by 15 points, moves would follow the noise for ever. Promises: a node
is only known once it was measured a few times since the start, since a gap, and since a move came to it or left it; what was measured
before says nothing of what stands there now. A sample that is read again counts once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from rescheduler.model.migration import PodMigration
from rescheduler.model.records import NodeUsage

WINDOW_S: Final = 300.0
"""So old a sample may be; ten of them where the controller reads every 30 s."""
LEAST: Final = 3
"""Fewer samples tell nothing of how much they vary."""
SETTLED_S: Final = 60.0
"""A sample may reach so far back (``window`` of metrics-server), so those of the first minute after a move are left out."""


class UsageWindow:
    """The samples of all nodes. Used by the core thread only."""

    def __init__(self, least: int = LEAST) -> None:
        """``least``: samples that make a node known, at least 1: that is for a process that decides once."""
        self._least = least
        self._samples: dict[str, deque[NodeUsage]] = {}
        self._answers: dict[str, NodeUsage] = {}
        self._moved_at_s: dict[str, float] = {}

    def follow(self, moves: Iterable[object]) -> None:
        """Take in when pods left their nodes and landed. ``moves``: PodMigrations, in any state."""
        for move in moves:
            if isinstance(move, PodMigration):
                self._moved(move.status.source_node, move.status.evicted_at_s)
                self._moved(move.status.node_name, move.status.landed_at_s)

    def _moved(self, node: str, at_s: float) -> None:
        if at_s > self._moved_at_s.get(node, 0.0):
            self._moved_at_s[node] = at_s

    def add(self, usage: Iterable[NodeUsage]) -> tuple[NodeUsage, ...]:
        """What is known of all nodes that are measured now, their newest samples being these."""
        newest = {sample.node: sample for sample in usage}
        for gone in self._samples.keys() - newest.keys():
            del self._samples[gone]
            self._answers.pop(gone, None)
        self._moved_at_s = {node: s for node, s in self._moved_at_s.items() if node in newest}
        return tuple(self._known(node, sample) for node, sample in newest.items())

    def _known(self, node: str, sample: NodeUsage) -> NodeUsage:
        samples = self._samples.setdefault(node, deque())
        number = len(samples)
        if not samples or sample.measured_at_s > samples[-1].measured_at_s:
            samples.append(sample)
        new = len(samples) > number
        since_s = max(sample.measured_at_s - WINDOW_S, self._moved_at_s.get(node, -math.inf) + SETTLED_S)
        while samples and samples[0].measured_at_s < since_s:
            samples.popleft()
        # Most decisions come between two reads.
        if new or len(samples) != number or node not in self._answers:
            self._answers[node] = self._judged(sample, samples)
        return self._answers[node]

    def _judged(self, sample: NodeUsage, samples: Sequence[NodeUsage]) -> NodeUsage:
        if len(samples) < self._least:
            return msgspec.structs.replace(sample, settled=False)
        counted = samples or (sample,)
        cpu_milli, cpu_error = _mean([one.cpu_milli for one in counted])
        memory_bytes, memory_error = _mean([one.memory_bytes for one in counted])
        return NodeUsage(
            sample.node,
            cpu_milli,
            memory_bytes,
            sample.measured_at_s,
            cpu_error_milli=cpu_error,
            memory_error_bytes=memory_error,
        )


def _mean(amounts: list[int]) -> tuple[int, int]:
    """The mean, and its standard error."""
    number = len(amounts)
    mean = sum(amounts) / number
    if number == 1:
        return round(mean), 0
    variance = sum((one - mean) ** 2 for one in amounts) / (number - 1)
    return round(mean), math.ceil(math.sqrt(variance / number))
