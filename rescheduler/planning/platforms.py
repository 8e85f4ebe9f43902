"""Nodes whose architecture or operating system the images of a pod may not be built for. Pure.

Nothing in the API says for which platforms an image is built, and kube-scheduler does not ask. So a move leaves the platform of a
pod's node only on evidence: the pod itself names the label in its node selector or required node affinity, or a ready pod of its
controller, or ready pods with all its images, run on such a node. A node without the label is not judged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rescheduler.model.records import OwnerRef, Pod, PodSpec
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.nodes import NodeTable

PLATFORM_LABELS: Final = ("kubernetes.io/arch", "kubernetes.io/os")

_Platform = tuple[int, ...]
"""For each of the labels the code of its value; -1: the node does not say."""
_Seen = tuple[Mapping[str, set[_Platform]], Mapping[OwnerRef, set[_Platform]]]
"""By image and by controller: where their pods are ready."""


class Platforms:
    """The platforms of nodes, and what runs on them; looked at only where nodes differ."""

    def __init__(self, nodes: NodeTable, pods: Collection[Pod]) -> None:
        """``pods``: all that stand."""
        self._nodes, self._pods = nodes, pods
        columns = [nodes.column(key) for key in PLATFORM_LABELS]
        self._codes = [column.code_list for column in columns]
        self._alike = not any(len(column.values) > 1 for column in columns)
        self._seen: _Seen | None = None
        self._masks: dict[tuple[object, ...], BoolArray] = {}
        self._alive: list[PodSpec] = []

    def kind(self, pod: Pod) -> tuple[object, ...]:
        """The same for pods with equal replacements that may go to the same platforms."""
        return () if self._alike else (self._at(self._nodes.index[pod.node]), pod.controller)

    def allowed(self, pod: Pod, replacement: Pod) -> BoolArray | None:
        """Nodes to which the pod may move as far as the platform goes; None: all."""
        if self._alike or pod.node not in self._nodes.index:
            return None
        key = id(replacement.spec), *self.kind(pod)
        known = self._masks.get(key)
        if known is None:
            known = self._masks[key] = self._allowed(pod, replacement.spec)
            self._alive.append(replacement.spec)  # the key holds its identity
        return known

    def refusal(self, pod: Pod, nodes: BoolArray) -> str:
        """Why the pod does not move to these nodes, as the end of a sentence that begins with them."""
        values: set[str] = set()
        for key in PLATFORM_LABELS:
            mine = self._nodes.records[self._nodes.index[pod.node]].labels.get(key)
            found = (self._nodes.records[i].labels.get(key) for i in nodes.nonzero()[0].tolist())
            values.update(value for value in found if value is not None and value != mine)
        return (
            f"have another platform ({', '.join(sorted(values))}) than node/{pod.node},"
            " and no ready pod with its images runs on one"
        )

    def _at(self, node: int) -> _Platform:
        return tuple(codes[node] for codes in self._codes)

    def _allowed(self, pod: Pod, spec: PodSpec) -> BoolArray:
        named = _named_labels(spec)
        columns = [self._nodes.column(key) for key in PLATFORM_LABELS]
        found: BoolArray = ~self._nodes.all
        for platform in (self._at(self._nodes.index[pod.node]), *self._shown(pod, spec)):
            same = self._nodes.all.copy()
            for key, column, code in zip(PLATFORM_LABELS, columns, platform, strict=True):
                if code >= 0 and key not in named:
                    same &= (column.codes == code) | (column.codes < 0)
            found |= same
        return found

    def _shown(self, pod: Pod, spec: PodSpec) -> set[_Platform]:
        """Platforms on which pods of its controller, or with all its images, are ready."""
        if self._seen is None:
            self._seen = self._look()
        by_image, by_owner = self._seen
        found: set[_Platform] = set()
        if pod.controller is not None:
            found |= by_owner.get(pod.controller, found)
        if spec.images:
            found |= set.intersection(*(by_image.get(image, set()) for image in spec.images))
        return found

    def _look(self) -> _Seen:
        by_image: dict[str, set[_Platform]] = {}
        by_owner: dict[OwnerRef, set[_Platform]] = {}
        for pod in self._pods:
            node = self._nodes.index.get(pod.node) if pod.ready and not pod.terminal else None
            if node is not None:
                platform = self._at(node)
                for image in pod.spec.images:
                    by_image.setdefault(image, set()).add(platform)
                if pod.controller is not None:
                    by_owner.setdefault(pod.controller, set()).add(platform)
        return by_image, by_owner


def _named_labels(spec: PodSpec) -> frozenset[str]:
    """Labels of nodes that the owner of the pod has decided about."""
    terms = spec.node_affinity.terms if spec.node_affinity is not None else ()
    every = [frozenset(one.key for one in term.expressions) for term in terms]
    # Terms are alternatives: only what each of them names is decided.
    decided = frozenset.intersection(*every) if every else frozenset[str]()
    return decided.union(key for key, _ in spec.node_selector)
