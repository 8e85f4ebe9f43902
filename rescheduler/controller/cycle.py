"""One decision of the controller: a Snapshot -> a Plan within the limits of now -> moves that begin.

It keeps the scheduling state between decisions, because following a snapshot costs far less than
building it anew. It decides nothing itself: policies and planner do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import structlog

from rescheduler.config import Configuration
from rescheduler.controller.issuing import MoveIssuer, Order
from rescheduler.controller.metrics import Metrics
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.memory import Memory
from rescheduler.planning.plan import Move, Plan, Skipped, SkipReason
from rescheduler.planning.planner import plan as make_plan
from rescheduler.policies.framework import Policy
from rescheduler.scheduling.state import SchedulingState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one cycle came to. ``issued``: PodMigrations that now exist because of it."""

    plan: Plan
    issued: tuple[ObjectKey, ...]
    seconds: float

    def without_skipped(self) -> Decision:
        """The same with only what is moved: for keeping."""
        return replace(self, plan=msgspec.structs.replace(self.plan, skipped=()))


class Cycle:
    """Decides, and begins what was decided. Used by the core thread only."""

    def __init__(
        self,
        *,
        issuer: MoveIssuer,
        metrics: Metrics,
        gate_ready: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._metrics = metrics
        self._gate_ready = gate_ready
        self._clock = clock
        self._state: SchedulingState | None = None
        self._memory = Memory()
        self._policies: tuple[Policy, ...] = ()
        self._configuration: Configuration | None = None
        self._log = structlog.get_logger("rescheduler.cycle")

    def run(self, snapshot: Snapshot, configuration: Configuration) -> Decision:
        """One decision. Raises ApiError and TransportError from beginning the moves."""
        begun_s = self._clock()
        plan = self._held_back(self._decide(snapshot, configuration), configuration)
        seconds = self._clock() - begun_s
        self._count(plan, seconds)
        order = Order(
            snapshot=snapshot,
            mode=configuration.mode,
            modes=configuration.modes,
            ttl_s=configuration.reservations.ttl_s,
        )
        issued = self._issuer.issue(plan.moves, order) if plan.moves else ()
        self._metrics.moves_planned.inc(len(issued))
        return Decision(plan=plan, issued=issued, seconds=seconds)

    def _decide(self, snapshot: Snapshot, configuration: Configuration) -> Plan:
        if configuration is not self._configuration:
            self._policies = configuration.build_policies()
            self._state = None
            self._memory = Memory()
            self._configuration = configuration
        if self._state is None:
            self._state = SchedulingState(snapshot, configuration.profile)
        else:
            self._state.sync(snapshot)
        return make_plan(snapshot, self._policies, configuration.inputs(), self._state, memory=self._memory)

    def _held_back(self, plan: Plan, configuration: Configuration) -> Plan:
        """Without a gate nothing may be evicted, unless the soft mode was chosen."""
        if not plan.moves or configuration.mode is MoveMode.SOFT or self._gate_ready():
            return plan
        self._log.warning(
            "The gate is not in force: nothing is moved",
            remedy="kubectl apply -k manifests/ (before Kubernetes 1.36: manifests/overlays/webhook), or mode: Soft",
            moves=len(plan.moves),
        )
        return msgspec.structs.replace(
            plan, moves=(), skipped=(*map(_without_gate, plan.moves), *plan.skipped)
        )

    def _count(self, plan: Plan, seconds: float) -> None:
        self._metrics.cycle_seconds.observe(seconds)
        self._metrics.cycles.labels("decided").inc()
        reasons = Counter(skipped.reason for skipped in plan.skipped)
        self._metrics.blocked(reasons)
        self._log.info(
            "Decided",
            moves=len(plan.moves),
            blocked={reason.value: count for reason, count in sorted(reasons.items())},
            badly_placed={p.name: p.badly_placed for p in plan.before.policies},
            seconds=round(seconds, 3),
        )


def _without_gate(move: Move) -> Skipped:
    return Skipped(
        pod=move.pod,
        policy=move.policy,
        reason=SkipReason.GATE_NOT_IN_FORCE,
        message="replacements cannot be held for their reserved room in this cluster",
        blocked_by="gate.rescheduler.dev",
        node=move.source,
        gain=move.gain,
    )
