"""A cluster as numbers, for exact models: pods by class, nodes, who may stand where, and what is wrong.

It is derived from a snapshot by the scheduler's own filters: a node allows a class if an empty cluster would take its replacement
there. Besides that, three rules about other pods are known: required anti-affinity of an application to itself on a node, hard spread
of an application over zones, and room (cpu, memory, pods and whatever else nodes offer). Every other rule is left out, and so is what
is on its way (terminating pods, rooms that are held): it could only forbid more, so an optimum of these numbers is a bound of all
plans. ``left_out`` says of how many pods one is left out. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from rescheduler.model.names import HOSTNAME, LABEL_PLACEHOLDER, ZONE
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod, PodAffinityTerm, PodSpec, SpreadConstraint, Toleration
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.utilization import relief
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.amounts import held_amount, incoming_amount
from rescheduler.scheduling.framework import BoolArray, IntArray, Profile
from rescheduler.scheduling.matching import demanded_label
from rescheduler.scheduling.node_resources_fit import checked_requests
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.state import SchedulingState

_ANYTHING: Final = Toleration(operator="Exists")
_CORDON: Final = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")
_EVERY_NODE: Final = slice(None)
_PLENTY: Final = 2**50
"""What a node is taken to hold of a resource that it does not offer: a device may stand behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Whose violations count; which places are possible does not depend on it."""

    affinity: bool = True
    """Node selectors and required node affinity."""
    taints: bool = True
    apart: bool = True
    """Required anti-affinity of an application to itself on a node."""
    spread: bool = True
    """Hard topology spread over zones."""

    @property
    def none(self) -> bool:
        """True if nothing counts."""
        return not (self.affinity or self.taints or self.apart or self.spread)


EVERY_RULE: Final = Rules()


WITH_DEFAULTS: Final = {"cpu": "cpu with defaults", "memory": "memory with defaults"}
"""By resource, the name of what policies count of it: containers without a request with kube-scheduler's defaults."""
_PLAIN: Final = {name: resource for resource, name in WITH_DEFAULTS.items()}


def resource_of(name: str) -> str:
    """The resource that an amount of the model is of."""
    return _PLAIN.get(name, name)


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods that no rule tells apart."""

    request: tuple[int, ...]
    """What a replacement asks for, in the order of ``CountedCluster.resources``."""
    held: tuple[int, ...]
    """What a pod that stands holds."""
    apart: str
    """The application of which at most one pod stands on a node; empty without such a rule."""
    max_skew: int
    """Of a hard spread over zones; 0: none."""
    group: str
    """The application that is spread; its pods are all of this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCluster:
    """Kinds of pods, nodes, and how many of each kind stand on each node."""

    resources: tuple[str, ...]
    nodes: tuple[str, ...]
    zones: IntArray
    """Number of each node's zone."""
    capacity: IntArray
    """(nodes, resources)"""
    fixed: IntArray
    """(nodes, resources): what pods take that stay."""
    occupied: BoolArray
    """Nodes in use: with a pod that does not belong to its node."""
    kept: BoolArray
    """Nodes with such a pod that stays, whatever is planned."""
    kinds: tuple[PodKind, ...]
    requests: IntArray
    """(kinds, resources)"""
    held: IntArray
    """(kinds, resources)"""
    allowed: BoolArray
    """(kinds, nodes): who may come where."""
    wrong: BoolArray
    """(kinds, nodes): who breaks a rule by standing where."""
    start: IntArray
    """(kinds, nodes)"""
    unlimited: frozenset[str] = frozenset()
    """Resources of which a node may hold more than its capacity: a policy counts them, no rule does."""
    left_out: int = 0
    """Pods with a rule about other pods that the numbers do not tell of."""

    def load(self, counts: IntArray) -> IntArray:
        """(nodes, resources) of counts (kinds, nodes) of pods that stand."""
        return self.fixed + counts.T @ self.held

    def violations(self, counts: IntArray) -> int:
        """Pods where they may not stand, those too many on a node, those too many in a zone."""
        found = int(counts[self.wrong].sum())
        apart: defaultdict[str, list[int]] = defaultdict(list)
        for number, kind in enumerate(self.kinds):
            if kind.apart:
                apart[kind.apart].append(number)
            if kind.max_skew:
                zones = np.bincount(self.zones, weights=counts[number]).astype(np.int64)
                found += int(np.maximum(zones - zones.min() - kind.max_skew, 0).sum())
        for members in apart.values():
            found += int(np.maximum(counts[members].sum(axis=0) - 1, 0).sum())
        return found

    def used(self, counts: IntArray) -> BoolArray:
        """Nodes with at least one pod that may move or that stays."""
        found: BoolArray = (counts.sum(axis=0) > 0) | self.kept
        return found

    def in_use(self, counts: IntArray) -> int:
        """How many these are."""
        return int(self.used(counts).sum())

    def excess(
        self, counts: IntArray, high: Mapping[str, float], judged: BoolArray | slice = _EVERY_NODE
    ) -> float:
        """Sum over judged nodes and resources of how bad the share above the threshold (percent) is, by LowNodeUtilization's objective."""
        load = self.load(counts)
        total = 0.0
        for resource, percent in high.items():
            at = self.resources.index(resource)
            size = np.where(self.capacity[:, at] > 0, self.capacity[:, at], np.inf)
            above = np.maximum(load[:, at] / size - percent / 100, 0.0)[judged]
            total += float(relief(resource_of(resource), above, above).sum())
        return total


