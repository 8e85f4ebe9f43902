"""LowNodeUtilization: pods of overloaded nodes move to under-utilised ones.

A node is overloaded above ``targetThresholds`` in any resource, under-utilised at or below ``thresholds`` in all; without
``thresholds``, if it is no fuller than the mean of the nodes, and below its targets. Without ``targetThresholds`` the targets are
half of a node, and more where the nodes together are fuller: else nothing would be done in a busy cluster.
Between the two it neither gives nor receives: this is the hysteresis that keeps pods from going to and fro.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.model.counted import plural, verb
from rescheduler.model.measured import UsageStatistic
from rescheduler.model.records import Pod
from rescheduler.model.written import Positive
from rescheduler.policies.excess import Excess, raised_target
from rescheduler.policies.framework import Overload, PolicyView, PolicyWarning
from rescheduler.policies.measurement_warnings import measurement_warnings
from rescheduler.policies.missing_requests import missing_requests
from rescheduler.policies.objective import Tier, in_tier, nothing
from rescheduler.policies.overloaded_nodes import OverloadedNode, ReliefProposals
from rescheduler.policies.proposals import Batch, Candidate, Proposals
from rescheduler.policies.sampled_use import Most, highest, means_of
from rescheduler.policies.sure_overload import AnomalyArgs, ReliefBounds, doubtful
from rescheduler.policies.utilization import (
    ACTUAL,
    REQUESTS,
    Counting,
    Load,
    goes_by_measurement,
    relief,
    weight_of,
)
from rescheduler.policies.wire import PERCENT, ArgumentProblem, NodePoolArgs, percent_problems
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.nodes import NodeTable

_EPSILON: Final = 1e-9
DEFAULT_TARGETS: Final = {"cpu": 50.0, "memory": 50.0, "pods": 50.0}
"""In percent, where nothing is said of targets, or ``ABOVE_ALL``."""
_ROUNDING: Final = 1e-4
"""Of a node: the objective rounds shares, so it may differ a little from them."""


class WhoGoes(enum.StrEnum):
    """Which pods leave an overloaded node."""

    HEAVIEST = "heaviest"
    NEIGHBOURS = "neighbours"


class LowNodeUtilizationArgs(
    NodePoolArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Percent of allocatable per resource; both maps name the same resources.

    ``thresholds`` None: nodes below the mean may receive.
    ``target_thresholds`` None: ``DEFAULT_TARGETS``, or ``ABOVE_ALL`` above the use of all nodes together, if that is higher.
    ``use_deviation_thresholds``: thresholds are taken below, targetThresholds above the mean of all nodes.
    ``usage``: requests, or actual: measured cpu and memory; nodes without a fresh measurement take no part.
    ``statistic``: which number stands for the samples; None: that of section ``usage``.
    ``start_thresholds``: relief begins above them and ends at ``target_thresholds``; resources not named begin there.
    ``anomaly``: in how many samples a node must be above before anything is done, with measured usage.
    ``who_goes``: heaviest: few pods, so that the one that carries the load goes; neighbours: on each node it stays, and others make way.
    ``use_default_requests``: a container without a CPU or memory request counts as in kube-scheduler's scores; else as nothing.
    ``number_of_nodes``: under-utilised nodes that there must be before anything is done. ``minimum_relief``: what a move must
    take from what is above the targets, in percent of a node: as the objective counts it, more on a fuller node, and twice for memory.
    """

    thresholds: dict[str, float] | None = None
    target_thresholds: dict[str, float] | None = None
    use_deviation_thresholds: bool = False
    usage: Literal["requests", "actual"] = REQUESTS
    statistic: UsageStatistic | None = None
    start_thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    anomaly: AnomalyArgs | None = None
    who_goes: WhoGoes = WhoGoes.HEAVIEST
    use_default_requests: bool = True
    number_of_nodes: Positive = 1
    minimum_relief: Annotated[float, msgspec.Meta(ge=0, le=100)] = 2.0

    @property
    def targets(self) -> dict[str, float]:
        """The targets that are given, or the least of those that are not."""
        return DEFAULT_TARGETS if self.target_thresholds is None else self.target_thresholds

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        yield from percent_problems("targetThresholds", self.targets)
        if not self.targets:
            yield ("targetThresholds",), "is empty: name at least one resource"
        yield from self._start_problems()
        if self.thresholds is None:
            return
        yield from percent_problems("thresholds", self.thresholds)
        if not self.thresholds:
            yield ("thresholds",), "is empty: name at least one resource, or leave it out"
        for resource in sorted(self.thresholds.keys() ^ self.targets.keys()):
            missing = "targetThresholds" if resource in self.thresholds else "thresholds"
            yield (missing,), f"misses {resource}: both maps must name the same resources"
        for resource in self.thresholds.keys() & self.targets.keys():
            low, high = self.thresholds[resource], self.targets[resource]
            if low > high and not self.use_deviation_thresholds:
                yield ("thresholds", resource), f"is {low:g}, above its targetThreshold {high:g}"

    def _start_problems(self) -> Iterator[ArgumentProblem]:
        """Of what must be before anything is done."""
        yield from percent_problems("startThresholds", self.start_thresholds)
        for resource, percent in self.start_thresholds.items():
            if resource not in self.targets:
                yield ("startThresholds", resource), "has no targetThreshold, where relief would end: add one"
            elif percent < (target := self.targets[resource]):
                yield ("startThresholds", resource), f"is {percent:g}, below its targetThreshold {target:g}"
        if self.anomaly is not None:
            yield from self.anomaly.problems()
        for key, given in (("anomaly", self.anomaly), ("statistic", self.statistic)):
            if given is not None and self.usage != ACTUAL:
                yield (key,), "counts samples, and requests have none: set usage: actual"

    def unknown_to(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        """Resources that no node offers."""
        yield from super().unknown_to(nodes)
        key = "targetThresholds" if self.thresholds is None else "thresholds"
        for resource in sorted(self.targets):
            if not self.offered(resource, nodes):
                yield (
                    (key, resource),
                    "no node that takes part offers any, so it changes nothing",
                )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The targets as shares (0..1) by resource, and which nodes were under-utilised before the plan, or are so by what it leaves."""

    most: dict[str, Most]
    free: BoolArray

    def high(self, resource: str) -> float:
        """The target of now."""
        return self.most[resource].now


class LowNodeUtilization:
    """Badness: the shares of nodes above ``targetThresholds``, the worse the fuller the node; see ``Excess``.

    A pod that does not take ``minimumRelief`` off that is not moved. A target must have been under-utilised before the plan, or be
    so by what the moves so far leave, and must not be above ``targetThresholds`` after the move.
    What an empty room holds is taken on a target, and no load of the node that it is on.
    """

    name: str = "LowNodeUtilization"
    tier: ClassVar[Tier] = Tier.BALANCE

    def __init__(self, args: LowNodeUtilizationArgs) -> None:
        self._args = args
        self._scope = args.scope()
        self._resources = tuple(sorted(args.targets))
        self._targets = {r: args.targets[r] / PERCENT for r in self._resources}
        """Shares of each resource, the least if none are given, or how far above the mean they lie."""
        self._starts = {r: percent / PERCENT for r, percent in args.start_thresholds.items()}
        self._least = args.minimum_relief / PERCENT
        self._counting = Counting(args.usage, args.use_default_requests, statistic=args.statistic)

    def candidates(self, view: PolicyView) -> Proposals:
        """Per overloaded node, most overloaded first: the pods that just cover its excess, then spares."""
        if int(self._bounds(view, self._load(view)).free.sum()) < self._args.number_of_nodes:
            return Proposals([])
        proposed: list[tuple[Batch]] = []
        spares: list[tuple[Batch]] = []
        overloaded = self._overloaded(view)
        self._usefulness(view, overloaded)
        for here in overloaded:
            found = self._proposed_on(here, view)
            proposed.extend((batch,) for batch in found.needed)
            if view.spares:
                spares.extend((batch,) for batch in found.spares)
        return Proposals([*proposed, *spares])

    def receivers(self, candidate: Candidate, view: PolicyView) -> BoolArray:
        """Under-utilised ones that the pod does not lift above their targets."""
        pod, load = candidate.pod, self._load(view)
        bounds = self._bounds(view, load)
        found = bounds.free.copy()
        for resource in self._resources:
            found &= load.above_with(pod, resource, bounds.most[resource]) <= _EPSILON
        # A load that comes and goes takes no pod to and fro.
        found[load.nodes_left(pod, self.name)] = False
        return found

    def overload(self, view: PolicyView) -> Overload | None:
        """None while there are fewer under-utilised nodes than ``numberOfNodes``."""
        load = self._load(view)
        bounds = self._bounds(view, load)
        if int(bounds.free.sum()) < self._args.number_of_nodes:
            return None
        capacity = np.stack([load.capacity[r] for r in self._resources])
        held = np.stack([load.amounts[r] for r in self._resources])
        work = np.stack([self._work(view).amounts[r] for r in self._resources])
        high = np.array([[bounds.high(r) + _EPSILON] for r in self._resources])
        # What empty rooms hold keeps pods out and makes no node too full.
        full, taken = work - high * capacity, np.minimum(held - high * capacity, 0.0)
        above = np.where(self._judged(view), np.where(full > 0.0, full, taken), -np.inf)
        weights = tuple(weight_of(r) for r in self._resources)
        return Overload(above, capacity, bounds.free, weights, self._args.minimum_relief / PERCENT)

    def takes(self, pod: Pod, view: PolicyView) -> tuple[float, ...]:
        """Of each resource that has a threshold."""
        load = self._load(view)
        return tuple(load.taken(pod, r) for r in self._resources)

    def badness(self, view: PolicyView) -> IntArray:
        """In tier BALANCE: how bad the shares above ``targetThresholds`` are, over all resources and nodes that are judged."""
        found = nothing()
        found[Tier.BALANCE] = self._excess_of(view).total()
        return found

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What that sum would change by."""
        here = view.state.node_index[pod.node]
        return in_tier(Tier.BALANCE, self._excess_of(view).change(pod, replacement, here))

    def nodes_counted(self, view: PolicyView) -> int:
        """The nodes above ``targetThresholds``."""
        return self._excess_of(view).nodes()

    def warnings(self, view: PolicyView) -> Iterator[PolicyWarning]:
        """Nodes that are left out, pods without requests, and why nothing is moved although nodes are overloaded."""
        if goes_by_measurement(self._resources, self._args.usage):
            excess = self._excess(self._work(view), self._bounds(view, self._load(view)))
            above = np.max(list(excess.values()), axis=0) > _EPSILON
            yield from measurement_warnings(self.name, view, above & self._judged(view))
        else:
            yield from missing_requests(
                self.name,
                view,
                self._args.nodes(view.nodes),
                self._resources,
                defaults=self._args.use_default_requests,
                or_else=" or usage: actual",
            )
        if why := self._idle(view):
            yield PolicyWarning(f"{self.name} moves nothing: {why}")

    def _idle(self, view: PolicyView) -> str:
        """Why it moves nothing although nodes are overloaded: there are too few under-utilised ones, or only small pods, or large ones."""
        free = int(self._bounds(view, self._load(view)).free.sum())
        if not (over := self.nodes_counted(view)):
            return ""
        above = f"{plural(over, 'node')} {verb(over, 'is', 'are')} above targetThresholds, but"
        if free >= self._args.number_of_nodes:
            useful, fits = self._usefulness(view)
            if not useful:
                least = f"minimumRelief ({self._args.minimum_relief:g} percent of a node)"
                return f"{above} no pod there that the policy may move relieves its node by {least}: lower it"
            if not fits:
                return f"{above} each pod there would lift any under-utilised node above them: raise them, or add nodes"
            return ""
        if self._args.thresholds is None:
            lowest, remedy = "below the mean and its targets", "raise targetThresholds, or add nodes"
        elif self._args.use_deviation_thresholds:
            lowest, remedy = "below the mean by thresholds", "lower thresholds"
        else:
            lowest, remedy = "at or below thresholds", "raise thresholds, or leave them out"
        few = f"only {free} of the {self._args.number_of_nodes} needed" if free else "no node"
        return f"{above} {few} {verb(free or 1, 'is', 'are')} {lowest} in all resources to take their pods: {remedy}"

    def _usefulness(
        self, view: PolicyView, overloaded: Sequence[OverloadedNode] | None = None
    ) -> tuple[bool, bool]:
        """Whether a pod on an overloaded node is worth a move, and whether one of those that may be moved fits on another node."""

        def find() -> tuple[bool, bool]:
            nodes = self._overloaded(view) if overloaded is None else overloaded
            # Of pods of one class one is asked about, unless what each of them takes is measured.
            pods = {id(pod if here.measured else kind): pod for here in nodes for pod, kind in here.movable()}
            return any(here.pods for here in nodes), not pods or self._any_fits(pods.values(), view)

        return view.memo.of((self, "useful"), view.cluster.version, find)

    def _any_fits(self, pods: Iterable[Pod], view: PolicyView) -> bool:
        load = self._load(view)
        bounds = self._bounds(view, load)
        left = [(bounds.high(r) + _EPSILON) * load.capacity[r] - load.amounts[r] for r in self._resources]
        open_ = np.stack(left)[:, bounds.free]
        return any((self.takes(pod, view) <= open_.T).all(axis=1).any() for pod in pods)

    def _excess_of(self, view: PolicyView) -> Excess:
        def find() -> Excess:
            load = self._work(view)
            return Excess(
                load,
                self._targets,
                self._judged(view),
                above_mean=self._args.use_deviation_thresholds,
                raised_by=self._raising(view, load),
            )

        return view.memo.of((self, Excess), view.cluster.version, find)

    def _raising(self, view: PolicyView, load: Load) -> BoolArray | None:
        """The nodes with whose use the targets rise; None: targets are given."""
        if self._args.target_thresholds is not None or self._args.use_deviation_thresholds:
            return None
        found: BoolArray = self._args.nodes(view.nodes) & load.known
        return found

    def _targets_of(self, view: PolicyView) -> dict[str, float]:
        """The targets as shares of now, or how far above the mean they lie."""

        def find() -> dict[str, float]:
            load = self._work(view)
            raising = self._raising(view, load)
            if raising is None:
                return self._targets
            return {
                r: raised_target(
                    least, float(load.amounts[r][raising].sum()), float(load.capacity[r][raising].sum())
                )
                for r, least in self._targets.items()
            }

        return view.memo.of((self, "targets"), self._stamp(view), find)

    def _stamp(self, view: PolicyView) -> int | None:
        """Of answers that follow from the targets; None: no move changes those."""
        raising = self._raising(view, self._work(view))
        moves = self._args.use_deviation_thresholds if raising is None else not raising.all()
        return view.cluster.version if moves else None

    def _judged(self, view: PolicyView) -> BoolArray:
        """The nodes that are judged: those of the policy whose usage is known, and not above their targets by chance only.

        Do not change the array.
        """

        def find() -> BoolArray:
            load = self._work(view)
            known: BoolArray = self._args.nodes(view.nodes) & load.known
            return known & ~self._doubtful(view, load, known)

        found: BoolArray = view.memo.of((self, "judged"), None, find)
        return found

    def _doubtful(self, view: PolicyView, load: Load, known: BoolArray) -> BoolArray:
        """Nodes that are above a target, of which it is not sure that something is to be done."""
        highs, starts = dict(self._targets_of(view)), dict(self._starts)
        if self._args.use_deviation_thresholds:
            for resource in self._resources:
                counted = load.before(resource)[known & load.offers(resource)]
                mean = float(counted.mean()) if counted.size else 0.0
                highs[resource] = min(1.0, mean + highs[resource])
                if resource in starts:
                    starts[resource] = min(1.0, mean + starts[resource])
        bounds = ReliefBounds(highs=highs, starts=starts, anomaly=self._args.anomaly, policy=self.name)
        return doubtful(view, load, bounds)

    def _load(self, view: PolicyView) -> Load:
        """With what empty rooms hold: that much less fits on a target."""
        return Load.now(view, self._resources, self._counting)

    def _work(self, view: PolicyView) -> Load:
        """Without it: what pods could take away from a node."""
        return Load.now(view, self._resources, self._counting._replace(rooms=False))

    def _bounds(self, view: PolicyView, load: Load) -> _Bounds:
        def find() -> _Bounds:
            # Planned moves change nothing of how it was before them, but what targets are measured from.
            before = view.memo.of(
                (self, "before"), self._stamp(view), lambda: self._bounds_by(view, load, load.before)
            )
            if not view.planned.moves:
                return before
            return _Bounds(before.most, before.free | self._bounds_by(view, load, load.share).free)

        return view.memo.of((self, _Bounds), view.cluster.version, find)

    def _bounds_by(self, view: PolicyView, load: Load, share: Callable[[str], FloatArray]) -> _Bounds:
        """``share``: by which nodes are under-utilised."""
        judged = self._judged(view)
        means = dict.fromkeys(self._resources, 0.0)
        most = {r: Most(target, target) for r, target in self._targets_of(view).items()}
        free = view.nodes.usable & view.nodes.healthy & judged
        for resource in self._resources:
            day = load.day(resource)
            if self._args.use_deviation_thresholds:
                counted = judged & load.offers(resource)
                shares = self._work(view).share(resource)[counted]
                means[resource] = float(shares.mean()) if shares.size else 0.0
                target = self._targets[resource]
                of_day = np.minimum(1.0, means_of(day[counted]) + target)
                most[resource] = Most(min(1.0, means[resource] + target), of_day)
            # A node that was too full at another time of the day has no room then.
            free &= ~(highest(day - most[resource].day) > _EPSILON)
        if self._args.thresholds is None:
            fullest = np.max([share(r) / max(most[r].now, _EPSILON) for r in self._resources], axis=0)
            return _Bounds(most, free & _below_mean(fullest, judged))
        for resource, percent in self._args.thresholds.items():
            low = percent / PERCENT
            if self._args.use_deviation_thresholds:
                low = max(0.0, means[resource] - low)
            free &= share(resource) <= low + _EPSILON
        return _Bounds(most, free)

    def _excess(self, load: Load, bounds: _Bounds) -> dict[str, FloatArray]:
        return {r: np.maximum(load.share(r) - bounds.high(r), 0.0) for r in self._resources}

    def _overloaded(self, view: PolicyView) -> list[OverloadedNode]:
        """The overloaded nodes, the worst first, with the pods that could relieve them."""
        load, bounds = self._work(view), self._bounds(view, self._load(view))
        excess = self._excess(load, bounds)
        worst = np.max(list(excess.values()), axis=0)
        loaded = np.flatnonzero((worst > _EPSILON) & self._judged(view)).tolist()
        over = sorted(loaded, key=lambda i: (-worst[i], view.nodes.names[i]))
        columns = view.columns
        amounts = np.stack([excess[r] for r in self._resources])
        capacity = np.stack([load.capacity[r] for r in self._resources])
        # All pods of all overloaded nodes in one pass: with a pass for each node, a thousand of them take a second.
        at = np.flatnonzero(np.isin(columns.nodes, over))
        kinds, nodes = columns.kinds[at], columns.nodes[at]
        # Of a pod that nobody measured nothing is known, so it is not proposed.
        taken = np.nan_to_num(np.stack([load.taken_by_each(columns, at, r) for r in self._resources]))
        proposed = np.array([self._scope.proposes(known) for known in columns.classes], dtype=np.bool_)
        # A pod that takes little of what its node has too much of does not relieve it.
        excesses = amounts[:, nodes]
        parts = np.minimum(taken / np.maximum(capacity[:, nodes], 1.0), excesses)
        relieved = sum(relief(r, parts[i], excesses[i]) for i, r in enumerate(self._resources))
        useful = proposed[kinds] & (relieved > max(self._least - _EPSILON, _EPSILON))
        if self._args.who_goes == WhoGoes.NEIGHBOURS:
            useful &= ~_heaviest(
                nodes, (taken / np.maximum(capacity[:, nodes], 1.0) * (excesses > 0)).sum(axis=0)
            )
        # The pods of each node next to each other.
        order = np.flatnonzero(useful)
        order = order[np.argsort(nodes[order], kind="stable")]
        at, taken, relieved = at[order], taken[:, order], relieved[order]
        able = view.movable_rows(at)
        nodes = columns.nodes[at]
        starts = np.searchsorted(nodes, over, side="left").tolist()
        ends = np.searchsorted(nodes, over, side="right").tolist()
        pods = [columns.pods[i] for i in at.tolist()]
        classes = [columns.classes[i] for i in columns.kinds[at].tolist()]
        shares = np.stack([load.share(r)[over] for r in self._resources]).T.tolist()
        found: list[OverloadedNode] = []
        for number, (node, start, end) in enumerate(zip(over, starts, ends, strict=True)):
            full = np.flatnonzero(amounts[:, node] > _EPSILON).tolist()
            words = ", ".join(
                f"{self._resources[r]} {shares[number][r]:.0%} of {bounds.high(self._resources[r]):.0%}"
                for r in full
            )
            found.append(
                OverloadedNode(
                    node=node,
                    message=f"node/{view.nodes.names[node]} is overloaded: {words}",
                    measured=load.measures_pods,
                    pods=pods[start:end],
                    kinds=classes[start:end],
                    able=able[start:end],
                    taken=taken[full, start:end].T,
                    excess=amounts[full, node],
                    capacity=capacity[full, node],
                    reliefs=relieved[start:end],
                )
            )
        return found

    def _proposed_on(self, here: OverloadedNode, view: PolicyView) -> ReliefProposals:
        """What is proposed to relieve a node, from an earlier question if nothing that matters is different."""
        least = self._least - _ROUNDING
        return view.cluster.memo.of((self, here.node), here, lambda: ReliefProposals(here, self.name, least))


def _heaviest(nodes: npt.NDArray[np.int32], taken: FloatArray) -> BoolArray:
    """Of the pods on each node the one that takes most of what is too much there; of equals any, as they stay or go alike."""
    order = np.lexsort((-taken, nodes))
    first = np.diff(nodes[order], prepend=-1) != 0
    found = np.zeros(len(nodes), dtype=np.bool_)
    found[order[first]] = True
    return found


def _below_mean(fullest: FloatArray, judged: BoolArray) -> BoolArray:
    """Nodes whose fullest resource, measured by its target, is below the target and no fuller than that of nodes in the mean."""
    shares = np.sort(fullest[judged])
    mean = float(shares.mean()) if shares.size else 0.0
    below: BoolArray = (fullest < 1.0 - _EPSILON) & (fullest <= mean + _EPSILON)
    return below
