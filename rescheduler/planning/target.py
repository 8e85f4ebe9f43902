"""A node for one pod outside of a plan: a move that a user asked for, or a Reservation without a node. Pure.

The caller hands in a state in which everything that is promised already stands; it is left as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.avoid import holds
from rescheduler.planning.both_moments import may_stand_in_the_way
from rescheduler.planning.recheck import take_off, unfit_as_target
from rescheduler.planning.replacement import replacement_of
from rescheduler.scheduling.framework import BoolArray, FilterResult
from rescheduler.scheduling.state import SchedulingState


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The node that our own rules choose for a room, or why there is none (``node`` "")."""

    node: str = ""
    message: str = ""


def choose_target(snapshot: Snapshot, state: SchedulingState, pod: Pod) -> Choice:
    """Where the scheduler's rules and points would put the replacement of a bound pod, off its node.

    It fits there once the old pod is gone, and while that still ends. Nodes with a hint to avoid the pod's
    controller are taken last.
    """
    replacement = replacement_of(pod, snapshot)
    mark = state.checkpoint()
    try:
        stands = take_off(state, pod)
        gone = state.checkpoint()
        result = state.filter(replacement)
        elsewhere = result.feasible.copy()
        if pod.node in state.node_index:
            elsewhere[state.node_index[pod.node]] = False
        if not elsewhere.any():
            return Choice(message=_summary(state, replacement, result))
        feasible, message = elsewhere, ""
        if stands and may_stand_in_the_way(snapshot, pod, replacement):
            state.linger(pod)
            ending = state.filter(replacement)
            feasible = elsewhere & ending.feasible
            message = f"{_summary(state, replacement, ending)}, as long as the old pod still ends"
            state.rollback(gone)
        if not feasible.any():
            return Choice(message=message)
        return _best(snapshot, state, replacement, feasible)
    finally:
        state.rollback(mark)


def choose_room(snapshot: Snapshot, state: SchedulingState, template: Pod) -> Choice:
    """Where the room for a pod that does not exist yet should be held.

    ``template``: a pending pod record made from the Reservation's template.
    """
    result = state.filter(template)
    if not result.feasible.any():
        return Choice(message=_summary(state, template, result))
    return _best(snapshot, state, template, result.feasible.copy())


def _best(snapshot: Snapshot, state: SchedulingState, pod: Pod, feasible: BoolArray) -> Choice:
    """Of fit nodes without a hint against the pod, the one with most points, then the first name."""
    uid = pod.controller.uid if pod.controller is not None else ""
    hinted = np.zeros_like(feasible)
    for i in np.flatnonzero(feasible).tolist():
        node = snapshot.nodes[state.node_names[i]]
        feasible[i] = not unfit_as_target(node)
        hinted[i] = bool(uid) and bool(holds(node.avoid, uid, snapshot.taken_at_s))
    if not feasible.any():
        return Choice(message="every node that would take it is not Ready, unschedulable or being deleted")
    if (feasible & ~hinted).any():
        feasible &= ~hinted
    points = np.where(feasible, state.score(pod, feasible).total, -1)
    return Choice(node=min(state.node_names[i] for i in np.flatnonzero(points == points.max())))


def _summary(state: SchedulingState, pod: Pod, result: FilterResult) -> str:
    """In the manner of kube-scheduler: how many nodes each plugin refuses, and with which words, say."""
    total = len(state.node_names)
    if result.everywhere is not None:
        return f"0/{total} nodes are available: {result.everywhere.reason}"
    parts: list[str] = []
    for code in np.unique(result.refused_by[result.refused_by >= 0]).tolist():
        refused = np.flatnonzero(result.refused_by == code)
        reasons = state.refusals(pod, state.node_names[int(refused[0])], result)
        words = ", ".join(refusal.reason for refusal in reasons)
        parts.append(f"{len(refused)} {result.plugins[code]} (such as: {words})")
    return f"0/{total} nodes are available by our own rules: {'; '.join(parts) or 'none is left'}"
