"""Pods by class and by selector: where those stand that a constraint counts.

Pods with the same namespace, spec and labels are one class, so a selector is judged once per class. The
index follows planned moves (``shift``) and takes them back (``unshift``). It holds every pod that is bound
to a known node and not finished; terminating ones are kept apart, since topology spread ignores them and
pod (anti-)affinity does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod, PodAffinityTerm, PodPhase, PodSpec
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.amounts import amount
from rescheduler.scheduling.framework import IntArray


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods that constraints cannot tell apart. ``nodes[i]`` is the node index of ``pods[i]``."""

    namespace: str
    spec: PodSpec
    labels: LabelSet
    deleting: bool
    pods: list[Pod] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)


class Shift(NamedTuple):
    """One planned move: the old pod leaves ``source``, its replacement stands on ``target`` (node indices)."""

    pod: Pod
    replacement: Pod
    source: int
    target: int


class AntiTerm(NamedTuple):
    """A required anti-affinity term with its namespaces resolved (None: all)."""

    term: PodAffinityTerm
    namespaces: tuple[str, ...] | None


def matches(anti: AntiTerm, pod: Pod) -> bool:
    """True if the term matches the pod."""
    inside = anti.namespaces is None or pod.namespace in anti.namespaces
    return inside and anti.term.selector is not None and anti.term.selector.matches(pod.labels)


_ClassKey = tuple[str, int, int, bool]
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_SelectorKey = tuple[tuple[str, ...] | None, LabelSelector]
_CountKey = tuple[_SelectorKey, bool]


