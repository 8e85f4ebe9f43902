"""Would a replacement fit one node now, by all rules of the scheduler? Asked before each step of a move. Pure.

The caller hands in a state in which everything that is promised already stands (rooms in hand-over, rooms
chosen a moment ago); other Reservations and nominated pods keep their room. It is left as it was.
"""

from __future__ import annotations

from rescheduler.model.records import Node, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.both_moments import may_stand_in_the_way
from rescheduler.planning.replacement import replacement_of
from rescheduler.scheduling.framework import Refusal
from rescheduler.scheduling.state import SchedulingState

PLUGIN = "Rescheduler"
"""Named as the plugin of refusals that are not the scheduler's."""


def recheck(
    snapshot: Snapshot, state: SchedulingState, pod: Pod, target: str, placeholder: Pod | None = None
) -> Refusal | None:
    """Why the replacement of ``pod`` would not fit ``target`` now, or None if it would.

    ``placeholder``: holds its room, and gives it up. Judged with the old pod gone, and while it still ends.
    """
    if pod.node == target:
        return Refusal(PLUGIN, "the pod is on the target already", unresolvable=True)
    unfit = _unfit(snapshot, state, target)
    if unfit is not None:
        return unfit
    replacement = replacement_of(pod, snapshot)
    mark = state.checkpoint()
    try:
        if placeholder is not None:
            take_off(state, placeholder)
        stands = take_off(state, pod)
        refusal = _refusal(state, replacement, target)
        if refusal is not None or not stands or not may_stand_in_the_way(snapshot, pod, replacement):
            return refusal
        state.linger(pod)
        refusal = _refusal(state, replacement, target)
        return refusal and refusal._replace(reason=f"{refusal.reason}, as long as the old pod still ends")
    finally:
        state.rollback(mark)


def recheck_beside(snapshot: Snapshot, state: SchedulingState, pod: Pod, target: str) -> Refusal | None:
    """Why one pod more would not fit ``target`` while ``pod`` stays, or None if it would."""
    return _unfit(snapshot, state, target) or _refusal(state, replacement_of(pod, snapshot), target)


def recheck_room(state: SchedulingState, pod: Pod, target: str) -> Refusal | None:
    """Why a pending pod would not fit ``target`` as everything is, or None if it would."""
    if target not in state.node_index:
        return Refusal(PLUGIN, "there is no such node", unresolvable=True)
    return _refusal(state, pod, target)


def take_off(state: SchedulingState, pod: Pod) -> bool:
    """The pod is taken as gone; False if it stood on no node."""
    try:
        state.remove(pod)
    except LookupError:
        return False
    return pod.node in state.node_index


def unfit_as_target(node: Node) -> str:
    """Why nothing should be moved to the node at all (row R75), or ""."""
    if node.deleting:
        return "is being deleted"
    if not node.ready:
        return "is not Ready"
    return "is unschedulable" if node.unschedulable else ""


def _unfit(snapshot: Snapshot, state: SchedulingState, target: str) -> Refusal | None:
    node = snapshot.nodes.get(target)
    if node is None or target not in state.node_index:
        return Refusal(PLUGIN, f"there is no node {target}", unresolvable=True)
    reason = unfit_as_target(node)
    return Refusal(PLUGIN, f"node {target} {reason}", unresolvable=True) if reason else None


def _refusal(state: SchedulingState, pod: Pod, target: str) -> Refusal | None:
    result = state.filter(pod)
    if result.feasible[state.node_index[target]]:
        return None
    refusals = state.refusals(pod, target, result)
    reasons = ", ".join(refusal.reason for refusal in refusals)
    return refusals[0]._replace(reason=reasons)
