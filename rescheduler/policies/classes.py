"""Pods that nothing tells apart but name, place and moment, and where each of them stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rescheduler.model.records import Pod
from rescheduler.model.selectors import NO_LABELS
from rescheduler.policies.kinds import never_moves

ClassKey = tuple[object, ...]


def class_key(pod: Pod) -> ClassKey:
    """What makes pods alike. Whatever pods share is one object, so identities do; annotations are not shared."""
    return (
        pod.namespace,
        id(pod.spec),
        id(pod.labels),
        id(pod.controller),
        id(pod.held),
        pod.deleting,
        None if pod.annotations is NO_LABELS else pod.annotations,
    )


class PodClass:
    """Pods alike in namespace, spec, labels, annotations, controller and what they hold; all end or none does.

    ``nodes[i]`` is the node index of ``pods[i]``, in no order.
    """

    __slots__ = (
        "_at",
        "_where",
        "annotations",
        "controller",
        "deleting",
        "expected",
        "fixed",
        "held",
        "labels",
        "memo",
        "namespace",
        "nodes",
        "pods",
        "spec",
        "version",
    )

    def __init__(self, one: Pod) -> None:
        """An empty class for pods like ``one``."""
        self.namespace = one.namespace
        self.spec = one.spec
        self.labels = one.labels
        self.annotations = one.annotations
        self.controller = one.controller
        self.held = one.held
        self.deleting = one.deleting
        self.fixed = never_moves(one)
        """True if no policy ever proposes them."""
        self.expected = 0
        """How many of them do not stand there yet: a plan puts them there."""
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


def standing(classes: Sequence[PodClass]) -> tuple[object, ...]:
    """Equal to an earlier answer only if no pod of any of the classes came or went since."""
    return tuple(classes), tuple([known.version for known in classes])
