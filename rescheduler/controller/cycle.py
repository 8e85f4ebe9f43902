"""One decision of the controller: from a Snapshot to a Plan within the present limits, and the moves that begin.

The scheduling state is kept between decisions: bringing it up to date costs far less than building it.
Policies and planner decide; this module only calls them.
What keeps policies from doing their work (nodes without measured usage, names that no node has) is told when it begins or changes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import structlog

from rescheduler.configuration.document import Configuration
from rescheduler.controller.crashes import CrashReports, Step
from rescheduler.controller.issuing import ApiIssuer, DryRunIssuer, Issue, Order
from rescheduler.controller.metrics import Metrics
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp
from rescheduler.planning.badness import Badness, by_policy
from rescheduler.planning.decided import BeingEmptied, Decided
from rescheduler.planning.plan import Move, Plan, Skipped, SkipReason
from rescheduler.planning.planner import decide
from rescheduler.planning.summary import badness_now
from rescheduler.policies.framework import Policy
from rescheduler.policies.measurement import Unmeasured
from rescheduler.policies.simple import SimplePolicy
from rescheduler.scheduling.state import SharedSchedulingState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of one cycle. ``plan``: lists each skipped pod only if ``whole_plans`` is set.

    ``issue``: its moves as they begin. ``blockers``: how many pods are skipped for which reason, because of what.
    """

    plan: Plan
    issue: Issue
    seconds: float
    blockers: Mapping[tuple[SkipReason, str], int]
    badly_placed: Mapping[str, int]
    """Pods that are moved or skipped, by node."""
    gate_ready: bool | None = None
    """None: nothing needs the gate, or it is not known."""

    @property
    def issued(self) -> tuple[ObjectKey, ...]:
        """The PodMigrations that exist so far."""
        return self.issue.keys


@dataclass(slots=True, kw_only=True)
class Cycle:
    """Makes a decision and begins its moves. Used by the core thread only."""

    issuer: ApiIssuer | DryRunIssuer
    metrics: Metrics
    states: SharedSchedulingState
    crashes: CrashReports
    whole_plans: bool = False
    """A plan lists every skipped pod, not only their number."""
    clock: Callable[[], float] = time.monotonic
    on_emptying: Callable[[frozenset[BeingEmptied]], None] = lambda _: None
    """Told which nodes pods leave."""
    _unmeasured: UnmeasuredNodes = field(init=False)
    _unknown: UnknownNames = field(init=False)
    _policies: tuple[Policy, ...] = ()
    _configuration: Configuration | None = None
    _log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.cycle"))

    def __post_init__(self) -> None:
        self._unmeasured, self._unknown = UnmeasuredNodes(self.metrics), UnknownNames()

    def run(self, snapshot: Snapshot, configuration: Configuration, *, gate_ready: bool) -> Decision:
        """One decision, whose moves begin. ``gate_ready``: new replacements get the gate."""
        begun_s = self.clock()
        decided, plan = self._decide(snapshot, configuration)
        self.on_emptying(decided.emptying)
        self._unmeasured.found(decided.unmeasured, snapshot.taken_at_s)
        held_back = () if gate_ready else self._held_back(plan.moves, configuration)
        if held_back:
            plan = msgspec.structs.replace(plan, moves=(), skipped=(*held_back, *plan.skipped))
        seconds = self.clock() - begun_s
        order = Order(snapshot=snapshot, configuration=configuration, rooms=plan.rooms)
        now_s = self.clock()
        issue = self.issuer.issue(plan.moves, order, now_s) if plan.moves else Issue()
        # After the moves have begun, because counting the skipped pods and what is bad takes time. They go on if it crashes.
        blockers, before = Counter((s.reason, s.blocked_by) for s in held_back), dict[str, Badness]()
        badly_placed = Counter(move.source for move in decided.moving.moves)
        try:
            skipped = decided.skipped.tally()
            blockers += skipped.reasons
            badly_placed += skipped.nodes
            echoes = configuration.echoes
            counted = [policy for policy in self._policies if policy.name not in echoes]
            before |= badness_now(snapshot, counted, self.states.at(snapshot, configuration.profile))
        except Exception as error:  # noqa: BLE001 - a defect in a figure must not stop what was decided
            self.states.forget()
            self.crashes.tell(Step.DECISION, None, error)
        decided.end()
        self._count(plan, _by_reason(blockers), before, seconds)
        return Decision(
            plan=plan,
            issue=issue,
            seconds=seconds,
            blockers=blockers,
            badly_placed=badly_placed,
            gate_ready=gate_ready if configuration.mode is not MoveMode.SOFT else None,
        )

    def _decide(self, snapshot: Snapshot, configuration: Configuration) -> tuple[Decided, Plan]:
        if configuration is not self._configuration:
            self._policies = configuration.build_policies()
            for policy in self._policies:
                if isinstance(policy, SimplePolicy):
                    policy.on_failure = partial(self.crashes.tell, Step.DECISION, None)
            self.states.forget()  # the profile of the scheduler may be another one now
            self._configuration = configuration
        try:
            state = self.states.at(snapshot, configuration.profile)
            self._unknown.found(configuration.unknown_to(state.cluster.nodes))
            decided = decide(snapshot, self._policies, configuration.inputs(), state)
            plan = decided.plan() if self.whole_plans else decided.moving
        except BaseException:
            self.states.forget()  # what was brought up to date half way is not known any more
            raise
        return decided, plan

    def _held_back(self, moves: tuple[Move, ...], configuration: Configuration) -> tuple[Skipped, ...]:
        """All moves as skipped if the gate is not in force. Only mode Soft evicts without a gate."""
        if not moves or configuration.mode is MoveMode.SOFT:
            return ()
        self._log.warning(
            "The gate is not in force: no pod is moved",
            remedy="kubectl apply -k manifests/ (before Kubernetes 1.36: manifests/overlays/webhook), or mode: Soft",
            moves=len(moves),
        )
        return tuple(map(_without_gate, moves))

    def _count(
        self, plan: Plan, reasons: Counter[SkipReason], before: Mapping[str, Badness], seconds: float
    ) -> None:
        self.metrics.cycle_seconds.observe(seconds)
        self.metrics.cycles.labels("decided").inc()
        self.metrics.blocked(reasons)
        change = by_policy(effect for move in plan.moves for effect in move.effects)
        self.metrics.placement(before, change)
        self._log.info(
            "Decided",
            moves=len(plan.moves),
            blocked={reason.value: count for reason, count in sorted(reasons.items())},
            badly_placed={p.name: p.badly_placed for p in plan.before.policies},
            badness={name: found.by_tier() for name, found in before.items()},
            change={name: found.by_tier() for name, found in change.items()},
            seconds=round(seconds, 3),
        )


