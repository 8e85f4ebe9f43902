"""How much better the scheduler itself would like a pod on each other node (row R6, R77).

By all scores and weights of the profile, with the pod taken off its node first, as kube-scheduler would see
it. Pure: trial moves are rolled back before the answer.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import View
from rescheduler.scheduling.framework import FloatArray

_HIGHEST_SCORE: Final = 100


def score_lead(pod: Pod, view: View) -> FloatArray:
    """Share (-1..1) of the highest possible score by which each node beats the pod's own; shape (nodes,).

    Plugins that have nothing to say of this pod on any node do not count into the highest score.

    -1 on nodes that refuse the pod, and everywhere if its own node would refuse it now: that is another
    policy's business.
    """
    state = view.state
    here = state.node_index[pod.node]
    mark = state.checkpoint()
    state.remove(pod)
    probe = msgspec.structs.replace(pod, node="", nominated_node="")
    feasible = state.filter(probe).feasible
    if feasible[here]:
        scored = state.score(probe, feasible)
        total = scored.total
        plugins = frozenset(n for n, scores in scored.by_plugin.items() if scores[feasible].any())
    else:
        total, plugins = np.zeros(len(feasible), dtype=np.int64), frozenset[str]()
    state.rollback(mark)
    highest = sum(_HIGHEST_SCORE * weight for name, weight in state.profile.weights if name in plugins)
    if not highest:
        return np.full(len(feasible), -1.0)
    return np.where(feasible, (total - total[here]) / highest, -1.0)
