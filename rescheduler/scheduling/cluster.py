"""What the filters and scores look at: nodes, pods on them, and every aggregate, kept current pod by pod.

Adding or removing one pod touches its node's numbers and the counts that it takes part in, nothing else.
Counts that nobody asked for yet do not exist; the first question makes them from the pod classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rescheduler.model.records import (
    Namespace,
    Node,
    ObjectKey,
    PersistentVolume,
    Pod,
    PodAffinityTerm,
    Service,
    Workload,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.classes import Ask, ClassKey, PodClass, class_key
from rescheduler.scheduling.counts import GroupKey, PodGroup, TermCount, TermKey, TermKind
from rescheduler.scheduling.framework import IntArray, Profile
from rescheduler.scheduling.matching import Matcher, MatcherIndex, PodIndex, matcher_of, parsed
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.occupancy import Occupancy

_MANY_CLASSES = 2000


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
        self._services: dict[str, list[Service]] | None = None
        self._volumes: dict[str, list[PersistentVolume]] | None = None
        self._workloads: dict[tuple[str, str, str], Workload] | None = None
        self._classes: dict[ClassKey, PodClass] = {}
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
        key = class_key(pod)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = PodClass(key)
            self._register(known)
        return known

    def fill(self, pods: Sequence[Pod], nodes: Sequence[int]) -> None:
        """Add many pods at once to empty aggregates; ``nodes``: on which node (index) each stands."""
        before: Pod | None = None
        like: list[Pod] = []
        lengths: list[int] = []
        for pod, node in zip(pods, nodes, strict=True):
            # Pods of one owner mostly follow each other, and comparing is cheaper than looking up.
            if before is not None and _alike(pod, before):
                lengths[-1] += 1
            else:
                kind = self.kind_of(pod)
                side = kind.terminating if pod.deleting else kind.living
                before = pod if not kind.key.pod_name else None
                like.append(pod)
                lengths.append(1)
            side[node] = side.get(node, 0) + 1
            if not kind.plain:
                self.occupancy.attach(kind, node, 1)
        self.occupancy.add_many(like, lengths, nodes)
        for kind in self._classes.values():
            for term in kind.terms:
                term.add_many(kind.living)
                term.add_many(kind.terminating)

    def add(self, pod: Pod, node: int) -> None:
        """A pod stands on a node now."""
        self._change(pod, node, 1)

    def remove(self, pod: Pod, node: int) -> None:
        """A pod that was added is gone."""
        self._change(pod, node, -1)

    def group(self, matchers: tuple[Matcher, ...], *, living: bool) -> PodGroup:
        """The count of pods that all matchers match."""
        key = GroupKey(matchers, living)
        known = self._groups.get(key)
        return known if known is not None else self._new_group(key)

    def terms_about(self, kind: PodClass) -> list[TermCount]:
        """Terms carried by pods of the cluster that match a class of pods."""
        memo = kind.memo.get("terms_about")
        if memo is not None and memo[0] == self.terms_version:
            found: list[TermCount] = memo[1]
            return found
        namespaces = self.snapshot.namespaces
        found = [
            term
            for term in self._term_index.candidates(kind.namespace, kind.labels)
            if term.key.matcher.matches(kind.namespace, kind.labels, namespaces, own=False)
        ]
        kind.memo["terms_about"] = (self.terms_version, found)
        return found

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
        """The same nodes with the same labels, but other capacity, taints, images or features."""
        self.nodes = NodeTable(nodes)
        self.occupancy.kept.forget()
        for kind in self._classes.values():
            kind.memo.clear()

    def overgrown(self) -> bool:
        """True if most classes have no pods any more and only cost memory."""
        if len(self._classes) < _MANY_CLASSES:
            return False
        alive = sum(bool(kind.living or kind.terminating) for kind in self._classes.values())
        return alive * 2 < len(self._classes)

    def claim_in_use(self, key: ObjectKey) -> bool:
        """True if a pod on some node uses the claim."""
        return self.occupancy.claims.get(key, 0) > 0

    def _change(self, pod: Pod, node: int, delta: int) -> None:
        kind = self.kind_of(pod)
        deleting = pod.deleting
        side = kind.terminating if deleting else kind.living
        count = side.get(node, 0) + delta
        if count:
            side[node] = count
        else:
            del side[node]
        self.occupancy.add(pod, node, delta)
        if not kind.plain:
            self.occupancy.attach(kind, node, delta)
        for group in kind.groups:
            if not (deleting and group.key.living):
                group.change(node, delta)
        for term in kind.terms:
            term.change(node, delta)

    def _register(self, kind: PodClass) -> None:
        self._class_index.add(kind.namespace, kind.labels, kind)
        namespaces = self.snapshot.namespaces
        kind.groups = [
            group
            for group in self._group_index.candidates(kind.namespace, kind.labels)
            if _matches_all(group.key.matchers, kind, namespaces)
        ]
        kind.terms = [self._term(key) for key in _carried(kind)]

    def _term(self, key: TermKey) -> TermCount:
        known = self._terms.get(key)
        if known is None:
            known = TermCount(key, self.nodes.column(key.topology_key))
            self._terms[key] = known
            self._term_index.add(key.matcher, known)
            self.terms_version += 1
        return known

    def _new_group(self, key: GroupKey) -> PodGroup:
        group = self._groups[key] = PodGroup(key, self.nodes)
        if not key.matchers:
            return group
        namespaces = self.snapshot.namespaces
        for kind in self._class_index.candidates(key.matchers[0]):
            if not _matches_all(key.matchers, kind, namespaces):
                continue
            kind.groups.append(group)
            for node, count in kind.living.items():
                group.change(node, count)
            if not key.living:
                for node, count in kind.terminating.items():
                    group.change(node, count)
        self._group_index.add(key.matchers[0], group)
        return group

    def requested(self, resource: str) -> IntArray:
        """What pods hold on each node."""
        return self.occupancy.requested(resource)


def _alike(one: Pod, other: Pod) -> bool:
    """True if the two are of one class and hold the same; cheap, and it may say no too often."""
    return (
        one.spec is other.spec
        and one.labels is other.labels
        and one.controller is other.controller
        and one.held is other.held
        and one.held_score_cpu_milli == other.held_score_cpu_milli
        and one.held_score_memory_bytes == other.held_score_memory_bytes
        and one.deleting is other.deleting
        and one.namespace == other.namespace
    )


def _matches_all(matchers: tuple[Matcher, ...], kind: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    return all(m.matches(kind.namespace, kind.labels, namespaces, own=True) for m in matchers)


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
