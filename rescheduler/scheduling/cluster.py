"""What filters, scores and policies look at: nodes, pods on them by class, and every aggregate.

Adding or removing one pod touches its class, its node's numbers and the counts that it takes part in, nothing
else. Counts that were not asked for yet do not exist; the first question makes them from the pod classes.
Only ``SchedulingState`` changes pods here; everything else reads, and asks for groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.records import Namespace, Node, ObjectKey, Pod, PodAffinityTerm, Service, Workload
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.storage_records import PersistentVolume
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.classes import (
    Ask,
    ClassKey,
    GroupKey,
    PodClass,
    PodGroup,
    TermCount,
    TermKey,
    TermKind,
    class_key,
)
from rescheduler.scheduling.framework import IntArray, Profile
from rescheduler.scheduling.matching import Matcher, MatcherIndex, PodIndex, matcher_of, parsed
from rescheduler.scheduling.memo import Memo
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.occupancy import Occupancy

_MANY_CLASSES: Final = 2000
_RECENT: Final = 64


class Change(NamedTuple):
    """A pod came to a node or left it, and what it takes to undo just that."""

    came: bool
    pod: Pod
    node: int
    kind: PodClass
    hypothetical: bool
    """It came by a trial move."""
    at: int
    """The position in its class that it had."""
    class_version: int
    """The version of its class before."""
    version: int
    """The version of the cluster before."""


class Cluster:
    """The aggregates over one set of nodes. Changes of nodes' labels need a new one."""

    def __init__(self, snapshot: Snapshot, profile: Profile, nodes: Sequence[Node]) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self.nodes = NodeTable(nodes)
        self.occupancy = Occupancy(self.nodes)
        self.volume_epoch = 0
        """Rises when a claim, volume, class, driver or capacity changed."""
        self.selector_epoch = 0
        """Rises when a Service or a workload's selector changed."""
        self.terms_version = 0
        """Rises when a term is carried for the first time."""
        self.version = 0
        """Another number after every pod that comes or goes; undoing that brings the old number back."""
        self.memo = Memo()
        """What policies found out about the pods as a whole."""
        self._last_version = 0
        self._services: dict[str, list[Service]] | None = None
        self._volumes: dict[str, list[PersistentVolume]] | None = None
        self._workloads: dict[tuple[str, str, str], Workload] | None = None
        self._classes: dict[ClassKey, PodClass] = {}
        self._rooms: list[PodClass] = []
        """Those of empty rooms."""
        self._recent: dict[int, tuple[Pod, PodClass]] = {}
        """The classes of the last pods by identity: about a move a dozen questions are asked, and a class is costly to find."""
        self._class_index: PodIndex[PodClass] = PodIndex()
        self._groups: dict[GroupKey, PodGroup] = {}
        self._group_index: MatcherIndex[PodGroup] = MatcherIndex()
        self._terms: dict[TermKey, TermCount] = {}
        self._term_index: MatcherIndex[TermCount] = MatcherIndex()

    def ask(self, pod: Pod) -> Ask:
        """The pod as a question."""
        return Ask(pod, self.kind_of(pod))

    def kind_of(self, pod: Pod) -> PodClass:
        """The class of a pod, made at its first sight."""
        recent = self._recent.get(id(pod))
        if recent is not None and recent[0] is pod:
            return recent[1]
        key = class_key(pod)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = PodClass(key, pod)
            self._register(known)
        if len(self._recent) >= _RECENT:
            self._recent.clear()
        self._recent[id(pod)] = pod, known
        return known

    @property
    def classes(self) -> Collection[PodClass]:
        """All classes, also those without pods now (asked about, or left behind)."""
        return self._classes.values()

    @property
    def carried_terms(self) -> Iterable[TermCount]:
        """All (anti-)affinity terms that some class carries."""
        return self._terms.values()

    def fill(self, pods: Sequence[Pod], nodes: Sequence[int]) -> None:
        """Add many pods at once to empty aggregates; ``nodes``: on which node (index) each stands."""
        before: Pod | None = None
        like: list[Pod] = []
        lengths: list[int] = []
        for pod, node in zip(pods, nodes, strict=True):
            # Pods of one owner mostly follow each other and share the parts of their records, and comparing identities
            # is cheaper than hashing a class.
            if (
                before is not None
                and pod.spec is before.spec
                and pod.labels is before.labels
                and pod.controller is before.controller
                and pod.annotations is before.annotations
                and pod.state is before.state
                and pod.namespace == before.namespace
            ):
                lengths[-1] += 1
            else:
                kind = self.kind_of(pod)
                put_pod, put_node, plain = kind.pods.append, kind.nodes.append, kind.plain
                before = pod if not kind.key.pod_name else None
                like.append(pod)
                lengths.append(1)
            put_pod(pod)
            put_node(node)
            if not plain:
                self.occupancy.attach(kind, node, 1)
        self.occupancy.add_many(like, lengths, nodes)
        for kind in self._classes.values():
            for term in kind.terms:
                term.add_many(kind.nodes)

    def add(self, pod: Pod, node: int, *, hypothetical: bool = False) -> Change:
        """A pod stands on a node now."""
        kind = self.kind_of(pod)
        change = Change(True, pod, node, kind, hypothetical, len(kind.pods), kind.version, self.version)
        kind.append(pod, node)
        kind.hypothetical += hypothetical
        self._count(change, 1)
        self._advance(kind)
        return change

    def remove(self, pod: Pod, node: int) -> Change:
        """A pod that was added, known by the identity of its record, is gone."""
        kind = self.kind_of(pod)
        change = Change(False, pod, node, kind, False, kind.take(pod), kind.version, self.version)
        self._count(change, -1)
        self._advance(kind)
        return change

    def undo(self, change: Change) -> None:
        """Take the last change back that was not taken back yet."""
        kind = change.kind
        if change.came:
            kind.take(change.pod)
            kind.hypothetical -= change.hypothetical
        else:
            kind.put_back(change.pod, change.node, change.at)
        self._count(change, -1 if change.came else 1)
        # Exactly what stood before stands again: answers that were kept then are right again.
        kind.version, self.version = change.class_version, change.version

    def group(self, matchers: tuple[Matcher, ...], *, living: bool) -> PodGroup:
        """The count of pods that all matchers match."""
        key = GroupKey(matchers, living)
        known = self._groups.get(key)
        return known if known is not None else self._new_group(key)

    def matched_by(self, term: TermCount) -> PodGroup:
        """The pods that a carried term matches."""
        if term.matched is None:
            term.matched = self.group((term.key.matcher,), living=False)
        return term.matched

    def terms_about(self, kind: PodClass) -> list[TermCount]:
        """Terms carried by pods of the cluster that match a class of pods."""
        return kind.memo.of("terms_about", self.terms_version, lambda: self._terms_about(kind))

    def _terms_about(self, kind: PodClass) -> list[TermCount]:
        namespaces = self.snapshot.namespaces
        return [
            term
            for term in self._term_index.candidates(kind.namespace, kind.labels)
            if term.key.matcher.matches(kind.namespace, kind.labels, namespaces, own=False)
        ]

    def services_in(self, namespace: str) -> Sequence[Service]:
        """The Services of a namespace."""
        if self._services is None:
            self._services = {}
            for service in self.snapshot.services.values():
                self._services.setdefault(service.namespace, []).append(service)
        return self._services.get(namespace, ())

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """A controller by name."""
        if self._workloads is None:
            self._workloads = {(w.kind, w.namespace, w.name): w for w in self.snapshot.workloads.values()}
        return self._workloads.get((kind, namespace, name))

    def held_by_rooms(self, resource: str, *, defaults: bool = False) -> IntArray | None:
        """What empty rooms hold of a resource on each node; None: there are none. Do not change the array. ``defaults``: see ``amounts``."""
        rooms = [kind for kind in self._rooms if kind.pods]
        if not rooms:
            return None

        def find() -> IntArray:
            found = np.zeros(self.nodes.size, dtype=np.int64)
            for kind in rooms:
                np.add.at(found, kind.where, held_amount(kind, resource, defaults=defaults))
            return found

        return self.memo.of(
            ("rooms", resource, defaults), tuple((kind.key, kind.version) for kind in rooms), find
        )

    def selectors_changed(self) -> None:
        """A Service or a workload's selector changed: default spread constraints are bound again."""
        self.selector_epoch += 1
        self._services = None
        self._workloads = None

    def volumes_of_class(self, storage_class: str) -> Sequence[PersistentVolume]:
        """Volumes of a class, by name."""
        if self._volumes is None:
            self._volumes = {}
            for name in sorted(self.snapshot.volumes):
                volume = self.snapshot.volumes[name]
                self._volumes.setdefault(volume.storage_class, []).append(volume)
        return self._volumes.get(storage_class, ())

    def volumes_changed(self) -> None:
        """A claim, volume, class, driver or capacity changed: volumes are judged again."""
        self.volume_epoch += 1
        self._volumes = None

    def nodes_changed(self, nodes: Sequence[Node]) -> None:
        """The same nodes with the same labels, but other capacity, taints, readiness, images or features."""
        self.nodes = self.nodes.renewed(nodes)
        self.occupancy.answers.forget()

    def overgrown(self) -> bool:
        """True if most classes have no pods any more and only cost memory."""
        if len(self._classes) < _MANY_CLASSES:
            return False
        return sum(bool(kind.pods) for kind in self._classes.values()) * 2 < len(self._classes)

    def claim_in_use(self, key: ObjectKey) -> bool:
        """True if a pod on some node uses the claim."""
        return self.occupancy.claims.get(key, 0) > 0

    def pods_of_nodes(self) -> IntArray:
        """How many pods on each node belong to it (DaemonSets, static pods, placeholders) and never move."""
        where = [kind.where for kind in self._classes.values() if kind.belongs_to_node and kind.pods]
        if not where:
            return np.zeros(self.nodes.size, dtype=np.int64)
        return np.bincount(np.concatenate(where), minlength=self.nodes.size).astype(np.int64)

    def _count(self, change: Change, delta: int) -> None:
        kind, node = change.kind, change.node
        self.occupancy.add(change.pod, node, delta)
        if not kind.plain:
            self.occupancy.attach(kind, node, delta)
        for group in kind.groups:
            group.change(node, delta)
        for term in kind.terms:
            term.change(node, delta)

    def _advance(self, kind: PodClass) -> None:
        """A version is given once, so that equal versions always mean equal pods."""
        self._last_version += 1
        kind.version = self.version = self._last_version

    def _register(self, kind: PodClass) -> None:
        self._class_index.add(kind.namespace, kind.labels, kind)
        if kind.holds_room:
            self._rooms.append(kind)
        namespaces = self.snapshot.namespaces
        for group in self._group_index.candidates(kind.namespace, kind.labels):
            if _counted_by(group.key, kind, namespaces):
                kind.groups.append(group)
                group.classes.append(kind)
        kind.terms = [self._term(key) for key in _carried(kind)]
        for term in dict.fromkeys(kind.terms):
            term.carriers.append(kind)

    def _term(self, key: TermKey) -> TermCount:
        known = self._terms.get(key)
        if known is None:
            known = TermCount(key, self.nodes.column(key.topology_key))
            self._terms[key] = known
            self._term_index.add(key.matcher, known)
            self.terms_version += 1
        return known

    def _new_group(self, key: GroupKey) -> PodGroup:
        group = self._groups[key] = PodGroup(key, self.nodes.size)
        if not key.matchers:
            return group
        namespaces = self.snapshot.namespaces
        for kind in self._class_index.candidates(key.matchers[0]):
            if _counted_by(key, kind, namespaces):
                kind.groups.append(group)
                group.classes.append(kind)
        self._group_index.add(key.matchers[0], group)
        return group

    def requested(self, resource: str) -> IntArray:
        """What pods hold on each node."""
        return self.occupancy.requested(resource)


def _counted_by(key: GroupKey, kind: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    if key.living and kind.deleting:
        return False
    return all(m.matches(kind.namespace, kind.labels, namespaces, own=True) for m in key.matchers)


def _carried(kind: PodClass) -> list[TermKey]:
    spec = kind.spec

    def key(role: TermKind, term: PodAffinityTerm, weight: int = 1) -> TermKey:
        return TermKey(role, matcher_of(term, kind.namespace), term.topology_key, weight)

    required = ((TermKind.REQUIRED_ANTI, spec.pod_anti_affinity), (TermKind.REQUIRED, spec.pod_affinity))
    preferred = (
        (TermKind.PREFERRED, spec.pod_affinity_preferred),
        (TermKind.PREFERRED_ANTI, spec.pod_anti_affinity_preferred),
    )
    return [
        *(key(role, term) for role, terms in required if parsed(terms) for term in terms),
        *(
            key(role, weighted.term, weighted.weight)
            for role, terms in preferred
            if parsed(weighted.term for weighted in terms)
            for weighted in terms
        ),
    ]
