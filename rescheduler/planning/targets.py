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
        self._rooms: dict[Resources, tuple[int, int]] = {}
        """By request: a node with room for it, -1 if there is none, and at which moment that was so."""

    def forget(self) -> None:
        """Moves may have opened ways: try every class again."""
        self._hopeless.clear()
        self._kept.clear()

    def hopeless(self, pod: Pod, replacement: Pod) -> Blocked | None:
        """Why no node at all takes it, whatever a move would gain, as far as that is known or costs nothing to find out."""
        known = self._hopeless.get(self._kind(pod, replacement))
        if known is not None or self._has_room(replacement):
            return known
        message = "no node has room for its replacement"
        return self._give_up(pod, replacement, Blocked(SkipReason.NO_TARGET, message, "NodeResourcesFit"))

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
        """The best node, or why there is none, for a pod that is not ``hopeless``.

        ``gains``: by node; nodes at or below 0 are not wanted. ``last``: gives nodes to take only if no other will do.
        """
        if not (gains > 0).any():
            return Blocked(SkipReason.NO_BETTER_TARGET, "no other node would be better", "")
        late = np.zeros_like(gains, dtype=np.bool_) if last is None else last()
        with self._trial.without(pod):
            return self._choose(
                pod, replacement, gains=gains, least_gain=least_gain, reason=reason, late=late
            )

    def _choose(
        self,
        pod: Pod,
        replacement: Pod,
        *,
        gains: FloatArray,
        least_gain: float,
        reason: str,
        late: BoolArray,
    ) -> Target | Blocked:
        """Meanwhile the pod is off its node."""
        takers = self._trial.takers(pod, replacement)
        number = int(np.count_nonzero(takers))
        if not number:
            return self._give_up(pod, replacement, self._explained(replacement))
        fit: BoolArray = takers & (gains > 0)
        if not fit.any():
            return Blocked(SkipReason.NO_BETTER_TARGET, f"{number} nodes would take it, none is better", "")
        same, other = self._avoided(pod, fit, reason)
        fit &= ~same
        if not fit.any():
            names = ", ".join(self._trial.state.node_names[i] for i in np.flatnonzero(same)[:_HINTS])
            return Blocked(SkipReason.AVOIDED, f"it was moved away from {names} for the same reason", names)
        best = float(gains[fit].max())
        if best < least_gain:
            message = f"the best move gains {best:.2f}, less than {least_gain:.2f}"
            return Blocked(SkipReason.GAIN_TOO_SMALL, message, "minimumGain")
        node = self._best(replacement, gains, fit & (gains >= least_gain), other | late)
        return Target(self._trial.state.node_names[node], float(gains[node]))

    def _give_up(self, pod: Pod, replacement: Pod, why: Blocked) -> Blocked:
        """Remember that no node takes pods like this one."""
        self._hopeless[self._kind(pod, replacement)] = why
        self._kept.extend((pod, replacement))  # keys hold identities: their objects must live as long
        return why

    def _kind(self, pod: Pod, replacement: Pod) -> tuple[object, ...]:
        spec = replacement.spec
        social = bool(spec.spread or spec.pod_affinity or spec.pod_anti_affinity)
        claims = pod.name if spec.volumes else ""
        where = self._trial.state.node_index[pod.node] if social else -1
        return pod.namespace, id(spec), id(replacement.labels), where, claims

    def _has_room(self, replacement: Pod) -> bool:
        """Asked of one node that had room, and of all only if that has none any more."""
        requests, moment = replacement.spec.requests, self._trial.index.moment
        known = self._rooms.get(requests)
        if known is not None:
            node, then = known
            if then == moment or (node >= 0 and self._trial.roomy_at(replacement, node)):
                return node >= 0
        found = np.flatnonzero(self._trial.roomy(replacement))
        node = int(found[0]) if len(found) else -1
        self._rooms[requests] = node, moment
        return node >= 0

    def _explained(self, replacement: Pod) -> Blocked:
        """Which of the scheduler's rules refuse most nodes."""
        state = self._trial.state
        result = state.filter(replacement)
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

    def _best(self, replacement: Pod, gains: FloatArray, fit: BoolArray, last: BoolArray) -> int:
        first = fit & ~last
        nodes = np.flatnonzero(first if first.any() else fit)
        rounded = np.round(gains[nodes], 3)
        equal = rounded == rounded.max()
        if int(np.count_nonzero(equal)) > 1:
            points = self._trial.state.totals(replacement, nodes)
            equal &= points == points[equal].max()
        nodes = nodes[equal]
        return int(nodes[self._trial.view.nodes.ranks[nodes].argmin()])
