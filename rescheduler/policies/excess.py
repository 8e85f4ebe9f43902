"""How far nodes are above their targets, in whole millionths of a node, and what a move changes in it. Exact and pure.

The target of a resource is one share for all nodes, or lies by a fixed deviation above their mean. The mean changes with
every move between nodes of different size, and with it the excess of all other nodes: that is counted, too. So the excess
is a function of the placement, and no move is worth something only because a mean has not been worked out again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.objective import ONE
from rescheduler.policies.utilization import Load
from rescheduler.scheduling.framework import BoolArray, IntArray


class Excess:
    """The excess of one moment, over some resources."""

    def __init__(
        self, load: Load, targets: Mapping[str, float], nodes: BoolArray, *, above_mean: bool
    ) -> None:
        """``targets``: shares (0..1) of each resource, or how far above the mean they lie. ``nodes``: those that are judged."""
        kind = _AboveMean if above_mean else _Resource
        self._resources = [kind(load, name, round(target * ONE), nodes) for name, target in targets.items()]

    def total(self) -> int:
        """The sum over nodes and resources."""
        return sum(resource.total for resource in self._resources)

    def nodes(self) -> int:
        """How many nodes are above a target."""
        return int(np.count_nonzero(np.any([resource.above() for resource in self._resources], axis=0)))

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """What the total would change by, for each node that the pod could go to from ``here``."""
        changes = [resource.change(pod, replacement, here) for resource in self._resources]
        changed: IntArray = changes[0]
        for change in changes[1:]:
            changed += change
        changed[here] = 0
        return changed


def change_at(
    load: Load,
    targets: Mapping[str, float],
    judged: BoolArray,
    move: tuple[Pod, Pod],
    nodes: tuple[int, int],
) -> int:
    """``Excess.change`` for one move without ``above_mean``: of a pod and its replacement, from one node to another one."""
    here, there = nodes
    changed = 0
    for name, share in targets.items():
        leaves, comes = load.carried(*move, name)
        if leaves or comes:
            target = round(share * ONE)
            for node, more in ((here, -leaves), (there, comes)):
                if judged[node]:
                    before = max(load.millionths_at(0.0, name, node) - target, 0)
                    changed += max(load.millionths_at(more, name, node) - target, 0) - before
    return changed


def _moved(load: Load, name: str, pod: Pod, replacement: Pod, here: int) -> tuple[int, float] | None:
    """Of a resource: the share of the pod's node without the pod, and what its replacement brings. None: neither has any."""
    leaves, comes = load.carried(pod, replacement, name)
    if not leaves and not comes:
        return None
    return load.millionths_at(-leaves, name, here), comes


class _Resource:
    """One resource with one target for all nodes."""

    def __init__(self, load: Load, name: str, target: int, nodes: BoolArray) -> None:
        self._load = load
        self._name = name
        self._judged = nodes
        self._all_judged = bool(nodes.all())
        self._target = target
        # A copy: what is kept for all nodes follows the moves.
        self._now = self._above(0.0).copy()
        self.total = int(self._now.sum())

    def above(self) -> BoolArray:
        """The nodes above the target."""
        found: BoolArray = self._now > 0
        return found

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """By node."""
        moved = _moved(self._load, self._name, pod, replacement, here)
        if moved is None:
            return np.zeros_like(self._now)
        left, comes = moved
        gone = max(left - self._target, 0) - int(self._now[here]) if self._judged[here] else 0
        there: IntArray = self._above(comes) - self._now
        there += gone
        return there

    def _above(self, more: float) -> IntArray:
        """How much of each node that is judged lies above the target with so much more there. Do not change the array."""
        above = self._load.millionths_above(more, self._name, self._target)
        return above if self._all_judged else np.where(self._judged, above, 0)


class _AboveMean:
    """One resource with a target above the mean of the nodes that offer it."""

    def __init__(self, load: Load, name: str, deviation: int, nodes: BoolArray) -> None:
        self._load = load
        self._name = name
        self._judged = nodes & load.offers(name)
        self._deviation = deviation
        self._shares = load.millionths(name)
        judged = np.sort(self._shares[self._judged])
        self._number = len(judged)
        self._sum = int(judged.sum())
        self._sorted = judged
        # How much lies in the shares from each place of that order to its end.
        self._rest = np.append(np.cumsum(judged[::-1])[::-1], 0)
        self.total = int(self._over(self._targets(np.array([self._sum])))[0])

    def above(self) -> BoolArray:
        """The nodes above the target of now."""
        found: BoolArray = self._judged & (self._shares > self._targets(np.array([self._sum])))
        return found

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """By node: the excess of all nodes under the mean that the move would leave, less that of now."""
        moved = _moved(self._load, self._name, pod, replacement, here)
        if moved is None:
            return np.zeros_like(self._shares)
        left, filled = moved[0], self._load.millionths_with(moved[1], self._name)
        stood, counts = int(self._shares[here]), bool(self._judged[here])
        gone = left - stood if counts else 0
        targets = self._targets(self._sum + gone + np.where(self._judged, filled - self._shares, 0))
        after = self._over(targets)
        there = np.maximum(filled - targets, 0) - np.maximum(self._shares - targets, 0)
        after += np.where(self._judged, there, 0)
        if counts:
            after += np.maximum(left - targets, 0) - np.maximum(stood - targets, 0)
        return after - self.total

    def _targets(self, sums: IntArray) -> IntArray:
        """The target where the shares have each of these sums."""
        targets: IntArray = np.minimum(sums // max(self._number, 1) + self._deviation, ONE)
        return targets

    def _over(self, targets: IntArray) -> IntArray:
        """How much of the shares of now lies above each target, in sum."""
        # One pod changes the mean by little, so that there are few targets; what lies above is found once for each.
        lowest, highest = int(targets.min()), int(targets.max())
        if highest - lowest > len(targets):
            return self._over_each(targets)
        return self._over_each(np.arange(lowest, highest + 1))[targets - lowest]

    def _over_each(self, targets: IntArray) -> IntArray:
        first = np.searchsorted(self._sorted, targets, side="right")
        found: IntArray = self._rest[first] - targets * (self._number - first)
        return found