def _by_reason(blockers: Mapping[tuple[SkipReason, str], int]) -> Counter[SkipReason]:
    reasons = Counter[SkipReason]()
    for (reason, _), pods in blockers.items():
        reasons[reason] += pods
    return reasons


def _without_gate(move: Move) -> Skipped:
    return Skipped(
        pod=move.pod,
        policy=move.policy,
        reason=SkipReason.GATE_NOT_IN_FORCE,
        message="the gate is not in force, so replacements would not wait for their reserved room",
        blocked_by="gate.rescheduler.dev",
        node=move.source,
        gain=move.gain,
    )


class UnmeasuredNodes:
    """Nodes that take no part in a policy because their usage is not measured: log and metric."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._nodes: tuple[str, ...] = ()
        self._since_s = 0.0
        self._log = structlog.get_logger("rescheduler.usage")

    def found(self, unmeasured: Unmeasured | None, now_s: float) -> None:
        """A decision at ``now_s`` left these nodes out; None: it left out none."""
        nodes = unmeasured.nodes if unmeasured is not None else ()
        self._metrics.nodes_unmeasured.set(len(nodes))
        if nodes == self._nodes:
            return
        if not self._nodes:
            self._since_s = now_s
        self._nodes = nodes
        since = format_timestamp(self._since_s)
        if unmeasured is None:
            self._log.info(
                "The usage of all nodes is measured again: policies with usage: actual judge all of them",
                since=since,
            )
            return
        self._log.warning(
            "The usage of nodes is not measured: they take no part in policies with usage: actual",
            nodes=unmeasured.named,
            count=len(nodes),
            of=unmeasured.of,
            since=since,
            last_measured=format_timestamp(unmeasured.last_s) if unmeasured.last_s else "never",
            remedy="check metrics-server (kubectl top nodes, kubectl get apiservice v1beta1.metrics.k8s.io) or usage.prometheus",
        )


class UnknownNames:
    """What the policies name and no node has. It is no error: the nodes that have the resource may come later."""

    def __init__(self) -> None:
        self._said: frozenset[str] = frozenset()
        self._log = structlog.get_logger("rescheduler.configuration")

    def found(self, sentences: tuple[str, ...]) -> None:
        """A decision found these. Only what was not there at the decision before is said."""
        for sentence in sentences:
            if sentence not in self._said:
                self._log.warning(
                    "The configuration names something that nodes do not have",
                    problem=sentence,
                    remedy="correct it, or wait for the nodes that have it",
                )
        self._said = frozenset(sentences)
