"""How bad it is that nodes are above their targets, in whole millionths, and what a move changes in it. Exact and pure.

It is convex in how far a node is above (``utilization.overload``), so that the fullest nodes are relieved first.

The target of a resource is one share for all nodes, or lies by a fixed deviation above their mean. The mean changes with
every move between nodes of different size, and with it the excess of all other nodes: that is counted, too. So the excess
is a function of the placement, and no move is worth something only because a mean has not been worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.objective import ONE
from rescheduler.policies.sampled_use import More, is_any
from rescheduler.policies.utilization import Load, overload, weight_of
from rescheduler.scheduling.framework import BoolArray, IntArray


class Excess:
    """The excess of one moment, over some resources."""

    def __init__(
        self, load: Load, targets: Mapping[str, float], nodes: BoolArray, *, above_mean: bool
    ) -> None:
        """``targets``: shares (0..1) of each resource, or how far above the mean they lie. ``nodes``: those that are judged."""
        whole = {name: round(target * ONE) for name, target in targets.items()}
        self._excess = (_AboveMeans if above_mean else _AboveTargets)(load, whole, nodes)

    def total(self) -> int:
        """The sum over nodes and resources."""
        return self._excess.total()

    def nodes(self) -> int:
        """How many nodes are above a target."""
        return int(np.count_nonzero(np.any(self._excess.above(), axis=0)))

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """What the total would change by, for each node that the pod could go to from ``here``."""
        changed = self._excess.change(pod, replacement, here)
        changed[here] = 0
        return changed


class _AboveTargets:
    """Resources with one target each for all nodes."""

    def __init__(self, load: Load, targets: Mapping[str, int], nodes: BoolArray) -> None:
        self._load = load
        self._targets = targets
        self._judged = nodes
        self._all_judged = bool(nodes.all())

    def total(self) -> int:
        return sum(weight * int(self._of_judged(found).sum()) for weight, found in self._each())

    def above(self) -> list[BoolArray]:
        """By resource, the nodes above the target."""
        return [self._of_judged(found) > 0 for _, found in self._each()]

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """By node."""
        coming: list[tuple[str, More, int]] = []
        gone = 0
        for name, target in self._targets.items():
            leaves, comes = self._load.carried(pod, replacement, name)
            coming.append((name, comes, target))
            if is_any(leaves) and self._judged[here]:
                gone += self._load.rise_at(-leaves, name, here, target)
        return self._of_judged(self._load.rises(coming)) + gone

    def _each(self) -> Iterator[tuple[int, IntArray]]:
        for name, target in self._targets.items():
            yield weight_of(name), self._load.overloads(name, target)

    def _of_judged(self, amounts: IntArray) -> IntArray:
        return amounts if self._all_judged else np.where(self._judged, amounts, 0)


class _AboveMeans:
    """Resources with targets above the mean of the nodes that offer them."""

    def __init__(self, load: Load, deviations: Mapping[str, int], nodes: BoolArray) -> None:
        self._each = [_AboveMean(load, name, deviation, nodes) for name, deviation in deviations.items()]

    def total(self) -> int:
        return sum(resource.total for resource in self._each)

    def above(self) -> list[BoolArray]:
        """By resource, the nodes above the target."""
        return [resource.above() for resource in self._each]

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """By node."""
        changed, *others = [resource.change(pod, replacement, here) for resource in self._each]
        for change in others:
            changed += change
        return changed


class _AboveMean:
    """One resource with a target above the mean of the nodes that offer it."""

    def __init__(self, load: Load, name: str, deviation: int, nodes: BoolArray) -> None:
        self._load = load
        self._name = name
        self._judged = nodes & load.offers(name)
        self._weight = weight_of(name)
        self._deviation = deviation
        self._shares = load.millionths(name)
        judged = np.sort(self._shares[self._judged])
        self._number = len(judged)
        self._sum = int(judged.sum())
        self._sorted = judged
        self.total = int(self._over(self._targets(np.array([self._sum])))[0])

    def above(self) -> BoolArray:
        """The nodes above the target of now."""
        found: BoolArray = self._judged & (self._shares > self._targets(np.array([self._sum])))
        return found

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """By node: the excess of all nodes under the mean that the move would leave, less that of now."""
        leaves, comes = self._load.carried(pod, replacement, self._name)
        if not (is_any(leaves) or is_any(comes)):
            return np.zeros_like(self._shares)
        left = self._load.millionths_at(-leaves, self._name, here)
        filled = self._load.millionths_with(comes, self._name)
        stood, counts = int(self._shares[here]), bool(self._judged[here])
        gone = left - stood if counts else 0
        targets = self._targets(self._sum + gone + np.where(self._judged, filled - self._shares, 0))
        after = self._over(targets)
        there = overload(np.maximum(filled - targets, 0)) - overload(np.maximum(self._shares - targets, 0))
        after += self._weight * np.where(self._judged, there, 0)
        if counts:
            here_now = overload(np.maximum(stood - targets, 0))
            after += self._weight * (overload(np.maximum(left - targets, 0)) - here_now)
        return after - self.total

    def _targets(self, sums: IntArray) -> IntArray:
        """The target where the shares have each of these sums."""
        targets: IntArray = np.minimum(sums // max(self._number, 1) + self._deviation, ONE)
        return targets

    def _over(self, targets: IntArray) -> IntArray:
        """How bad the shares of now are above each target, in sum."""
        # One pod changes the mean of many nodes by little: then targets are counted instead of sorted. Few nodes are above the lowest.
        lowest = int(targets.min())
        which = targets - lowest
        if which.max() > len(targets):
            different, which = np.unique(targets, return_inverse=True)
        else:
            different = lowest + np.flatnonzero(np.bincount(which))
            place = np.zeros(different[-1] - lowest + 1, dtype=np.int64)
            place[different - lowest] = np.arange(len(different))
            which = place[which]
        above = self._sorted[np.searchsorted(self._sorted, different[0], side="right") :]
        found = overload(np.maximum(above - different[:, np.newaxis], 0)).sum(axis=1)
        over: IntArray = self._weight * found[which]
        return over
