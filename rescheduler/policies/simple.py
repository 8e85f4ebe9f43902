"""A policy made of one cost: its author knows pods, nodes and what is bad about them; this module knows the rest.

Two kinds of cost, both in pods (1.0: one pod as badly placed as can be), added up over the cluster:

- ``cost(pod, node)``: of one pod on a node, whatever else stands there;
- ``cost_together(pods)``: of the pods of one ``group`` that share a node.

What a move gains is what these fall by. Costs are asked for once for pods that nothing tells apart but name and moment, and
kept until nodes or pods change, so they must be functions of their arguments, and must not look at a pod's name, age or
place. Part of the interface for policies from other packages (``PolicyType.interface``). Pure.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from pathlib import PurePath
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np

from rescheduler.errors import PolicyError
from rescheduler.model.records import Node, Pod, PodState
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier, unchanged
from rescheduler.policies.pod_costs import CostRows, change_of_cost, sum_of_costs
from rescheduler.policies.proposals import NODE, Batch, Proposals, by_gain, reluctance
from rescheduler.policies.wire import PolicyArgs
from rescheduler.scheduling.classes import PodClass, standing
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices
from rescheduler.scheduling.memo import Memo

ArgsT = TypeVar("ArgsT", bound=PolicyArgs)
Found = TypeVar("Found")
_MOST: Final = 1_000_000
"""Pods that one cost may be worth: so the sum over the largest cluster is a number still."""
_LABELS_TOLD: Final = 3
FAILURES: Final = (Exception, SystemExit)
"""What a policy of another package may raise: it must not end the process either."""


class SimplePolicy(Generic[ArgsT]):
    """Subclasses name themselves and write ``cost``, or ``group`` and ``cost_together``, or all three."""

    name: str
    tier: ClassVar[Tier] = Tier.SOFT
    """What outweighs what: see ``objective.Tier``. In ``HARD`` costs are whole numbers of pods."""
    reason: ClassVar[str] = "Costly"
    """One word in CamelCase for metrics and reports."""
    message: ClassVar[str] = f"would be placed better elsewhere than on {NODE}"
    """For people, after the pod's name."""
    on_failure: Callable[[PolicyError], None] | None = None
    """Told of pods whose own cost or group cannot be had; they then cost nothing, and the others count. None: it is raised."""

    def __init__(self, args: ArgsT) -> None:
        self.args = args
        self._scope = args.scope()

    def cost(self, pod: Pod, node: Node) -> float:  # noqa: ARG002 -- for subclasses
        """What the pod costs on this node, in pods."""
        return 0.0

    def group(self, pod: Pod) -> Hashable | None:  # noqa: ARG002 -- for subclasses
        """Which other pods matter to this one where they share its node; None: none."""
        return None

    def cost_together(self, pods: Sequence[Pod]) -> float:  # noqa: ARG002 -- for subclasses
        """What pods of one group cost by sharing a node, in pods; there is at least one."""
        return 0.0

    def badness(self, view: PolicyView) -> IntArray:
        """All costs."""
        total = sum_of_costs(self._alone, view)
        total[self.tier] += sum(map(self._cost_of, self._crowds(view)))
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What all costs change by."""
        cluster, here = view.cluster, view.state.node_index[pod.node]
        change = change_of_cost(self._alone, pod, replacement, view)
        kind, then = cluster.kind_of(pod), cluster.kind_of(replacement)
        old, new = self._crowd(kind, view), self._crowd(then, view)
        if old is None and new is None:
            return change
        by_node: IntArray = np.zeros(view.nodes.size, dtype=np.int64)
        if old is not None:
            by_node -= self._relief(pod, old.on_nodes()[here])
        if new is not None:
            alone = self._together([replacement])
            by_node += alone
            for node, more in new.memo.of(then, new.stamp(), lambda: self._one_more(replacement, new)):
                by_node[node] += more - alone
        by_node[here] = 0
        found = np.array(change) if change is unchanged(view.nodes.size) else change
        found[self.tier] += by_node
        return found

    def candidates(self, view: PolicyView) -> Proposals:
        """For each node the pods whose leaving lowers a cost: as many as it takes, then the others as spares."""
        found: list[Batch] = []
        asked = self._scope.nodes(view.nodes)
        for known in tuple(view.cluster.classes):
            if known.pods:
                found.extend(self._misplaced(known, asked, view))
        for crowd in self._crowds(view):
            for node, pods in self._crowded_nodes(crowd):
                if asked[node]:
                    found.extend(self._crowded(pods, view))
        return by_gain(found)

    def _misplaced(self, known: PodClass, asked: BoolArray, view: PolicyView) -> Iterator[Batch]:
        for _, costs in self._alone(known, known.where, view):
            by_cost: dict[int, list[Pod]] = {}
            for i in np.flatnonzero((costs > 0) & asked[known.where]).tolist():
                by_cost.setdefault(int(costs[i]), []).append(known.pods[i])
            for cost, pods in by_cost.items():
                yield self._batch(known, sorted(pods, key=_by_name), cost)

    def _cost_of(self, crowd: _Crowd) -> int:
        """What the pods of a group cost by sharing nodes, kept until one comes or goes."""
        return crowd.memo.of(
            "cost", crowd.stamp(), lambda: sum(map(self._together, crowd.on_nodes().values()))
        )

    def _crowded_nodes(self, crowd: _Crowd) -> list[tuple[int, list[Pod]]]:
        """The nodes that a pod of the group had better leave, with all of the group there."""

        def found() -> list[tuple[int, list[Pod]]]:
            nodes = crowd.on_nodes().items()
            return [(n, pods) for n, pods in nodes if any(self._relief(pod, pods) > 0 for pod in pods)]

        return crowd.memo.of("crowded", crowd.stamp(), found)

    def _crowded(self, pods: list[Pod], view: PolicyView) -> Iterator[Batch]:
        stay = sorted(
            pods, key=lambda p: (not view.movable(p), *reluctance(p), view.disruption(p), _by_name(p))
        )
        for pod in tuple(stay):
            relief = self._relief(pod, pods)
            if relief > 0:
                more = self._relief(pod, stay)
                yield self._batch(view.cluster.kind_of(pod), [pod], max(more, 1), spare=more <= 0)
                if more > 0:
                    stay = [p for p in stay if p is not pod]

    def _relief(self, pod: Pod, beside: Sequence[Pod]) -> int:
        """What the pods of a group on one node cost less once the pod is gone."""
        return self._together(beside) - self._together([p for p in beside if p is not pod])

    def _batch(self, kind: PodClass, pods: list[Pod], cost: int, *, spare: bool = False) -> Batch:
        falls = cost / self._unit
        why = self.reason, self.message
        return Batch.of(self.name, kind, pods, why=why, tier=self.tier, falls=falls, spare=spare)

    @property
    def _unit(self) -> int:
        return 1 if self.tier is Tier.HARD else ONE

    def _whole(self, cost: float, method: str, pod: Pod, node: str = "") -> int:
        """The cost as it is added up. Raises PolicyError: it is no number of pods that a cluster can have."""
        try:
            known = 0 <= cost <= _MOST
        except TypeError:
            known = False
        if not known:
            where = f" on node/{node}" if node else ""
            message = (
                f"{self._asked(method, pod)}{where} is {cost!r}, not a number of pods from 0 to {_MOST:,}"
            )
            raise PolicyError(message)
        return round(cost * self._unit)

    def _failed(self, method: str, pod: Pod, error: BaseException) -> PolicyError:
        """What a method of the subclass raised, with the policy's name and the line."""
        return PolicyError(f"{self._asked(method, pod)} {raised(error)}")

    def _asked(self, method: str, pod: Pod) -> str:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(pod.labels.items())[:_LABELS_TOLD])
        return f"policy {self.name}: {method} of a pod of namespace {pod.namespace} ({labels or 'no labels'})"

    def _alone(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        if type(self).cost is SimplePolicy.cost or not self._scope.proposes(kind):
            return ()

        def costs_everywhere() -> IntArray:
            pod, nodes = _nameless(kind), view.nodes.records
            try:
                costs = [self.cost(pod, node) for node in nodes]
            except FAILURES as error:
                raise self._failed("cost", pod, error) from error
            whole = [
                self._whole(cost, "cost", pod, node.name) for cost, node in zip(costs, nodes, strict=True)
            ]
            return np.array(whole, dtype=np.int64)

        def everywhere() -> IntArray:
            return self._judged(costs_everywhere, np.zeros(view.nodes.size, dtype=np.int64))

        found = kind.memo.of((self, "cost"), view.nodes, everywhere)
        return [(self.tier, found[nodes])]

    def _together(self, pods: Sequence[Pod]) -> int:
        if not pods:
            return 0
        try:
            cost = self.cost_together(pods)
        except FAILURES as error:
            raise self._failed("cost_together", pods[0], error) from error
        return self._whole(cost, "cost_together", pods[0])

    def _judged(self, compute: Callable[[], Found], instead: Found) -> Found:
        """``instead`` if it cannot be had for these pods: those of one tenant must not stop the moves of others."""
        try:
            return compute()
        except PolicyError as error:
            if self.on_failure is None:
                raise
            self.on_failure(error)
            return instead

    def _group(self, kind: PodClass) -> Hashable | None:
        if not self._scope.proposes(kind):
            return None
        pod = _nameless(kind)

        def grouped() -> Hashable | None:
            group = self._group_of(pod)
            if group is not None and self.on_failure is not None:
                self._together(
                    [pod]
                )  # pods whose cost cannot be had would end each decision about their group
            return group

        return self._judged(grouped, None)

    def _group_of(self, pod: Pod) -> Hashable | None:
        try:
            group = self.group(pod)
            hash(group)
        except FAILURES as error:
            raise self._failed("group", pod, error) from error
        return group

    def _one_more(self, replacement: Pod, crowd: _Crowd) -> list[tuple[int, int]]:
        """For each node where pods of the group stand: what they cost more once the replacement stands there, too."""
        nodes = crowd.on_nodes().items()
        return [(node, self._together([*pods, replacement]) - self._together(pods)) for node, pods in nodes]

    def _crowd(self, kind: PodClass, view: PolicyView) -> _Crowd | None:
        """The group of pods of a class."""
        self._crowds(view)
        known: _Crowds = view.cluster.memo.of(self, None, _Crowds)
        return known.of_class.get(kind)

    def _crowds(self, view: PolicyView) -> list[_Crowd]:
        """All groups; classes of pods that are new are looked at."""
        known: _Crowds = view.cluster.memo.of(self, None, _Crowds)
        classes = view.cluster.classes
        for kind in islice(classes, known.seen, None) if known.seen < len(classes) else ():
            group = self._group(kind)
            if group is not None:
                crowd = known.of_class[kind] = known.by_group.setdefault(group, _Crowd())
                crowd.classes.append(kind)
        known.seen = len(classes)
        return list(known.by_group.values())


class _Crowd:
    """The pods of one group."""

    def __init__(self) -> None:
        self.classes: list[PodClass] = []
        self.memo = Memo()

    def stamp(self) -> tuple[object, ...]:
        """Another one once a pod came or went."""
        return standing(self.classes)

    def on_nodes(self) -> dict[int, list[Pod]]:
        """By index of the node, where any stand. Do not change it."""
        return self.memo.of("nodes", self.stamp(), self._on_nodes)

    def _on_nodes(self) -> dict[int, list[Pod]]:
        found: dict[int, list[Pod]] = {}
        for kind in self.classes:
            for pod, node in zip(kind.pods, kind.nodes, strict=True):
                found.setdefault(node, []).append(pod)
        return found


class _Crowds:
    """Those of one policy in one cluster."""

    def __init__(self) -> None:
        self.seen = 0
        """How many classes of pods were looked at."""
        self.by_group: dict[Hashable, _Crowd] = {}
        self.of_class: dict[PodClass, _Crowd] = {}


def _nameless(kind: PodClass) -> Pod:
    """What pods of a class have in common, as a record."""
    return Pod(
        namespace=kind.namespace, name="", uid="", spec=kind.spec, labels=kind.labels, annotations=kind.annotations,
        controller=kind.controller, state=PodState(held=kind.held, deleting=kind.deleting),
    )  # fmt: skip


def _by_name(pod: Pod) -> tuple[str, str]:
    return pod.namespace, pod.name


def raised(error: BaseException) -> str:
    """As "raised KeyError: 'x' (noise.py:7)"."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"raised {type(error).__name__}: {error} ({PurePath(last.filename).name}:{last.lineno})"
