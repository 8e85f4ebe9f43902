"""Where one pod goes: gain first, then the scheduler's own points, then the name. Refusals are values.

Interchangeable pods are tried once: that no node takes a class is remembered until the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.model.resources import Resources
from rescheduler.planning.avoid import holds
from rescheduler.planning.budgets import Blocked
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.trial import Trial
from rescheduler.scheduling.framework import BoolArray, FloatArray

_HINTS = 4
"""Refusing plugins that a message names."""


class Target(NamedTuple):
    """A node for a replacement, and what the move gains."""

    node: str
    gain: float


class Targets:
    """Chooses targets in one trial."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._hopeless: dict[tuple[object, ...], Blocked] = {}
        self._kept: list[Pod] = []
        self._rooms: dict[tuple[Resources, int], bool] = {}

    def forget(self) -> None:
        """Moves may have opened ways: try every class again."""
        self._hopeless.clear()
        self._kept.clear()

    def choose(
        self,
        pod: Pod,
        replacement: Pod,
        gains: FloatArray,
        *,
        least_gain: float,
        reason: str,
        last: Callable[[], BoolArray] | None = None,
    ) -> Target | Blocked:
        """The best node, or why there is none.

        ``gains``: by node; nodes at or below 0 are not wanted. ``last``: gives nodes to take only if no other will do.
        """
        wanted = gains > 0
        if not wanted.any():
            return Blocked(SkipReason.NO_BETTER_TARGET, "no other node would be better", "")
        takers = self._takers(pod, replacement)
        if isinstance(takers, Blocked):
            return takers
        fit: BoolArray = takers & wanted
        if not fit.any():
            number = int(takers.sum())
            return Blocked(SkipReason.NO_BETTER_TARGET, f"{number} nodes would take it, none is better", "")
        same, other = self._avoided(pod, fit, reason)
        fit &= ~same
        if not fit.any():
            names = ", ".join(self._trial.state.node_names[i] for i in np.flatnonzero(same)[:_HINTS])
            return Blocked(SkipReason.AVOIDED, f"it was moved away from {names} for the same reason", names)
        if last is not None:
            other |= last()
        best = float(gains[fit].max())
        if best < least_gain:
            message = f"the best move gains {best:.2f}, less than {least_gain:.2f}"
            return Blocked(SkipReason.GAIN_TOO_SMALL, message, "minimumGain")
        node = self._best(pod, replacement, gains, fit & (gains >= least_gain), other)
        return Target(self._trial.state.node_names[node], float(gains[node]))

    def _takers(self, pod: Pod, replacement: Pod) -> BoolArray | Blocked:
        key = self._kind(pod, replacement)
        known = self._hopeless.get(key)
        if known is not None:
            return known
        if not self._has_room(replacement):
            blocked = Blocked(
                SkipReason.NO_TARGET, "no node has room for its replacement", "NodeResourcesFit"
            )
        else:
            takers = self._trial.takers(pod, replacement)
            if takers.any():
                return takers
            blocked = self._explained(pod, replacement)
        self._hopeless[key] = blocked
        self._kept.extend((pod, replacement))  # keys hold identities: their objects must live as long
        return blocked

    def _kind(self, pod: Pod, replacement: Pod) -> tuple[object, ...]:
        spec = replacement.spec
        social = bool(spec.spread or spec.pod_affinity or spec.pod_anti_affinity)
        claims = pod.name if spec.volumes else ""
        where = self._trial.state.node_index[pod.node] if social else -1
        return pod.namespace, id(spec), id(replacement.labels), where, claims

    def _has_room(self, replacement: Pod) -> bool:
        key = (replacement.spec.requests, len(self._trial.index.shifts))
        known = self._rooms.get(key)
        if known is None:
            room = self._trial.roomy(replacement) & self._trial.view.nodes.targetable
            known = self._rooms[key] = bool(room.any())
        return known

    def _explained(self, pod: Pod, replacement: Pod) -> Blocked:
        """Which of the scheduler's rules refuse most nodes."""
        state = self._trial.state
        mark = state.checkpoint()
        state.remove(pod)
        result = state.filter(replacement)
        state.rollback(mark)
        if result.everywhere is not None:
            return Blocked(SkipReason.NO_TARGET, result.everywhere.reason, result.everywhere.plugin)
        counted = Counter(result.plugins[code] for code in result.refused_by.tolist() if code >= 0)
        if not counted:
            return Blocked(SkipReason.NO_TARGET, "every node that would take it is unfit as a target", "")
        most = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:_HINTS]
        total = len(state.node_names)
        text = ", ".join(f"{plugin} refuses {number}" for plugin, number in most)
        return Blocked(
            SkipReason.NO_TARGET, f"none of {total} nodes takes its replacement: {text}", most[0][0]
        )

    def _avoided(self, pod: Pod, fit: BoolArray, reason: str) -> tuple[BoolArray, BoolArray]:
        """Of the fitting nodes: those to avoid for the same reason, and those to take last."""
        same, other = np.zeros_like(fit), np.zeros_like(fit)
        nodes, now_s = self._trial.view.nodes, self._trial.snapshot.taken_at_s
        uid = pod.controller.uid if pod.controller is not None else ""
        for i in nodes.hinted:
            if fit[i]:
                reasons = {entry.reason for entry in holds(nodes.nodes[i].avoid, uid, now_s)}
                same[i] = reason in reasons
                other[i] = bool(reasons)
        return same, other

    def _best(self, pod: Pod, replacement: Pod, gains: FloatArray, fit: BoolArray, last: BoolArray) -> int:
        if (fit & ~last).any():
            fit &= ~last
        nodes = np.flatnonzero(fit)
        rounded = np.round(gains[nodes], 3)
        nodes = nodes[rounded == rounded.max()]
        if len(nodes) > 1:
            points = self._trial.score(pod, replacement, fit)[nodes]
            nodes = nodes[points == points.max()]
        names = self._trial.state.node_names
        return int(min(nodes.tolist(), key=lambda i: names[i]))
