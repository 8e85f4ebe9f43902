"""Measured usage of nodes and pods over a window: what is known of each, and how far chance alone may be off it. Pure; times are handed in.

A single sample says little: on an even cluster whose nodes vary by 15 points, moves would follow the noise for ever. Promises: a node
or a pod is only known once it was measured a few times since the start, and since a gap; a node also since a move came to it or left it,
and of a window longer than 24 minutes once all of it was watched, by this process or by a server that remembers.
What was measured of the node before counts with the pod's own samples added or taken away, and not at all where those are not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from rescheduler.coordination.usage_series import UsageSeries
from rescheduler.model.measured import NodeUsage
from rescheduler.model.migration import PodMigration
from rescheduler.model.usage import NO_READINGS, Amounts, NodeSamples, PodUsage, Readings, usage_key
from rescheduler.model.usage_settings import UsageSettings

LEAST: Final = 3
"""Fewer samples tell nothing of how much they vary."""
SETTLED_S: Final = 60.0
"""A sample may reach so far back (``window`` of metrics-server), so those of the first minute after a move are left out."""
_BY_DEFAULT: Final = UsageSettings()
_NOWHERE: Final = ""
_REPLACEMENT: Final = "replacement/"
"""No node has such a name."""


class UsageWindow:
    """The samples of all nodes and pods. Used by the core thread only."""

    def __init__(self, least: int = LEAST, settings: UsageSettings = _BY_DEFAULT) -> None:
        """``least``: samples that make a node known, at least 1: that is for a process that decides once."""
        self._least = least
        self._settings = settings
        self._statistic = settings.statistic
        self._nodes = UsageSeries.empty(settings.window_s, settings.statistic)
        self._pods = UsageSeries.empty(settings.window_s, settings.statistic)
        self._newest: dict[int, NodeUsage] = {}
        """The last sample of each node."""
        self._moved_at_s: dict[int, float] = {}
        self._followed: set[tuple[str, str]] = set()
        """Moves, by uid and the node that is known to be changed by them."""
        self._settled: dict[int, NodeUsage] = {}
        self._of: UsageSeries | None = None
        """The series that ``_settled`` was made of."""
        self._pod_usage: PodUsage | None = None

    def under(self, settings: UsageSettings) -> UsageWindow:
        """This window, or a new one if it is to be another one: it is filled anew."""
        return self if settings == self._settings else UsageWindow(self._least, settings)

    @property
    def samples(self) -> NodeSamples | None:
        """Of nodes; None: there is but one of each."""
        return NodeSamples(self._nodes.keys, self._nodes.values) if self._least > 1 else None

    @property
    def known(self) -> tuple[NodeUsage, ...]:
        """What is known of all nodes that are measured."""
        # Most decisions come between two reads.
        if self._of is not self._nodes:
            self._settled, self._of = self._judged(), self._nodes
        return tuple(
            self._settled.get(key) or msgspec.structs.replace(sample, settled=False)
            for key, sample in self._newest.items()
        )

    @property
    def pods(self) -> PodUsage | None:
        """What is known of pods; None: nobody measures them."""
        if not self._pods.keys.size:
            return None
        if self._pod_usage is None:
            series, kind, least = self._pods, self._statistic, self._least
            self._pod_usage = PodUsage(series.keys, lambda rows: series.statistic(kind, least, rows)[0])
        return self._pod_usage

    @property
    def bytes_per_pod(self) -> float:
        """What is kept of a pod."""
        return self._pods.bytes_each

    def follow(self, moves: Iterable[object]) -> None:
        """Take in when pods left their nodes and landed, and what became of them. ``moves``: PodMigrations, in any state."""
        known = [move for move in moves if isinstance(move, PodMigration)]
        for move in known:
            status = move.status
            self._moved(move, status.source_node, status.evicted_at_s, -1.0)
            self._moved(move, status.node_name, status.landed_at_s, 1.0)
            self._inherited(move)
        if self._followed:
            uids = {move.uid for move in known}
            self._followed = {one for one in self._followed if one[0] in uids}

    def _moved(self, move: PodMigration, node: str, at_s: float, sign: float) -> None:
        if not at_s or not node or (move.uid, node) in self._followed:
            return
        self._followed.add((move.uid, node))
        key = usage_key(_NOWHERE, node)
        self._moved_at_s[key] = max(at_s, self._moved_at_s.get(key, 0.0))
        row = self._nodes.row(key)
        if row is None:
            return
        # Samples since then are there already where a server told them, or the move was seen late.
        settled = self._nodes.last_s[row] >= at_s + SETTLED_S
        series = self._series_of(move)
        change = None if series is None else np.nan_to_num(sign * series)
        self._nodes = self._nodes.changed(key, at_s, change, anew=not settled)

    def _inherited(self, move: PodMigration) -> None:
        """The replacement goes on with the samples of the pod: it is the same work."""
        new = move.status.replacement
        if new is None or not move.status.landed_at_s or (move.uid, _REPLACEMENT) in self._followed:
            return
        series = self._pods.inherited(
            usage_key(move.namespace, move.pod_name), usage_key(move.namespace, new.name)
        )
        if series is not None:
            self._followed.add((move.uid, _REPLACEMENT))
            self._pods, self._pod_usage = series, None

    def _series_of(self, move: PodMigration) -> Amounts | None:
        """The samples of the pod that moves, in the parts that those of nodes stand in."""
        row = self._pods.row(usage_key(move.namespace, move.pod_name))
        parts = self._pods.values.shape[2]
        shift = self._nodes.newest - self._pods.newest
        if row is None or abs(shift) >= parts or self._pods.number[row] < self._least:
            return None
        found = np.full_like(self._pods.values[:, row], np.nan)
        if shift >= 0:
            found[:, : parts - shift] = self._pods.values[:, row, shift:]
        else:
            found[:, -shift:] = self._pods.values[:, row, :shift]
        return found

    def add(
        self, nodes: Iterable[NodeUsage], pods: Readings = NO_READINGS, now_s: float = math.inf
    ) -> tuple[NodeUsage, ...]:
        """What is known of all nodes that are measured, their newest samples being these.

        ``now_s``: samples of a node whose clock is ahead count as of then, or they would push all others out of the window.
        """
        came = [(usage_key(_NOWHERE, sample.node), sample) for sample in nodes]
        found = Readings.of(
            (key, min(sample.measured_at_s, now_s), sample.cpu_milli, sample.memory_bytes)
            for key, sample in came
            if sample.measured_at_s >= self._moved_at_s.get(key, -math.inf) + SETTLED_S
        )
        self._nodes = self._nodes.plus(found)
        if found.size:
            kept = set(self._nodes.keys.tolist())
            self._newest = {key: sample for key, sample in self._newest.items() if key in kept}
            self._moved_at_s = {key: s for key, s in self._moved_at_s.items() if key in kept}
        self._newest.update(came)
        series = self._pods.plus(replace(pods, at_s=np.minimum(pods.at_s, now_s)))
        if series is not self._pods:
            self._pods, self._pod_usage = series, None
        return self.known

    def _judged(self) -> dict[int, NodeUsage]:
        """What is known of the nodes that were measured often enough."""
        series = self._nodes
        if self._least > 1 and not series.watched:
            return {}
        found, error = series.statistic(self._statistic, self._least)
        rows = np.flatnonzero(~np.isnan(found[0])).tolist()
        cpu, memory = np.rint(np.nan_to_num(found)).astype(np.int64).tolist()
        cpu_error, memory_error = np.ceil(np.nan_to_num(error)).astype(np.int64).tolist()
        keys, last_s = series.keys.tolist(), series.last_s.tolist()
        return {
            keys[row]: NodeUsage(
                self._newest[keys[row]].node,
                cpu[row],
                memory[row],
                last_s[row],
                cpu_error_milli=cpu_error[row],
                memory_error_bytes=memory_error[row],
            )
            for row in rows
        }