class PodIndex:
    """Where pods stand now, planned moves included."""

    def __init__(self, snapshot: Snapshot, node_index: Mapping[str, int]) -> None:
        self.shifts: list[Shift] = []
        """Planned moves so far, oldest first."""
        self._snapshot = snapshot
        self._size = len(node_index)
        self._classes: dict[_ClassKey, PodClass] = {}
        self._matching: dict[_SelectorKey, list[PodClass]] = {}
        self._counts: dict[_CountKey, IntArray] = {}
        self._counted_in: defaultdict[str | None, list[_CountKey]] = defaultdict(list)
        self._owner_counts: dict[AntiTerm, IntArray] = {}
        self._arrived: dict[str, IntArray] = {}
        self._departed: dict[str, IntArray] = {}
        self._namespaces: dict[PodAffinityTerm, tuple[str, ...] | None] = {}
        self._fill(snapshot.pods.values(), node_index)
        self._by_namespace: defaultdict[str, list[PodClass]] = defaultdict(list)
        self._by_label: defaultdict[tuple[str, str, str], list[PodClass]] = defaultdict(list)
        self._owners: dict[AntiTerm, list[PodClass]] = {}
        self._terms_by_label: defaultdict[tuple[str, str], list[AntiTerm]] = defaultdict(list)
        self._terms_elsewhere: list[AntiTerm] = []
        for known in self._classes.values():
            self._register(known)

    @property
    def classes(self) -> Iterable[PodClass]:
        """All classes."""
        return self._classes.values()

    @property
    def anti_terms(self) -> Mapping[AntiTerm, list[PodClass]]:
        """Every distinct required anti-affinity term, with the classes that have it."""
        return self._owners

    def matching(self, namespaces: tuple[str, ...] | None, selector: LabelSelector | None) -> list[PodClass]:
        """Classes in these namespaces (None: all) that the selector matches; a nil selector matches none."""
        if selector is None or selector.invalid:
            return []
        key = (namespaces, selector)
        found = self._matching.get(key)
        if found is None:
            found = [c for c in self._near(namespaces, selector) if selector.matches(c.labels)]
            self._matching[key] = found
        return found

    def counts(
        self, namespaces: tuple[str, ...] | None, selector: LabelSelector, *, deleting: bool
    ) -> IntArray:
        """Matching pods on each node; ``deleting``: count terminating ones too. Do not change the array."""
        key = ((namespaces, selector), deleting)
        array = self._counts.get(key)
        if array is None:
            array = self._sum(c for c in self.matching(namespaces, selector) if deleting or not c.deleting)
            self._counts[key] = array
            for space in (None,) if namespaces is None else namespaces:
                self._counted_in[space].append(key)
        return array

    def owner_counts(self, term: AntiTerm) -> IntArray:
        """Pods on each node that have this anti-affinity term. Do not change the array."""
        array = self._owner_counts.get(term)
        if array is None:
            array = self._sum(self._owners.get(term, ()))
            self._owner_counts[term] = array
        return array

    def resolve(self, term: PodAffinityTerm, own_namespace: str) -> AntiTerm:
        """The term with the namespaces that it looks at."""
        if not term.namespaces and term.namespace_selector is None:
            return AntiTerm(term, (own_namespace,))
        if term not in self._namespaces:
            self._namespaces[term] = self._select_namespaces(term)
        return AntiTerm(term, self._namespaces[term])

    def terms_against(self, pod: Pod) -> tuple[AntiTerm, ...]:
        """Anti-affinity terms, of whatever pod, that match this pod."""
        near = [self._terms_by_label.get(item, ()) for item in pod.labels.items()]
        return tuple(
            anti
            for group in (*near, self._terms_elsewhere)
            for anti in group
            if (anti.namespaces is None or pod.namespace in anti.namespaces)
            and anti.term.selector is not None
            and anti.term.selector.matches(pod.labels)
        )

    def enter(self, pod: Pod, node: int) -> None:
        """Count a pod that is expected on a node: a pending one, or the replacement of a move under way."""
        self._put(pod, node)

    def leave(self, pod: Pod, node: int) -> None:
        """Take a pod out that is expected to go."""
        self._take(pod, node)

    def shift(self, pod: Pod, replacement: Pod, source: int, target: int) -> None:
        """Plan a move."""
        self.shifts.append(Shift(pod, replacement, source, target))
        self._carry(self.shifts[-1], 1)
        self._take(pod, source)
        self._put(replacement, target)

    def unshift(self) -> None:
        """Take the last planned move back."""
        last = self.shifts.pop()
        self._carry(last, -1)
        self._take(last.replacement, last.target)
        self._put(last.pod, last.source)

    def arrived(self, resource: str) -> IntArray:
        """What the planned moves brought to each node. Do not change the array."""
        if resource not in self._arrived:
            self._arrived[resource] = self._moved(resource, arriving=True)
        return self._arrived[resource]

    def departed(self, resource: str) -> IntArray:
        """What the planned moves take from each node. Do not change the array."""
        if resource not in self._departed:
            self._departed[resource] = self._moved(resource, arriving=False)
        return self._departed[resource]

    def _moved(self, resource: str, *, arriving: bool) -> IntArray:
        total = np.zeros(self._size, dtype=np.int64)
        for shift in self.shifts:
            if arriving:
                total[shift.target] += amount(shift.replacement.held, resource)
            else:
                total[shift.source] += amount(shift.pod.held, resource)
        return total

    def _carry(self, shift: Shift, step: int) -> None:
        for resource, total in self._arrived.items():
            total[shift.target] += step * amount(shift.replacement.held, resource)
        for resource, total in self._departed.items():
            total[shift.source] += step * amount(shift.pod.held, resource)

    def _fill(self, pods: Iterable[Pod], node_index: Mapping[str, int]) -> None:
        classes = self._classes
        for pod in pods:
            node = node_index.get(pod.node) if pod.node else None
            if node is None or pod.phase in _ENDED:
                continue
            key = (pod.namespace, id(pod.spec), id(pod.labels), pod.deleting)
            known = classes.get(key)
            if known is None:
                known = classes[key] = PodClass(pod.namespace, pod.spec, pod.labels, pod.deleting)
            known.pods.append(pod)
            known.nodes.append(node)

    def _register(self, new: PodClass) -> None:
        self._by_namespace[new.namespace].append(new)
        for key, value in new.labels.items():
            self._by_label[new.namespace, key, value].append(new)
        for term in new.spec.pod_anti_affinity:
            anti = self.resolve(term, new.namespace)
            if anti not in self._owners:
                self._owners[anti] = []
                self._file(anti)
            self._owners[anti].append(new)

    def _file(self, anti: AntiTerm) -> None:
        selector = anti.term.selector
        if selector is None:
            return
        by_label = next((r for r in selector.requirements if r.operator is Operator.IN), None)
        if by_label is None:
            self._terms_elsewhere.append(anti)
        else:
            for value in by_label.values:
                self._terms_by_label[by_label.key, value].append(anti)

    def _near(self, namespaces: tuple[str, ...] | None, selector: LabelSelector) -> Iterable[PodClass]:
        """Classes that may match: by the label that an In requirement names, where there is one."""
        spaces = tuple(self._by_namespace) if namespaces is None else namespaces
        by_label = next((r for r in selector.requirements if r.operator is Operator.IN), None)
        for space in spaces:
            if by_label is None:
                yield from self._by_namespace.get(space, ())
            else:
                for value in by_label.values:
                    yield from self._by_label.get((space, by_label.key, value), ())

    def _select_namespaces(self, term: PodAffinityTerm) -> tuple[str, ...] | None:
        selector = term.namespace_selector
        if selector is not None and selector.empty:
            return None
        chosen = set(term.namespaces)
        if selector is not None:
            chosen |= {n.name for n in self._snapshot.namespaces.values() if selector.matches(n.labels)}
        return tuple(sorted(chosen))

    def _sum(self, classes: Iterable[PodClass]) -> IntArray:
        total = np.zeros(self._size, dtype=np.int64)
        for known in classes:
            if known.nodes:
                np.add.at(total, known.nodes, 1)
        return total

    def _take(self, pod: Pod, node: int) -> None:
        known = self._classes[pod.namespace, id(pod.spec), id(pod.labels), pod.deleting]
        at = next(i for i, other in enumerate(known.pods) if other is pod)
        del known.pods[at]
        del known.nodes[at]
        self._recount(known, node, -1)

    def _put(self, pod: Pod, node: int) -> None:
        key = (pod.namespace, id(pod.spec), id(pod.labels), pod.deleting)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = PodClass(pod.namespace, pod.spec, pod.labels, pod.deleting)
            self._register(known)
            for (namespaces, selector), classes in self._matching.items():
                inside = namespaces is None or pod.namespace in namespaces
                if inside and selector.matches(pod.labels):
                    classes.append(known)
        known.pods.append(pod)
        known.nodes.append(node)
        self._recount(known, node, 1)

    def _recount(self, known: PodClass, node: int, step: int) -> None:
        for space in (known.namespace, None):
            for key in self._counted_in.get(space, ()):
                (_, selector), with_deleting = key
                if (with_deleting or not known.deleting) and selector.matches(known.labels):
                    self._counts[key][node] += step
        for term in known.spec.pod_anti_affinity:
            owners = self._owner_counts.get(self.resolve(term, known.namespace))
            if owners is not None:
                owners[node] += step
