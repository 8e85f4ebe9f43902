"""Scheduling gates of other programs: Kueue's, a queue's, a tenant's own.

Only its program removes such a gate, and nobody knows when. So no room is taken for a pod that has one, and no pod is
evicted for such a replacement. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.names import GATE
from rescheduler.model.records import Pod


def foreign_gates(gates: Iterable[str]) -> tuple[str, ...]:
    """Those that another program must remove."""
    return tuple(gate for gate in gates if gate != GATE)


def waits_for_others(pod: Pod) -> bool:
    """True while another program keeps the pod from being scheduled."""
    return bool(pod.spec.gates) and bool(foreign_gates(pod.spec.gates))
