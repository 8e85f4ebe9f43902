"""Room that pods of lower priority hold, such as the overprovisioning pods of a cluster with cluster-autoscaler. Words only. Pure.

A move takes free capacity and preempts nobody, so such a node is no target; the reason names the pods whose preemption would make
room. Promises: the state is left as it was; the work is bounded whatever the size of the cluster.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.counted import plural
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.preemption import Victims, victims_on
from rescheduler.scheduling.state import SchedulingState

MOST_ASKED: Final = 20
"""Kinds of pods for which it is said in one plan."""
_NODES: Final = 6
"""Nodes that are looked at for each: those with pods of the lowest priority."""
_NAMES: Final = 3


def behind_lower_priority(state: SchedulingState, snapshot: Snapshot, coming: Pod, own: str) -> str:
    """The end of a message: on which node the pod would fit without pods of lower priority; "" if that is not seen.

    ``own``: the node that it is to leave.
    """
    if not coming.spec.preempts:
        return ""
    for node in _nodes(state, coming, own):
        found = victims_on(state, coming, node, snapshot.budgets)
        if isinstance(found, Victims) and found.pods:
            some = ", ".join(f"{pod.key} (priority {pod.spec.priority})" for pod in found.pods[:_NAMES])
            more = len(found.pods) - _NAMES
            return (
                f"; node/{node} would have room without {plural(len(found.pods), 'pod')} of lower priority, which"
                f" a move does not preempt: {some}{f' and {more} more' if more > 0 else ''}"
            )
    return ""


def _nodes(state: SchedulingState, coming: Pod, own: str) -> list[str]:
    """Nodes that may be targets, those with pods of the lowest priority first, then by name."""
    by_priority: dict[int, set[int]] = {}
    for kind in state.cluster.classes:
        if kind.spec.priority < coming.spec.priority:
            by_priority.setdefault(kind.spec.priority, set()).update(kind.nodes)
    found: dict[str, None] = {}
    for _, nodes in sorted(by_priority.items()):
        names = (state.node_names[node] for node in nodes if state.nodes.usable[node])
        found.update(dict.fromkeys(sorted(name for name in names if name != own)))
        if len(found) >= _NODES:
            break
    return list(found)[:_NODES]
