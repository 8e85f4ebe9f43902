"""SchedulingGates: a gated pod is not looked at by the scheduler until its gates are gone."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import Refusal
from rescheduler.scheduling.plugin import FilterPlugin


class SchedulingGates(FilterPlugin):
    """Judges ``spec.schedulingGates``."""

    name: ClassVar[str] = "SchedulingGates"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- the plugin protocol
        """Refuses a gated pod."""
        gates = ask.kind.spec.gates
        if not gates:
            return None
        reason = f"waiting for scheduling gates: [{' '.join(gates)}]"
        return Refusal(self.name, reason, unresolvable=True)
