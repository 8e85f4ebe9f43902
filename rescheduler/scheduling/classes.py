"""Pod classes: pods that nothing tells apart but name, place and moment are judged once and counted together.

A class knows where each of its pods stands. Two kinds of counts are kept over classes: a ``PodGroup`` counts the
pods that some selectors match, a ``TermCount`` those that carry one (anti-)affinity term. Counts exist once
they were asked for, and then follow every pod that comes or goes; only ``Cluster`` changes them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.never_moves import belongs_to_node, holds_room
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import OwnerRef, Pod, PodSpec
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.scheduling.counts import Counts
from rescheduler.scheduling.matching import Matcher
from rescheduler.scheduling.memo import Memo
from rescheduler.scheduling.nodes import Column

_DISKS = frozenset({VolumeKind.GCE, VolumeKind.AWS, VolumeKind.ISCSI, VolumeKind.RBD})
_CLAIMS = frozenset({VolumeKind.CLAIM, VolumeKind.EPHEMERAL})


class ClassKey(NamedTuple):
    """What makes pods interchangeable, by content."""

    namespace: str
    spec: PodSpec
    labels: LabelSet
    controller: OwnerRef | None
    annotations: LabelSet
    held: Resources
    held_score_cpu_milli: int
    held_score_memory_bytes: int
    deleting: bool
    pod_name: str = ""
    """Only of pods whose claims are named after them (ephemeral volumes)."""
    pod_uid: str = ""
    """Likewise: such a claim must be owned by the pod."""
    owns: str = ""
    """Only of pods that other objects are deleted with."""


def class_key(pod: Pod) -> ClassKey:
    """The class of a pod."""
    spec = pod.spec
    name = uid = ""
    if spec.volumes and any(volume.kind is VolumeKind.EPHEMERAL for volume in spec.volumes):
        name, uid = pod.name, pod.uid
    return ClassKey(
        pod.namespace,
        spec,
        pod.labels,
        pod.controller,
        pod.annotations,
        pod.held,
        pod.held_score_cpu_milli,
        pod.held_score_memory_bytes,
        pod.deleting,
        name,
        uid,
        pod.owns,
    )


class PodClass:
    """One class of pods. Changed by ``Cluster`` alone."""

    __slots__ = (
        "_at",
        "_where",
        "annotations",
        "attaches",
        "belongs_to_node",
        "claims",
        "controller",
        "deleting",
        "disks",
        "groups",
        "held",
        "held_score_cpu_milli",
        "held_score_memory_bytes",
        "holds_room",
        "hypothetical",
        "key",
        "labels",
        "memo",
        "namespace",
        "nodes",
        "plain",
        "pods",
        "spec",
        "terms",
        "version",
    )

    def __init__(self, key: ClassKey, one: Pod) -> None:
        """An empty class for pods like ``one``."""
        self.key = key
        self.namespace = key.namespace
        self.spec = key.spec
        self.labels = key.labels
        self.controller = key.controller
        self.annotations = key.annotations
        self.held = key.held
        self.held_score_cpu_milli = key.held_score_cpu_milli
        self.held_score_memory_bytes = key.held_score_memory_bytes
        self.deleting = key.deleting
        self.belongs_to_node = belongs_to_node(one)
        """True if no policy ever proposes its pods."""
        self.holds_room = holds_room(one)
        """True if its pods only keep room for others."""
        self.pods: list[Pod] = []
        """The pods that stand on nodes, in no order."""
        self.nodes: list[int] = []
        """``nodes[i]`` is the index of the node of ``pods[i]``."""
        self.hypothetical = 0
        """How many of them only a trial move put there."""
        self.version = 0
        """Another number after every pod that comes or goes; taking that back brings the old number back."""
        self.groups: list[PodGroup] = []
        """Groups that count its pods."""
        self.terms: list[TermCount] = []
        """Terms that its pods carry."""
        self.memo = Memo()
        """What plugins and policies found out about this class."""
        self.claims = any(volume.kind in _CLAIMS for volume in key.spec.volumes)
        self.disks = any(volume.kind in _DISKS for volume in key.spec.volumes)
        self.attaches = self.claims or any(v.driver or v.untranslatable for v in key.spec.volumes)
        self.plain = not (self.attaches or self.disks or key.spec.host_ports)
        """True if its pods hold nothing on a node but resources."""
        self._at: dict[int, int] | None = None
        """Identity of a record -> its position. Made at the first removal: most classes never lose a pod."""
        self._where: tuple[int, npt.NDArray[np.intp]] | None = None

    @property
    def where(self) -> npt.NDArray[np.intp]:
        """``nodes`` as an array. Do not change it."""
        if self._where is None or self._where[0] != self.version:
            self._where = self.version, np.array(self.nodes, dtype=np.intp)
        return self._where[1]

    def append(self, pod: Pod, node: int) -> None:
        """A pod of the class stands on the node now."""
        if self._at is not None:
            self._at[id(pod)] = len(self.pods)
        self.pods.append(pod)
        self.nodes.append(node)

    def take(self, pod: Pod) -> int:
        """The pod, known by the identity of its record, is gone; the last one takes its position, which is given."""
        at = self._positions().pop(id(pod))
        last, node = self.pods.pop(), self.nodes.pop()
        if last is not pod:
            self.pods[at], self.nodes[at] = last, node
            self._positions()[id(last)] = at
        return at

    def put_back(self, pod: Pod, node: int, at: int) -> None:
        """Undo the last ``take``, so that everything is in the order of before."""
        if at == len(self.pods):
            self.append(pod, node)
            return
        self.append(self.pods[at], self.nodes[at])
        self.pods[at], self.nodes[at] = pod, node
        self._positions()[id(pod)] = at

    def _positions(self) -> dict[int, int]:
        if self._at is None:
            self._at = {id(known): i for i, known in enumerate(self.pods)}
        return self._at


def standing(classes: Sequence[PodClass]) -> tuple[object, ...]:
    """A stamp for answers about where the pods of these classes stand."""
    if len(classes) == 1:
        return classes[0], classes[0].version  # mostly: tens of thousands of such stamps are kept
    return tuple(classes), tuple([known.version for known in classes])


class Ask(NamedTuple):
    """The question that filters and scores answer: could this pod go there?"""

    pod: Pod
    kind: PodClass


class Nominated(NamedTuple):
    """A nominated pod that is counted on a node in the first of the two passes."""

    pod: Pod
    kind: PodClass


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Pods that all matchers match."""

    matchers: tuple[Matcher, ...]
    living: bool
    """True: terminating pods do not count (topology spread)."""


