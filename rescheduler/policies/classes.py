"""Pods that constraints cannot tell apart, and where each of them stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.selectors import LabelSet


class PodClass:
    """Pods with the same namespace, spec and labels. ``nodes[i]`` is the node index of ``pods[i]``, in no order."""

    __slots__ = (
        "_at",
        "_where",
        "deleting",
        "labels",
        "memo",
        "namespace",
        "nodes",
        "pods",
        "spec",
        "version",
    )

    def __init__(self, namespace: str, spec: PodSpec, labels: LabelSet, *, deleting: bool) -> None:
        self.namespace = namespace
        self.spec = spec
        self.labels = labels
        self.deleting = deleting
        self.pods: list[Pod] = []
        self.nodes: list[int] = []
        self.version = 0
        """Rises with every pod that comes or goes."""
        self.memo: dict[object, Any] = {}
        """What policies found out about this class; each keeps beside it what it depends on."""
        self._at: dict[int, int] | None = None
        self._where: npt.NDArray[np.intp] | None = None

    @property
    def where(self) -> npt.NDArray[np.intp]:
        """``nodes`` as an array. Do not change it."""
        if self._where is None:
            self._where = np.array(self.nodes, dtype=np.intp)
        return self._where

    def add(self, pod: Pod, node: int) -> None:
        """A pod of the class stands on the node now."""
        if self._at is not None:
            self._at[id(pod)] = len(self.pods)
        self.pods.append(pod)
        self.nodes.append(node)
        self._changed()

    def remove(self, pod: Pod) -> None:
        """A pod of the class, known by the identity of its record, is gone; the last one takes its place."""
        if self._at is None:
            self._at = {id(known): i for i, known in enumerate(self.pods)}
        at = self._at.pop(id(pod))
        last, node = self.pods.pop(), self.nodes.pop()
        if last is not pod:
            self.pods[at], self.nodes[at] = last, node
            self._at[id(last)] = at
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._where = None
