"""Pods by class and by selector: where those stand that a constraint counts.

Pods that are alike are one class, so a selector is judged once per class. The index follows planned moves (``shift``) and takes them back (``unshift``), and it follows snapshots of the
same nodes and namespaces (``follow``). It holds every pod that is bound to a known node and not finished;
terminating ones are kept apart, since topology spread ignores them and pod (anti-)affinity does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from rescheduler.model.records import ObjectKey, Pod, PodAffinityTerm, PodPhase
from rescheduler.model.selectors import LabelSelector, Operator
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.amounts import amount
from rescheduler.policies.classes import ClassKey, PodClass, class_key
from rescheduler.policies.columns import Columns
from rescheduler.policies.filing import Filed
from rescheduler.scheduling.framework import IntArray


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


class _Step(NamedTuple):
    """A pod came to a node, or went."""

    came: bool
    pod: Pod
    node: int


_MANY_CLASSES: Final = 2000
_SelectorKey = tuple[tuple[str, ...] | None, LabelSelector]


class PodIndex:
    """Where pods stand now, planned moves included."""

    def __init__(self, snapshot: Snapshot, node_index: Mapping[str, int]) -> None:
        self.shifts: list[Shift] = []
        """Planned moves so far, oldest first."""
        self.loose: dict[ObjectKey, Pod] = {}
        """Pods that are not finished and on no known node."""
        self.fixed: IntArray = np.zeros(len(node_index), dtype=np.int64)
        """Pods on each node that no policy ever proposes; planned moves never touch them."""
        self.moment = 0
        """Rises with everything that is planned, expected or taken back."""
        self.memo: dict[object, Any] = {}
        """What policies found out about these pods; each keeps beside it what it depends on."""
        self._snapshot = snapshot
        self._node_index = node_index
        self._size = len(node_index)
        self._classes: dict[ClassKey, PodClass] = {}
        self._matching: dict[_SelectorKey, list[PodClass]] = {}
        self._selectors: Filed[_SelectorKey] = Filed()
        self._arrived: dict[str, IntArray] = {}
        self._departed: dict[str, IntArray] = {}
        self._namespaces: dict[PodAffinityTerm, tuple[str, ...] | None] = {}
        self._by_namespace: defaultdict[str, list[PodClass]] = defaultdict(list)
        self._by_label: defaultdict[tuple[str, str, str], list[PodClass]] = defaultdict(list)
        self._owners: dict[AntiTerm, list[PodClass]] = {}
        self._terms: Filed[AntiTerm] = Filed()
        self._columns: Columns | None = None
        self._journal: list[_Step] = []
        self._guests: list[ClassKey] = []
        self._fill(snapshot.pods.values())
        for known in self._classes.values():
            self._register(known)

    def follow(self, snapshot: Snapshot, gone: Iterable[Pod], come: Iterable[Pod]) -> None:
        """Take over a newer snapshot of the same nodes and namespaces; planned moves are taken back first.

        ``gone``, ``come``: records that no longer hold, and those that hold now.
        """
        self.restart()
        self._snapshot = snapshot
        self._columns = None
        for pod in gone:
            self._forget(pod)
        for pod in come:
            self._learn(pod)

    def restart(self) -> None:
        """Take everything back that was planned or expected."""
        self.shifts.clear()
        while self._journal:
            self._undo()
        while self._guests:
            self._unregister(self._classes.pop(self._guests.pop()))
        self._arrived.clear()
        self._departed.clear()
        self._columns = None

    @property
    def overgrown(self) -> bool:
        """True if most classes have no pods any more and only cost memory."""
        if len(self._classes) < _MANY_CLASSES:
            return False
        return sum(bool(known.pods) for known in self._classes.values()) * 2 < len(self._classes)

    @property
    def classes(self) -> Iterable[PodClass]:
        """All classes."""
        return self._classes.values()

    @property
    def columns(self) -> Columns:
        """All pods as columns, as they stand now."""
        if self._columns is None:
            self._columns = Columns.of([known for known in self._classes.values() if known.pods])
        return self._columns

    def class_of(self, pod: Pod) -> PodClass | None:
        """The class of pods like this one, if there is or was one."""
        return self._classes.get(class_key(pod))

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
            self._selectors.file(selector, key)
        return found

    def resolve(self, term: PodAffinityTerm, own_namespace: str) -> AntiTerm:
        """The term with the namespaces that it looks at."""
        if not term.namespaces and term.namespace_selector is None:
            return AntiTerm(term, (own_namespace,))
        if term not in self._namespaces:
            self._namespaces[term] = self._select_namespaces(term)
        return AntiTerm(term, self._namespaces[term])

    def terms_against(self, pod: Pod) -> tuple[AntiTerm, ...]:
        """Anti-affinity terms, of whatever pod, that match this pod."""
        return tuple(
            anti
            for anti in self._terms.near(pod.labels)
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
        self._undo()
        self._undo()

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

    def _fill(self, pods: Iterable[Pod]) -> None:
        classes, node_index, loose = self._classes, self._node_index, self.loose
        succeeded, failed = PodPhase.SUCCEEDED, PodPhase.FAILED
        before: Pod | None = None
        for pod in pods:
            phase = pod.phase
            if phase is succeeded or phase is failed:
                continue
            node = node_index.get(pod.node)
            if node is None:
                loose[pod.key] = pod
                continue
            # Pods of one owner mostly follow each other, and comparing is cheaper than looking up.
            if before is None or not (
                pod.spec is before.spec
                and pod.labels is before.labels
                and pod.held is before.held
                and pod.controller is before.controller
                and pod.annotations is before.annotations
                and pod.deleting is before.deleting
                and pod.namespace == before.namespace
            ):
                before = pod
                key = class_key(pod)
                known = classes.get(key)
                if known is None:
                    known = classes[key] = PodClass(pod)
                put_pod, put_node = known.pods.append, known.nodes.append
            put_pod(pod)
            put_node(node)
        fixed = [known.nodes for known in classes.values() if known.fixed]
        np.add.at(self.fixed, list(chain.from_iterable(fixed)), 1)

    def _learn(self, pod: Pod) -> None:
        if pod.terminal:
            return
        node = self._node_index.get(pod.node)
        if node is None:
            self.loose[pod.key] = pod
            return
        known = self.class_of(pod) or self._new_class(pod)
        known.add(pod, node)
        if known.fixed:
            self.fixed[node] += 1

    def _forget(self, pod: Pod) -> None:
        if pod.terminal:
            return
        node = self._node_index.get(pod.node)
        if node is None:
            if self.loose.get(pod.key) is pod:
                del self.loose[pod.key]
            return
        known = self._classes[class_key(pod)]
        known.remove(pod)
        if known.fixed:
            self.fixed[node] -= 1

    def _new_class(self, pod: Pod) -> PodClass:
        known = self._classes[class_key(pod)] = PodClass(pod)
        self._register(known)
        for asked in self._asked_about(known):
            self._matching[asked].append(known)
        return known

    def _asked_about(self, known: PodClass) -> Iterable[_SelectorKey]:
        """What was asked of ``matching`` so far and includes this class."""
        for asked in self._selectors.near(known.labels):
            namespaces, selector = asked
            if (namespaces is None or known.namespace in namespaces) and selector.matches(known.labels):
                yield asked

    def _register(self, new: PodClass) -> None:
        self._by_namespace[new.namespace].append(new)
        for key, value in new.labels.items():
            self._by_label[new.namespace, key, value].append(new)
        for term in new.spec.pod_anti_affinity:
            anti = self.resolve(term, new.namespace)
            if anti not in self._owners:
                self._owners[anti] = []
                self._terms.file(anti.term.selector, anti)
            self._owners[anti].append(new)

    def _unregister(self, last: PodClass) -> None:
        """Undo the last ``_register``."""
        self._by_namespace[last.namespace].pop()
        for key, value in last.labels.items():
            self._by_label[last.namespace, key, value].pop()
        for term in last.spec.pod_anti_affinity:
            self._owners[self.resolve(term, last.namespace)].pop()
        for asked in self._asked_about(last):
            self._matching[asked].remove(last)

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

    def _undo(self) -> None:
        """Take the last pod back that was put or taken."""
        came, pod, node = self._journal.pop()
        known = self._classes[class_key(pod)]
        self._columns = None
        self.moment += 1
        if came:
            known.expected -= 1
            known.remove(pod)
        else:
            known.add(pod, node)

    def _take(self, pod: Pod, node: int) -> None:
        self._classes[class_key(pod)].remove(pod)
        self._columns = None
        self.moment += 1
        self._journal.append(_Step(came=False, pod=pod, node=node))

    def _put(self, pod: Pod, node: int) -> None:
        known = self.class_of(pod)
        if known is None:
            known = self._new_class(pod)
            self._guests.append(class_key(pod))
        known.add(pod, node)
        known.expected += 1
        self._columns = None
        self.moment += 1
        self._journal.append(_Step(came=True, pod=pod, node=node))
