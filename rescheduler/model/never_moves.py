"""Pods that nothing can move, whatever is configured, and pods that another program keeps from being scheduled. Pure.

Policies never propose those that belong to their node; the planner, the controller and the webhook refuse or
pass by all of them. What configuration and annotations decide (priority, local data, ...) is not said here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from rescheduler.model.names import GATE, LABEL_PLACEHOLDER, MIRROR_POD, PRIORITY_CLASS, PRIORITY_CLASS_SOFT
from rescheduler.model.records import Pod


class NeverMoves(enum.Enum):
    """Why a pod can never be moved."""

    STATIC_POD = "is a static pod of its node"
    DAEMON_POD = "belongs to a DaemonSet, which has one pod on each node"
    PLACEHOLDER = "holds the room of a Reservation"
    NO_CONTROLLER = "has no controller that would bring it back"

    @property
    def belongs_to_node(self) -> bool:
        """True if a pod like it has no business on another node; False if only nothing would make it there."""
        return self is not NeverMoves.NO_CONTROLLER


FIXED_OWNERS: Final = {
    "DaemonSet": NeverMoves.DAEMON_POD,
    "Node": NeverMoves.STATIC_POD,
    "Reservation": NeverMoves.PLACEHOLDER,
}
"""Kinds of controllers whose pods belong to their node."""


def never_moves(pod: Pod) -> NeverMoves | None:
    """Why the pod can never be moved; None if it may be."""
    if pod.annotations.get(MIRROR_POD) is not None:
        return NeverMoves.STATIC_POD
    if pod.labels.get(LABEL_PLACEHOLDER) is not None:
        return NeverMoves.PLACEHOLDER
    if pod.controller is None:
        return NeverMoves.NO_CONTROLLER
    return FIXED_OWNERS.get(pod.controller.kind)


def holds_room(pod: Pod) -> bool:
    """True for an empty room: a placeholder, or the stand-in of a Reservation that no pod of ours holds.

    The namespace of a stand-in is empty. Who may use the PriorityClasses of placeholders is enforced by the API server; the
    label alone anybody may write.
    """
    return not pod.namespace or (
        pod.labels.get(LABEL_PLACEHOLDER) is not None
        and pod.spec.priority_class in (PRIORITY_CLASS, PRIORITY_CLASS_SOFT)
    )


def belongs_to_node(pod: Pod) -> bool:
    """True for static, DaemonSet and placeholder pods."""
    found = never_moves(pod)
    return found is not None and found.belongs_to_node


def holds_gate(pod: Pod) -> bool:
    """True if the pod has our scheduling gate."""
    return GATE in pod.spec.gates


def foreign_gates(gates: Iterable[str]) -> tuple[str, ...]:
    """Those that another program must remove (Kueue's, a queue's, a tenant's own), and nobody knows when.

    So no room is taken for a pod that has one, and no pod is evicted for such a replacement.
    """
    return tuple(gate for gate in gates if gate != GATE)


def waits_for_others(pod: Pod) -> bool:
    """True while another program keeps the pod from being scheduled."""
    return bool(pod.spec.gates) and bool(foreign_gates(pod.spec.gates))
