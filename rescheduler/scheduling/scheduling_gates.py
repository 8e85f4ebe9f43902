"""SchedulingGates: a gated pod is not looked at by the scheduler until its gates are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import Refusal


class SchedulingGates:
    """Judges ``spec.schedulingGates``."""

    name: ClassVar[str] = "SchedulingGates"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- the plugin protocol
        """Refuses a gated pod."""
        gates = ask.kind.spec.gates
        if not gates:
            return None
        reason = f"waiting for scheduling gates: [{' '.join(gates)}]"
        return Refusal(self.name, reason, unresolvable=True)

    def mask(self, ask: Ask, cluster: Cluster) -> None:
        """Nothing to say of single nodes."""

    def refusals(
        self,
        ask: Ask,  # noqa: ARG002 -- the plugin protocol
        cluster: Cluster,  # noqa: ARG002 -- the plugin protocol
        node: int,  # noqa: ARG002 -- the plugin protocol
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- the plugin protocol
    ) -> tuple[Refusal, ...]:
        """Nothing to say of single nodes."""
        return ()
