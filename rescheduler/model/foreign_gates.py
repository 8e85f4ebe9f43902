"""Scheduling gates: our own, and those of other programs (Kueue's, a queue's, a tenant's own).

Only its program removes a gate of others, and nobody knows when. So no room is taken for a pod that has one, and no pod is
evicted for such a replacement. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.names import GATE
from rescheduler.model.records import Pod


def holds_gate(pod: Pod) -> bool:
    """True if the pod has our scheduling gate."""
    return GATE in pod.spec.gates


def foreign_gates(gates: Iterable[str]) -> tuple[str, ...]:
    """Those that another program must remove."""
    return tuple(gate for gate in gates if gate != GATE)


def waits_for_others(pod: Pod) -> bool:
    """True while another program keeps the pod from being scheduled."""
    return bool(pod.spec.gates) and bool(foreign_gates(pod.spec.gates))
