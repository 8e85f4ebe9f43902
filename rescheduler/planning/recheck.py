"""The last look before an eviction: would the replacement still fit its target, by all rules? Pure.

The placeholder of the move's own Reservation is taken away, since it gives its room to the replacement; all
other Reservations, nominated and pending pods keep theirs.
"""

from __future__ import annotations

from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.replacement import replacement_of
from rescheduler.scheduling.framework import Refusal
from rescheduler.scheduling.state import SchedulingState

PLUGIN = "Rescheduler"
"""Named as the plugin of refusals that are not the scheduler's."""


def recheck(
    snapshot: Snapshot, state: SchedulingState, pod: Pod, target: str, reservation: str = ""
) -> Refusal | None:
    """Why the replacement of ``pod`` would not fit ``target`` now, or None if it would.

    ``reservation``: name of the Reservation that holds its room. Judged without pins: the replacement as its
    controller would create it, with the old pod gone.
    """
    if pod.node == target:
        return Refusal(PLUGIN, "the pod is on the target already", unresolvable=True)
    node = snapshot.nodes.get(target)
    if node is None or target not in state.node_index:
        return Refusal(PLUGIN, f"there is no node {target}", unresolvable=True)
    for wrong, reason in (
        (node.deleting, "is being deleted"),
        (not node.ready, "is not Ready"),
        (node.unschedulable, "is unschedulable"),
    ):
        if wrong:
            return Refusal(PLUGIN, f"node {target} {reason}", unresolvable=True)
    mark = state.checkpoint()
    try:
        if pod.node in state.node_index and not pod.terminal:
            state.remove(pod)
        placeholder = _placeholder(snapshot, reservation)
        if placeholder is not None:
            state.remove(placeholder)
        return _judged(state, replacement_of(pod, snapshot), target)
    finally:
        state.rollback(mark)


def _placeholder(snapshot: Snapshot, reservation: str) -> Pod | None:
    if not reservation:
        return None
    held = snapshot.reservations.get(reservation)
    for pod in snapshot.pods.values():
        if LABEL_PLACEHOLDER not in pod.labels or pod.terminal:
            continue
        owner = pod.controller
        ours = owner is not None and (
            owner.uid == held.uid if held is not None and held.uid else owner.name == reservation
        )
        if ours or (owner is None and pod.labels.get(LABEL_PLACEHOLDER) == reservation):
            return pod
    return None


def _judged(state: SchedulingState, replacement: Pod, target: str) -> Refusal | None:
    result = state.filter(replacement)
    at = state.node_index[target]
    if result.feasible[at]:
        return None
    if result.everywhere is not None:
        return result.everywhere
    for verdict in state.explain(replacement):
        if verdict.node == target and verdict.refusals:
            return verdict.refusals[0]
    code = int(result.refused_by[at])
    return Refusal(
        result.plugins[code] if code >= 0 else PLUGIN, f"node {target} does not take the replacement"
    )
