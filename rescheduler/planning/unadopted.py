"""The replacement of mode StartFirst before its adoption, as kube-scheduler judges it beside the running old pod. Pure.

It is not the pod that the ReplicaSet has in the end: it has other labels (see ``replacement_labels``), no controller,
and it is pinned to its node. Its selectors are those of the pod that it becomes: values of matchLabelKeys and
mismatchLabelKeys, such as ``pod-template-hash``, are merged before it is created, although it does not have these labels
yet. The pin narrows topology spread to the target, because nodeAffinityPolicy is Honor by default.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rescheduler.model.records import Pod, Workload
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.start_first_mode import replacement_labels
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState


def unadopted_replacement(replacement: Pod, replica_set: Workload) -> Pod:
    """The pod that mode StartFirst creates for ``replacement``, without its pin. The value of our own label is not known."""
    alone = replica_set.controller is None
    labels = LabelSet(replacement_labels(replica_set.template_labels, "", alone=alone))
    return msgspec.structs.replace(replacement, labels=labels, controller=None)


def unadopted_of(pod: Pod, replacement: Pod, snapshot: Snapshot) -> Pod | None:
    """The pod that mode StartFirst creates for the replacement of ``pod``; None if its ReplicaSet is not there."""
    replica_set = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
    return unadopted_replacement(replacement, replica_set) if replica_set is not None else None


def may_start_beside(state: SchedulingState, unadopted: Pod) -> BoolArray:
    """Nodes that may accept it once it is pinned to them; all others refuse it. The old pod stands in ``state``."""
    result = state.filter(unadopted)
    if result.everywhere is not None:
        return result.feasible
    # Spread is another question with the pin; every other rule refuses the same nodes with it.
    if PodTopologySpread.name not in result.plugins:
        return result.feasible
    spread = result.plugins.index(PodTopologySpread.name)
    return np.asarray(result.feasible | (result.refused_by == spread), dtype=np.bool_)
