"""One decision of the controller: a Snapshot -> a Plan within the limits of now -> moves that begin.

It keeps the scheduling state between decisions, because following a snapshot costs far less than
building it anew. It decides nothing itself: policies and planner do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

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
from rescheduler.planning.planner import Decided, decide
from rescheduler.policies.framework import Policy
from rescheduler.scheduling.state import SchedulingState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one cycle came to. ``plan``: with what is skipped only where it was asked for.

    ``issued``: PodMigrations that now exist because of it.
    """

    plan: Plan
    issued: tuple[ObjectKey, ...]
    seconds: float


class Cycle:
    """Decides, and begins what was decided. Used by the core thread only."""

    def __init__(
        self,
        *,
        issuer: MoveIssuer,
        metrics: Metrics,
        gate_ready: Callable[[], bool],
        whole_plans: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``whole_plans``: decisions tell of every pod that stays, not only how many there are."""
        self._issuer = issuer
        self._metrics = metrics
        self._gate_ready = gate_ready
        self._whole_plans = whole_plans
        self._clock = clock
        self._state: SchedulingState | None = None
        self._memory = Memory()
        self._policies: tuple[Policy, ...] = ()
        self._configuration: Configuration | None = None
        self._log = structlog.get_logger("rescheduler.cycle")

    def run(self, snapshot: Snapshot, configuration: Configuration) -> Decision:
        """One decision. Raises ApiError and TransportError from beginning the moves."""
        begun_s = self._clock()
        decided = self._decide(snapshot, configuration)
        held_back = self._held_back(decided.moving.moves, configuration)
        plan = decided.plan() if self._whole_plans else decided.moving
        if held_back:
            plan = msgspec.structs.replace(plan, moves=(), skipped=(*held_back, *plan.skipped))
        seconds = self._clock() - begun_s
        order = Order(
            snapshot=snapshot,
            mode=configuration.mode,
            modes=configuration.modes,
            ttl_s=configuration.reservations.ttl_s,
        )
        try:
            issued = self._issuer.issue(plan.moves, order) if plan.moves else ()
        finally:  # the moves do not wait until those who stay are counted
            self._count(plan, decided.stays.counts() + Counter(s.reason for s in held_back), seconds)
        self._metrics.moves_planned.inc(len(issued))
        return Decision(plan=plan, issued=issued, seconds=seconds)

    def _decide(self, snapshot: Snapshot, configuration: Configuration) -> Decided:
        if configuration is not self._configuration:
            self._policies = configuration.build_policies()
            self._state = None
            self._memory = Memory()
            self._configuration = configuration
        if self._state is None:
            self._state = SchedulingState(snapshot, configuration.profile)
        else:
            self._state.sync(snapshot)
        return decide(snapshot, self._policies, configuration.inputs(), self._state, memory=self._memory)

    def _held_back(self, moves: tuple[Move, ...], configuration: Configuration) -> tuple[Skipped, ...]:
        """Without a gate nothing may be evicted, unless the soft mode was chosen: then all moves are skipped."""
        if not moves or configuration.mode is MoveMode.SOFT or self._gate_ready():
            return ()
        self._log.warning(
            "The gate is not in force: nothing is moved",
            remedy="kubectl apply -k manifests/ (before Kubernetes 1.36: manifests/overlays/webhook), or mode: Soft",
            moves=len(moves),
        )
        return tuple(map(_without_gate, moves))

    def _count(self, plan: Plan, reasons: Counter[SkipReason], seconds: float) -> None:
        self._metrics.cycle_seconds.observe(seconds)
        self._metrics.cycles.labels("decided").inc()
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
