"""All pods on nodes as columns, so that a question about the whole cluster is a few operations on arrays.

Valid for one moment: the index makes new ones once a pod came or went. Pods of one class stand together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from rescheduler.model.records import Pod
from rescheduler.policies.classes import PodClass

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Columns:
    """``pods[i]`` stands on node ``nodes[i]`` and is of class ``classes[kinds[i]]``."""

    classes: tuple[PodClass, ...]
    pods: list[Pod]
    nodes: Codes
    kinds: Codes

    @classmethod
    def of(cls, classes: Sequence[PodClass]) -> Columns:
        """The pods of these classes."""
        nodes = list(chain.from_iterable([known.nodes for known in classes]))
        sizes = [len(known.nodes) for known in classes]
        return cls(
            classes=tuple(classes),
            pods=list(chain.from_iterable([known.pods for known in classes])),
            nodes=np.array(nodes, dtype=np.int32),
            kinds=np.repeat(np.arange(len(classes), dtype=np.int32), sizes),
        )
