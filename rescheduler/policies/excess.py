"""How bad it is that nodes are above their targets, in whole millionths, and what a move changes in it. Exact and pure.

It is convex in how far a node is above (``utilization.overload``), so that the fullest nodes are relieved first.

The target of a resource is one share for all nodes, or lies by a fixed deviation above their mean or above what they hold together. The mean
changes with every move between nodes of different size, what a pool holds with every move into it or out of it, and so does the excess of all other nodes: that is counted, too. So the excess
is a function of the placement, and no move is worth something only because a mean has not been worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.objective import ONE
from rescheduler.policies.sampled_use import More, is_any
from rescheduler.policies.utilization import Load, overload, weight_of
from rescheduler.policies.wire import PERCENT
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

ABOVE_ALL: Final = 10.0
"""In percent: so far above what all nodes together hold lie targets that are not given, if that is more than they are at least."""
_EPSILON: Final = 1e-9


class Excess:
    """The excess of one moment, over some resources."""

    def __init__(
        self,
        load: Load,
        targets: Mapping[str, float],
        nodes: BoolArray,
        *,
        above_mean: bool = False,
        raised_by: BoolArray | None = None,
    ) -> None:
        """``targets``: shares (0..1) of each resource, or how far above the mean they lie. ``nodes``: those that are judged.

        ``raised_by``: the nodes above whose use the targets lie ``ABOVE_ALL`` at least; None: the targets are fixed.
        """
        whole = {name: round(target * ONE) for name, target in targets.items()}
        self._load, self._whole, self._judged, self._raised_by = load, whole, nodes, raised_by
        self._excess: _AboveTargets | _AboveMeans
        if above_mean:
            self._excess = _AboveMeans([_AboveMean(load, *one, nodes) for one in whole.items()])
        elif raised_by is None:
            self._excess = _AboveTargets(load, whole, nodes)
        elif raised_by.all():
            self._excess = _AboveTargets(load, _raised(load, whole, raised_by), nodes, raised=True)
        else:
            self._excess = self._raising

    @cached_property
    def _raising(self) -> _AboveMeans:
        """With targets that follow what the nodes of ``raised_by`` hold."""
        pool = self._judged if self._raised_by is None else self._raised_by
        return _AboveMeans([_AboveAll(self._load, *one, self._judged, pool) for one in self._whole.items()])

    def total(self) -> int:
        """The sum over nodes and resources."""
        return self._excess.total()

    def nodes(self) -> int:
        """How many nodes are above a target."""
        return int(np.count_nonzero(np.any(self._excess.above(), axis=0)))

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """What the total would change by, for each node that the pod could go to from ``here``."""
        changed = self._excess.change(pod, replacement, here)
        if changed is None:
            changed = self._raising.change(pod, replacement, here)
        changed[here] = 0
        return changed


class _AboveTargets:
    """Resources with one target each for all nodes."""

    def __init__(
        self, load: Load, targets: Mapping[str, int], nodes: BoolArray, *, raised: bool = False
    ) -> None:
        """``raised``: they follow what all nodes hold together, which moves change only if a replacement takes more or less than its pod."""
        self._load = load
        self._targets = targets
        self._raised = raised
        self._judged = nodes
        self._all_judged = bool(nodes.all())

    def total(self) -> int:
        return sum(weight * int(self._of_judged(found).sum()) for weight, found in self._each())

    def above(self) -> list[BoolArray]:
        """By resource, the nodes above the target."""
        return [self._of_judged(found) > 0 for _, found in self._each()]

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray | None:
        """By node; None: the move changes the targets."""
        coming: list[tuple[str, More, int]] = []
        gone = 0
        for name, target in self._targets.items():
            leaves, comes = self._load.carried(pod, replacement, name)
            if self._raised and leaves is not comes and leaves != comes:
                return None
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
    """Resources with targets that follow what nodes hold."""

    def __init__(self, each: Sequence[_AboveMean]) -> None:
        self._each = each

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

    def __init__(self, load: Load, name: str, target: int, nodes: BoolArray) -> None:
        self._load = load
        self._name = name
        self._judged = nodes & load.offers(name)
        self._weight = weight_of(name)
        self._target = target
        self._shares = load.millionths(name)
        self._sorted = np.sort(self._shares[self._judged])
        self._now = self._targets(np.zeros(1, dtype=np.int64))
        self.total = int(self._over(self._now)[0])

    def above(self) -> BoolArray:
        """The nodes above the target of now."""
        found: BoolArray = self._judged & (self._shares > self._now)
        return found

    def change(self, pod: Pod, replacement: Pod, here: int) -> IntArray:
        """By node: the excess of all nodes under the target that the move would leave, less that of now."""
        leaves, comes = self._load.carried(pod, replacement, self._name)
        if not (is_any(leaves) or is_any(comes)):
            return np.zeros_like(self._shares)
        left = self._load.millionths_at(-leaves, self._name, here)
        filled = self._load.millionths_with(comes, self._name)
        stood, counts = int(self._shares[here]), bool(self._judged[here])
        targets = self._targets(self._more(-leaves, comes, here))
        after = self._over(targets)
        there = overload(np.maximum(filled - targets, 0)) - overload(np.maximum(self._shares - targets, 0))
        after += self._weight * np.where(self._judged, there, 0)
        if counts:
            here_now = overload(np.maximum(stood - targets, 0))
            after += self._weight * (overload(np.maximum(left - targets, 0)) - here_now)
        return after - self.total

    def _more(self, leaves: More, comes: More, here: int) -> IntArray | FloatArray:
        """By node, what a move there adds to what the target follows: here to the sum of shares."""
        filled = np.where(self._judged, self._load.millionths_with(comes, self._name) - self._shares, 0)
        if self._judged[here]:
            filled += self._load.millionths_at(leaves, self._name, here) - int(self._shares[here])
        return filled

    def _targets(self, more: IntArray | FloatArray) -> IntArray:
        """The target with so much more of what it follows."""
        sums = int(self._sorted.sum()) + more.astype(np.int64)
        targets: IntArray = np.minimum(sums // max(len(self._sorted), 1) + self._target, ONE)
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


class _AboveAll(_AboveMean):
    """One resource with a target above what the nodes of a pool hold together."""

    def __init__(self, load: Load, name: str, target: int, nodes: BoolArray, pool: BoolArray) -> None:
        self._pool = pool
        self._held = load.amounts[name]
        self._together = float(self._held[pool].sum()), float(load.capacity[name][pool].sum())
        super().__init__(load, name, target, nodes)

    def _more(self, leaves: More, comes: More, here: int) -> IntArray | FloatArray:
        found: FloatArray = np.where(self._pool, self._load.amounts_with(comes, self._name) - self._held, 0.0)
        if self._pool[here]:
            found += self._load.amounts_with(leaves, self._name, slice(here, here + 1)) - self._held[here]
        return found

    def _targets(self, more: IntArray | FloatArray) -> IntArray:
        held, capacity = self._together
        return raised_targets(self._target, held + more.astype(np.float64), capacity)


def _raised(load: Load, least: Mapping[str, int], nodes: BoolArray) -> dict[str, int]:
    """The targets above what these nodes hold together now."""
    found: dict[str, int] = {}
    for name, target in least.items():
        held, capacity = load.amounts[name][nodes].sum(keepdims=True), float(load.capacity[name][nodes].sum())
        found[name] = int(raised_targets(target, held, capacity)[0])
    return found


def raised_target(least: float, held: float, capacity: float) -> float:
    """The target, as a share, of a resource of which nodes together hold so much."""
    return int(raised_targets(round(least * ONE), np.array([held]), capacity)[0]) / ONE


def raised_targets(least: int, held: FloatArray, capacity: float) -> IntArray:
    """The same in millionths for several amounts: ``ABOVE_ALL`` above them, at least ``least``, and never above 1."""
    raised = np.rint((held / max(capacity, _EPSILON) + ABOVE_ALL / PERCENT) * ONE).astype(np.int64)
    targets: IntArray = np.minimum(np.maximum(raised, least), ONE)
    return targets
