"""In which zones a node would have to be, if one were added for the replacement of a pod. Pure.

Hard topology spread and required anti-affinity by zone count the pods of the workload, with the old one gone. A pod that asks the node
autoscaler has none of the labels by which that is counted, so it is told the result: the domains where these rules alone would take the
replacement now. What concerns single nodes (capacity, ports, taints, cordons, rules by host name) does not count, because a new node is
another one. A domain without any node is not known, and not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from rescheduler.model.names import HOSTNAME
from rescheduler.model.records import Node, Pod, Toleration
from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.planning.single_pod import take_off, weightless
from rescheduler.scheduling.state import SchedulingState

_ANYWHERE: Final = (Toleration(operator="Exists"),)


def open_domains(
    state: SchedulingState, nodes: Mapping[str, Node], pod: Pod | None, replacement: Pod
) -> NodeSelector | None:
    """The labels that its node must have; None: any. ``state`` is changed: ``pod``, which it replaces, is taken off."""
    spec = replacement.spec
    spread = tuple(one for one in spec.spread if one.hard and one.topology_key != HOSTNAME)
    apart = tuple(term for term in spec.pod_anti_affinity if term.topology_key != HOSTNAME)
    keys = sorted({*(one.topology_key for one in spread), *(term.topology_key for term in apart)})
    if not keys:
        return None
    if pod is not None:
        take_off(state, pod)
    judged = msgspec.structs.replace(
        spec, spread=spread, pod_anti_affinity=apart, pod_affinity=(), volumes=(), tolerations=_ANYWHERE
    )
    takes = state.feasible(weightless(msgspec.structs.replace(replacement, spec=judged)))
    labels = [nodes[state.node_names[at]].labels for at in np.flatnonzero(takes)]
    found = (
        Requirement(key, Operator.IN, tuple(sorted({of[key] for of in labels if key in of}))) for key in keys
    )
    listed = tuple(requirement for requirement in found if requirement.values)
    return NodeSelector((NodeSelectorTerm(listed),)) if listed else None
