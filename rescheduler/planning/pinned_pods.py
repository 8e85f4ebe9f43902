"""Pods that stay on their node whatever is free elsewhere: by their volumes, nodeSelector or node affinity. Pure.

Taints, cordons and lack of room pin no pod: they come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.state import SchedulingState
from rescheduler.scheduling.volume_binding import VolumeBinding
from rescheduler.scheduling.volume_zone import VolumeZone

_RULES: Final[Mapping[str, FilterPlugin]] = {
    "its nodeSelector or node affinity": NodeAffinity(),
    "its volume": VolumeBinding(),
    "the zone of its volume": VolumeZone(),
}


def pinned_by(state: SchedulingState, pod: Pod, replacement: Pod, leaving: Collection[str]) -> str:
    """What lets ``replacement`` go back to the node of ``pod``, and to no node but ``leaving``; "" if nothing does so."""
    own = state.node_index.get(pod.node)
    if own is None:
        return ""
    ask, cluster = state.cluster.ask(replacement), state.cluster
    others: BoolArray = np.asarray([name not in leaving for name in state.node_names], dtype=np.bool_)
    words: list[str] = []
    for what, rule in _RULES.items():
        mask = rule.mask(ask, cluster)
        if mask is None:
            continue
        if not mask[own]:
            return ""
        if (others & ~mask).any():
            words.append(what)
        others &= mask
    return "" if others.any() else " and ".join(words)