class PodGroup:
    """Pods of one ``GroupKey``: how many on each node and in each domain of the keys that were asked for."""

    def __init__(self, key: GroupKey, size: int) -> None:
        self.key = key
        self.classes: list[PodClass] = []
        """The classes whose pods it counts, those without pods now included."""
        self._size = size
        self._per_node: Counts | None = None
        self._domains: dict[str, tuple[list[int], Counts]] = {}

    @property
    def per_node(self) -> Counts:
        """Pods on each node."""
        if self._per_node is None:
            self._per_node = Counts(self._size)
            for known in self.classes:
                for node in known.nodes:
                    self._per_node.change(node, 1)
        return self._per_node

    def change(self, node: int, delta: int) -> None:
        """``delta`` pods came to (or left) a node."""
        if self._per_node is None:
            return
        self._per_node.change(node, delta)
        for codes, counts in self._domains.values():
            code = codes[node]
            if code >= 0:
                counts.change(code, delta)

    def in_domains(self, column: Column) -> Counts:
        """Pods per domain of a topology key, over all nodes that have it."""
        known = self._domains.get(column.key)
        if known is None:
            known = self._domains[column.key] = (column.code_list, self._summed(column))
        return known[1]

    def _summed(self, column: Column) -> Counts:
        sums, codes = Counts(len(column.values)), column.code_list
        for node, count in self.per_node.values.items():
            if codes[node] >= 0:
                sums.change(codes[node], count)
        return sums


class TermKind(enum.Enum):
    """What an existing pod's term means for a pod that comes."""

    REQUIRED_ANTI = "required anti-affinity"
    REQUIRED = "required affinity"
    PREFERRED = "preferred affinity"
    PREFERRED_ANTI = "preferred anti-affinity"


@dataclass(frozen=True, slots=True)
class TermKey:
    """One term as carried by pods."""

    kind: TermKind
    matcher: Matcher
    topology_key: str
    weight: int = 1
    """Of preferred terms, else 1."""


class TermCount:
    """How many pods in each domain carry one term."""

    def __init__(self, key: TermKey, column: Column) -> None:
        self.key = key
        self.column = column
        self.carriers: list[PodClass] = []
        """The classes whose pods carry it, those without pods now included."""
        self.counts = Counts(len(column.values))
        self.matched: PodGroup | None = None
        """The pods that the term matches, once ``Cluster.matched_by`` was asked for them."""
        self._codes = column.code_list

    def add_many(self, nodes: Sequence[int]) -> None:
        """A carrier came to each of these nodes."""
        codes, change = self._codes, self.counts.change
        for node in nodes:
            if codes[node] >= 0:
                change(codes[node], 1)

    def change(self, node: int, delta: int) -> None:
        """``delta`` carriers came to (or left) a node; nodes without the key do not count."""
        code = self._codes[node]
        if code >= 0:
            self.counts.change(code, delta)