_Crowds = Mapping[tuple[str, tuple[str, str] | None], list[Pod]]


class Places:
    """Counts pods of snapshots that show the same cluster at different times."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        movable: Callable[[Pod], bool] | None = None,
        gone: AbstractSet[str] = frozenset(),
        rules: Rules = EVERY_RULE,
        profile: Profile | None = None,
        defaulted: Collection[str] = (),
    ) -> None:
        """``movable``: which pods may be moved; all that something brings back if it is None. ``gone``: uids of pods that are taken as gone.

        ``defaulted``: resources of ``WITH_DEFAULTS`` that are counted so, too.
        """
        self._numbers: dict[str, int] = {}
        """Kind of each pod, by uid."""
        self._snapshot = snapshot
        self._replacements = Replacements(snapshot)
        self._movable = movable or (lambda pod: self._replacements.of(pod).pod is not None)
        self._profile = profile or Profile()
        self._rules = rules
        self._nodes = tuple(snapshot.nodes)
        self._index = {name: i for i, name in enumerate(self._nodes)}
        scalars = sorted({n for node in snapshot.nodes.values() for n, _ in node.allocatable.scalars})
        self._requested = ("cpu", "memory", "pods", "ephemeral-storage", *scalars)
        self._defaulted = tuple(r for r in WITH_DEFAULTS if r in defaulted)
        self._resources = (*self._requested, *(WITH_DEFAULTS[r] for r in self._defaulted))
        self._empty = SchedulingState(replace(snapshot, pods={}), profile)
        self.placement = self._derive(gone)

    @property
    def nodes(self) -> NodeTable:
        """The nodes, in the order of the numbers."""
        return self._empty.cluster.nodes

    def number(self, pod: Pod) -> int | None:
        """The kind of a pod; None for one that stays."""
        return self._numbers.get(pod.uid)

    def counts(self, snapshot: Snapshot) -> IntArray:
        """(kinds, nodes) of the pods of a later snapshot, which have the same uids."""
        return self.counts_at({pod.uid: pod.node for pod in snapshot.pods.values()})

    def counts_at(self, nodes: Mapping[str, str]) -> IntArray:
        """The same with the node of each uid."""
        found = np.zeros_like(self.placement.start)
        for uid, node in nodes.items():
            if uid in self._numbers:
                found[self._numbers[uid], self._index[node]] += 1
        return found

    def _derive(self, gone: AbstractSet[str]) -> CountedCluster:
        size = len(self._nodes)
        records = tuple(self._snapshot.nodes.values())
        capacity = np.array([self._offered(node.allocatable) for node in records], np.int64).reshape(size, -1)
        fixed = np.zeros_like(capacity)
        occupied, kept = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        known: dict[object, int] = {}
        alike: dict[object, tuple[int, bool]] = {}
        alive: list[Pod] = []  # keys hold identities: their objects must live as long
        left_out = 0
        found: list[tuple[PodKind, BoolArray, BoolArray]] = []
        places: list[tuple[int, int]] = []
        crowds = self._crowds()
        for pod in self._snapshot.pods.values():
            at = self._index.get(pod.node)
            if at is None or pod.terminal or pod.labels.get(LABEL_PLACEHOLDER) is not None:
                continue
            own = belongs_to_node(pod)
            occupied[at] |= not own
            if pod.deleting or pod.uid in gone:
                continue
            if own or not self._movable(pod):
                fixed[at] += self._held(pod)
                kept[at] |= not own
                continue
            new = self._replacements.of(pod).pod
            if new is None:
                raise ValueError(f"{pod.name}: nothing would bring it back")
            key = (
                *(
                    id(pod.spec),
                    id(new.spec),
                    pod.namespace,
                    pod.labels,
                    new.labels,
                    pod.controller,
                    pod.held,
                ),
                *(held_amount(pod, r, defaults=True) for r in self._defaulted),
            )
            if key not in alike:
                kind, others = self._kind(pod, new, crowds, gone)
                allowed, wrong = self._allowed(new), self._wrong(pod.spec, new)
                name = (kind, allowed.tobytes(), wrong.tobytes())
                if name not in known:
                    known[name] = len(found)
                    found.append((kind, allowed, wrong))
                alike[key] = known[name], others
                alive.append(new)
            number, others = alike[key]
            left_out += others
            self._numbers[pod.uid] = number
            places.append((number, at))
        start = np.zeros((len(found), size), dtype=np.int64)
        for number, node in places:
            start[number, node] += 1
        zones: defaultdict[str, int] = defaultdict(lambda: len(zones))
        shape = len(found), len(self._resources)
        return CountedCluster(
            resources=self._resources,
            nodes=self._nodes,
            zones=np.array([zones[n.labels.get(ZONE) or ""] for n in records], dtype=np.int64),
            capacity=capacity,
            fixed=fixed,
            occupied=occupied,
            kept=kept,
            kinds=tuple(kind for kind, _, _ in found),
            requests=np.array([kind.request for kind, _, _ in found], dtype=np.int64).reshape(shape),
            held=np.array([kind.held for kind, _, _ in found], dtype=np.int64).reshape(shape),
            allowed=np.array([allowed for _, allowed, _ in found], dtype=np.bool_).reshape(len(found), size),
            wrong=np.array([wrong for _, _, wrong in found], dtype=np.bool_).reshape(len(found), size),
            start=start,
            unlimited=frozenset(WITH_DEFAULTS.values()),
            left_out=left_out,
        )

    def _allowed(self, new: Pod) -> BoolArray:
        """Nodes that take it in an empty cluster; whom it must stand beside is left out."""
        alone = msgspec.structs.replace(new, node="", spec=msgspec.structs.replace(new.spec, pod_affinity=()))
        found: BoolArray = self._empty.feasible(alone) & self._empty.cluster.nodes.usable
        return found

    def _wrong(self, spec: PodSpec, new: Pod) -> BoolArray:
        """Nodes that its own node affinity, or their taints, forbid."""
        rules = self._rules
        found: BoolArray = ~self._fits(
            new,
            PodSpec(
                node_selector=spec.node_selector if rules.affinity else (),
                node_affinity=spec.node_affinity if rules.affinity else None,
                tolerations=(*spec.tolerations, _CORDON) if rules.taints else (_ANYTHING,),
            ),
        )
        return found

    def _fits(self, pod: Pod, spec: PodSpec) -> BoolArray:
        return self._empty.feasible(msgspec.structs.replace(pod, node="", spec=spec)).copy()

    def _kind(self, pod: Pod, new: Pod, crowds: _Crowds, gone: AbstractSet[str]) -> tuple[PodKind, bool]:
        """The kind of a pod; and whether a rule of it is left out."""
        spec = new.spec
        others = bool(spec.pod_affinity or spec.host_ports or spec.resource_claims)
        apart, skew, group = "", 0, ""
        for term in spec.pod_anti_affinity:
            if self._rules.apart and _about_itself(term, new) and self._own_hostnames:
                apart = f"{pod.namespace}/{term.selector!r}"
            else:
                others = True
        for constraint in spec.spread:
            if not constraint.hard:
                continue
            if self._rules.spread and not skew and self._simple(constraint, pod, new, crowds, gone):
                skew, group = constraint.max_skew, f"{pod.namespace}/{constraint.selector!r}"
            else:
                others = True
        asked = [incoming_amount(spec, r, defaults=True) for r in self._defaulted]
        request = self._amounts(spec.requests, asked)
        return PodKind(tuple(request.tolist()), tuple(self._held(pod).tolist()), apart, skew, group), others

    def _simple(
        self,
        constraint: SpreadConstraint,
        pod: Pod,
        new: Pod,
        crowds: _Crowds,
        gone: AbstractSet[str],
    ) -> bool:
        """True if the numbers tell the constraint exactly: every zone counts, and so does no pod of another kind."""
        selector = constraint.selector
        if (
            constraint.topology_key != ZONE
            or selector is None
            or selector.empty
            or not selector.matches(new.labels)
            or constraint.min_domains > 1
            or constraint.match_label_keys
            or (constraint.node_taints_honor and any(node.taints for node in self._snapshot.nodes.values()))
            or not self._all_in_zones
        ):
            return False
        spec = new.spec
        if constraint.node_affinity_honor and (spec.node_selector or spec.node_affinity is not None):
            return False
        # Pods that are told apart by anything that counts would be kinds of their own, each with its own counts.
        return all(
            other.spec is pod.spec and other.controller == pod.controller and other.held == pod.held
            and all(held_amount(other, r, defaults=True) == held_amount(pod, r, defaults=True) for r in self._defaulted)
            and not other.deleting and other.uid not in gone and self._movable(other)
            for other in crowds[pod.namespace, demanded_label(selector)]
            if selector.matches(other.labels)
        )  # fmt: skip

    def _crowds(self) -> _Crowds:
        """The pods that stand, by namespace and each of their labels, and all of a namespace."""
        found: defaultdict[tuple[str, tuple[str, str] | None], list[Pod]] = defaultdict(list)
        for pod in self._snapshot.pods.values():
            if not pod.terminal:
                for label in (None, *pod.labels.items()):
                    found[pod.namespace, label].append(pod)
        return found

    @cached_property
    def _all_in_zones(self) -> bool:
        return all(ZONE in node.labels for node in self._snapshot.nodes.values())

    @cached_property
    def _own_hostnames(self) -> bool:
        names = [node.labels.get(HOSTNAME) for node in self._snapshot.nodes.values()]
        return None not in names and len(set(names)) == len(names)

    def _offered(self, allocatable: Resources) -> list[int]:
        named = {"cpu", "memory", "pods"}
        counted = [allocatable.amount(r) for r in self._defaulted]
        return [allocatable.amount(r) or (0 if r in named else _PLENTY) for r in self._requested] + counted

    def _held(self, pod: Pod) -> IntArray:
        return self._amounts(pod.held, [held_amount(pod, r, defaults=True) for r in self._defaulted])

    def _amounts(self, amounts: Resources, counted: Sequence[int]) -> IntArray:
        """What the scheduler counts of them, a place among the node's pods included; and what is counted with defaults."""
        checked = dict(checked_requests(amounts, self._profile))
        checked["pods"] = 1
        return np.array([*(checked.get(r, 0) for r in self._requested), *counted], dtype=np.int64)


def _about_itself(term: PodAffinityTerm, pod: Pod) -> bool:
    """True for anti-affinity to pods like itself, on a node."""
    return (
        term.topology_key == HOSTNAME
        and not term.namespaces
        and term.namespace_selector is None
        and term.selector is not None
        and term.selector.matches(pod.labels)
    )
