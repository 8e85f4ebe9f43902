"""Measured usage of nodes and pods over a window: what is known of each, and how far chance alone may be off it. Pure; times are handed in.

A single sample says little: on an even cluster whose nodes vary by 15 points, moves would follow the noise for ever. Promises: a node
or a pod is only known once it was measured a few times since the start, and since a gap; a node also since a move came to it or left it,
and of a window longer than 24 minutes once all of it was watched, by this process or by a server that remembers.
What was measured of the node before counts with the pod's own samples added or taken away, and not at all where those are not known.

Beside a window shorter than a day the last 24 hours are kept in coarse parts: by them a pod goes to no node that will be too full
with it in hours that both have seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from rescheduler.coordination.usage_series import UsageSeries
from rescheduler.model.measured import NodeUsage, UsageStatistic
from rescheduler.model.migration import PodMigration
from rescheduler.model.usage import (
    DAY_S,
    NO_READINGS,
    MeasuredUsage,
    NodeSamples,
    PodUsage,
    Readings,
    Samples,
    usage_key,
)
from rescheduler.model.usage_settings import UsageSettings
from rescheduler.model.usage_statistics import Amounts, Numbers, statistic

LEAST: Final = 3
"""Fewer samples tell nothing of how much they vary."""
SETTLED_S: Final = 60.0
"""A sample may reach so far back (``window`` of metrics-server), so those of the first minute after a move are left out."""
DAY_PART_S: Final = 7200.0
"""A load that swings over a day is within 1 % of its peak for as long."""
_DAY_SAMPLE_S: Final = 300.0
"""So often the mean of the window is taken into the day."""
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
        self._remembers = least > 1 and settings.window_s < DAY_S
        over_s = DAY_S + DAY_PART_S if self._remembers else 0.0
        self._node_day = self._pod_day = UsageSeries.empty(over_s, UsageStatistic.MEAN, DAY_PART_S)
        self._newest: dict[int, NodeUsage] = {}
        """The last sample of each node."""
        self._moved_at_s: dict[int, float] = {}
        self._followed: set[tuple[str, str]] = set()
        """Moves, by uid and the node that is known to be changed by them."""
        self._left: dict[int, dict[tuple[str, str], float]] = {}
        """By pod the policies that moved it, or what it replaces, and the nodes that it left; and when."""
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
        keys = self._nodes.keys
        if self._least == 1 or not keys.size:
            return None
        return NodeSamples(keys, self._samples(self._nodes, self._node_day)(keys), self._statistic)

    def _samples(self, window: UsageSeries, day: UsageSeries) -> Callable[[Numbers], Samples]:
        """Of some keys, in the parts that those of nodes stand in."""
        least, newest, newest_of_day = self._least, self._nodes.newest, self._node_day.newest
        first = 0 if self._remembers else 1

        def find(keys: Numbers) -> Samples:
            found = window.of(keys, newest)
            known = (window.number[np.searchsorted(window.keys, keys)] >= least) & ~np.isnan(found[0]).all(
                axis=1
            )
            return Samples(found, day.of(keys, newest_of_day)[:, :, first:], known)

        return find

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
            find, keys = self._samples(self._pods, self._pod_day), self._pods.keys
            since_s = float(self._pods.last_s.max()) - DAY_S
            self._left = {key: left for key, left in self._left.items() if max(left.values()) >= since_s}
            left = {
                key: {one for one, at_s in all_.items() if at_s >= since_s}
                for key, all_ in self._left.items()
            }
            self._pod_usage = PodUsage(keys, lambda rows: find(keys[rows]), self._statistic, left)
        return self._pod_usage

    @property
    def bytes_per_pod(self) -> float:
        """What is kept of a pod."""
        return self._pods.bytes_each + (self._pod_day.bytes_each if self._remembers else 0.0)

    def follow(self, moves: Iterable[object]) -> None:
        """Take in when pods left their nodes and landed, and what became of them. ``moves``: PodMigrations, in any state."""
        known = [move for move in moves if isinstance(move, PodMigration)]
        for move in known:
            status = move.status
            self._moved(move, status.source_node, status.evicted_at_s, -1.0)
            self._moved(move, status.node_name, status.landed_at_s, 1.0)
            self._inherited(move)
            if status.replacement is not None and status.landed_at_s:
                left = self._left.setdefault(usage_key(move.namespace, status.replacement.name), {})
                left |= self._left.get(usage_key(move.namespace, move.pod_name), {})
                left[move.policy, status.source_node] = status.landed_at_s
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
        pod = usage_key(move.namespace, move.pod_name)
        change = _change(self._pods, pod, sign, self._nodes.newest, self._least)
        self._nodes = self._nodes.changed(key, at_s, change, anew=not settled)
        day = _change(self._pod_day, pod, sign, self._node_day.newest, 1)
        self._node_day = self._node_day.changed(key, at_s, day, anew=False)

    def _inherited(self, move: PodMigration) -> None:
        """The replacement goes on with the samples of the pod: it is the same work."""
        new = move.status.replacement
        if new is None or not move.status.landed_at_s or (move.uid, _REPLACEMENT) in self._followed:
            return
        ways = usage_key(move.namespace, move.pod_name), usage_key(move.namespace, new.name)
        series = self._pods.inherited(*ways)
        if series is not None:
            self._followed.add((move.uid, _REPLACEMENT))
            self._pods, self._pod_usage = series, None
            self._pod_day = self._pod_day.inherited(*ways, made=True) or self._pod_day

    def add(
        self, nodes: Iterable[NodeUsage], pods: Readings = NO_READINGS, now_s: float = math.inf
    ) -> tuple[NodeUsage, ...]:
        """What is known of all nodes that are measured, their newest samples being these.

        ``now_s``: samples of a node whose clock is ahead count as of then, or they would push all others out of the window.
        """
        came = [(usage_key(_NOWHERE, sample.node), sample) for sample in nodes]
        found = _readings(
            (
                (key, sample)
                for key, sample in came
                if sample.measured_at_s >= self._moved_at_s.get(key, -math.inf) + SETTLED_S
            ),
            now_s,
        )
        self._nodes = self._nodes.plus(found)
        if found.size:
            kept = set(self._nodes.keys.tolist())
            self._newest = {key: sample for key, sample in self._newest.items() if key in kept}
            self._moved_at_s = {key: s for key, s in self._moved_at_s.items() if key in kept}
        self._newest.update(came)
        self._pods, self._pod_usage = self._pods.plus(replace(pods, at_s=np.minimum(pods.at_s, now_s))), None
        self._remember()
        return self.known

    def recall(self, look: MeasuredUsage) -> None:
        """What a server tells of an hour of the last day."""
        if self._remembers:
            came = ((usage_key(_NOWHERE, sample.node), sample) for sample in look.nodes)
            self._node_day = self._node_day.plus(_readings(came, math.inf))
            self._pod_day = self._pod_day.plus(look.pods)

    def _remember(self) -> None:
        """Take the mean of the window into the day, if it is time."""
        at_s = float(self._nodes.last_s.max(initial=0.0))
        if not self._remembers or at_s < self._node_day.last_s.max(initial=0.0) + _DAY_SAMPLE_S:
            return
        self._node_day = self._noted(self._nodes, self._node_day, at_s)
        self._pod_day = self._noted(self._pods, self._pod_day, at_s)

    def _noted(self, window: UsageSeries, day: UsageSeries, at_s: float) -> UsageSeries:
        rows = np.flatnonzero((window.number >= self._least) & ~np.isnan(window.values[0]).all(axis=1))
        found = statistic(window.values[:, rows], UsageStatistic.MEAN)
        return day.plus(Readings(window.keys[rows], np.full(len(rows), at_s), found), window.keys)

    def _judged(self) -> dict[int, NodeUsage]:
        """What is known of the nodes that were measured often enough."""
        series = self._nodes
        if self._least > 1 and not series.watched:
            return {}
        found = statistic(series.values, self._statistic)
        rows = np.flatnonzero((series.number >= self._least) & ~np.isnan(found[0])).tolist()
        cpu, memory = np.rint(np.nan_to_num(found)).astype(np.int64).tolist()
        keys, last_s = series.keys.tolist(), series.last_s.tolist()
        return {
            keys[row]: NodeUsage(self._newest[keys[row]].node, cpu[row], memory[row], last_s[row])
            for row in rows
        }


def _readings(came: Iterable[tuple[int, NodeUsage]], now_s: float) -> Readings:
    return Readings.of(
        (key, min(sample.measured_at_s, now_s), sample.cpu_milli, sample.memory_bytes) for key, sample in came
    )


def _change(pods: UsageSeries, pod: int, sign: float, newest: int, least: int) -> Amounts | None:
    """What a pod brings to the samples of a node; None: it is not known."""
    row = pods.row(pod)
    if row is None or pods.number[row] < least:
        return None
    change: Amounts = np.nan_to_num(sign * pods.of(pods.keys[row : row + 1], newest)[:, 0])
    return change
