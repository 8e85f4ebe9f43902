"""ImageLocality: nodes that already have the pod's images score higher, by size and by how common they are."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import MAX_NODE_SCORE, IntArray, NodeIndices
from rescheduler.scheduling.nodes import NodeTable

_MEGABYTE = 1024 * 1024
_LEAST = 23 * _MEGABYTE
_MOST_PER_CONTAINER = 1000 * _MEGABYTE


class _ImageState(NamedTuple):
    """An image in the cluster: its size as the first node tells it, and the nodes that have it."""

    size_bytes: int
    nodes: list[int]


class ImageLocality:
    """Scores images that need not be pulled."""

    name: ClassVar[str] = "ImageLocality"

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
        """0..100, not normalised; containers, init containers and image volumes count."""
        spec = ask.kind.spec
        count = spec.image_containers or len(spec.images)
        key = ("images", spec.images, count)
        points = cluster.nodes.memo.of(key, None, lambda: _points(spec.images, count, cluster.nodes))
        return points[nodes].astype(np.int64)


def _points(images: tuple[str, ...], count: int, table: NodeTable) -> npt.NDArray[np.int8]:
    """Small numbers, because they are kept for each set of images."""
    sums = np.zeros(table.size, dtype=np.int64)
    states = table.memo.of("image_states", None, lambda: _states(table))
    for image in images:
        state = states.get(_normalised(image))
        if state is not None:
            sums[state.nodes] += int(float(state.size_bytes) * (len(state.nodes) / table.size))
    most = _MOST_PER_CONTAINER * count
    above = np.clip(sums, _LEAST, max(most, _LEAST)) - _LEAST
    return (MAX_NODE_SCORE * above // max(most - _LEAST, 1)).astype(np.int8)


def _states(table: NodeTable) -> dict[str, _ImageState]:
    known: dict[str, _ImageState] = {}
    for index, node in enumerate(table.records):
        for image in node.images:
            for name in image.names:
                state = known.setdefault(name, _ImageState(image.size_bytes, []))
                if not state.nodes or state.nodes[-1] != index:
                    state.nodes.append(index)
    return known


def _normalised(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
