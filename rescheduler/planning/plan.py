"""The Plan: what would move where, why, and what stays and why. Its JSON is described in docs/commands.md."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rescheduler.model.migration import MoveMode
from rescheduler.model.node_marks import NodeMark
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.planning.badness import Badness, MoveEffect, NodeCount, Record


class SkipReason(enum.StrEnum):
    """Why a proposed pod is not moved: a closed list."""

    DISRUPTION_BUDGET = "DisruptionBudget"
    MULTIPLE_BUDGETS = "MultipleDisruptionBudgets"
    TOO_FEW_AVAILABLE = "TooFewAvailable"
    NO_TARGET = "NoTarget"
    NO_BETTER_TARGET = "NoBetterTarget"
    GAIN_TOO_SMALL = "GainTooSmall"
    PROTECTED = "Protected"
    LIMIT_TOTAL = "LimitMovesAtOnce"
    LIMIT_HOUR = "LimitMovesPerHour"
    LIMIT_NODE = "LimitPerNode"
    LIMIT_NAMESPACE = "LimitPerNamespace"
    LIMIT_WORKLOAD = "LimitPerWorkload"
    LIMIT_PLAN = "LimitMovesOfPlan"
    CHANGE_WINDOW = "ChangeWindow"
    COOLDOWN = "WorkloadCooldown"
    BACKOFF = "MoveBackoff"
    IN_PROGRESS = "MoveInProgress"
    AVOIDED = "PreferAvoidPods"
    GROUP = "GroupIncomplete"
    NOT_SUPPORTED = "NotSupported"
    SINGLE_REPLICA = "MinReplicas"
    WORKLOAD_BUSY = "WorkloadBusy"
    GATE_NOT_IN_FORCE = "GateNotInForce"


class Blocked(NamedTuple):
    """Why a pod is not moved."""

    reason: SkipReason
    message: str
    """Of protections the end of a sentence that begins with the pod."""
    by: str
    """The name of what holds it: a protection, a budget, a limit, a plugin of the scheduler."""


class PodRef(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Names a pod."""

    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, pod: Pod) -> PodRef:
        """The name of that pod."""
        return cls(pod.namespace, pod.name, pod.uid)


class OwnerName(msgspec.Struct, frozen=True):
    """Names a controller."""

    kind: str
    name: str


class Move(
    Record,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"source": "from", "target": "to"},
):
    """One move. ``gain`` and ``disruption`` are 0..1 with four decimals."""

    pod: PodRef
    controller: OwnerName | None
    source: str
    target: str
    policy: str
    reason: str
    message: str
    gain: float
    disruption: float
    mode: MoveMode
    after: tuple[PodRef, ...] = ()
    """Pods whose moves must have landed before this one begins: it needs the room that they leave, or their budget allows no more at once."""
    effects: tuple[MoveEffect, ...] = ()
    """What the move changes in the badness, by policy, after the moves before it; those without a change are left out."""


class Skipped(Record, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """A proposed pod that stays where it is."""

    pod: PodRef
    policy: str
    reason: SkipReason
    message: str
    blocked_by: str = ""
    """Name of what blocks it (a PodDisruptionBudget, a node, a limit)."""
    node: str = ""
    gain: float = 0.0
    """The most that a move could bring."""
    tier: str = ""
    """The tier of the objective that a move is about."""


class NodeSummary(Record, frozen=True, kw_only=True, rename="camel"):
    """One node before or after the plan. Requests and allocatable in milli-CPU and bytes."""

    name: str
    zone: str = ""
    schedulable: bool = True
    marks: tuple[NodeMark, ...] = ()
    pods: int = 0
    pods_allocatable: int = 0
    cpu_requested_milli: int = 0
    cpu_allocatable_milli: int = 0
    memory_requested_bytes: int = 0
    memory_allocatable_bytes: int = 0
    cpu_used_milli: int | msgspec.UnsetType = msgspec.UNSET
    """As measured now, before and after alike; unset: not measured, or too long ago."""
    memory_used_bytes: int | msgspec.UnsetType = msgspec.UNSET


class PendingRoom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Room for a pending pod, or why none can be made."""

    pod: PodRef
    policy: str
    reservation: str = ""
    """The Reservation that wants the room; the pod is none that exists then. "": a pending pod does."""
    node: str = ""
    """The node that takes it once others have left; "": no room is made."""
    moves: tuple[PodRef, ...] = ()
    """Pods that are moved for it, in the order of the plan."""
    after: tuple[PodRef, ...] = ()
    """Pods that leave the node itself, also those that are moved for another pending pod."""
    message: str = ""
    """Why no room is made; for a gang, how many of its pods would find some."""


class PolicySummary(Record, frozen=True, kw_only=True, rename="camel"):
    """What one policy sees: how many pods are badly placed, the sum of their gains, and how bad the placement is."""

    name: str
    badly_placed: int
    gain: float
    badness: Badness = Badness()
    nodes: NodeCount | None = None
    """Nodes that its badness counts: those above their targets, or those in use; None if it does not count nodes."""


class ClusterSummary(Record, frozen=True, kw_only=True, rename="camel"):
    """The cluster before or after the plan. Imbalance: standard deviation of the requested share (0..1)."""

    nodes: tuple[NodeSummary, ...]
    policies: tuple[PolicySummary, ...]
    pods: int
    pending_pods: int
    empty_nodes: int
    cpu_imbalance: float
    memory_imbalance: float


class PlanMetadata(Record, frozen=True, kw_only=True, rename="camel"):
    """Where a plan comes from."""

    generated_at: str
    """RFC 3339; the moment of the snapshot, not of the clock on the wall."""
    aggressiveness: float
    source: str = ""
    warnings: tuple[str, ...] = ()
    configuration: str | msgspec.UnsetType = msgspec.UNSET
    """Of a live cluster: where the configuration is from, for people."""


class Question(enum.StrEnum):
    """What a plan is compared with the best for."""

    VIOLATIONS_REPAIRED = "ViolationsRepaired"
    NODES_EMPTIED = "NodesEmptied"
    PRICE_EMPTIED = "PriceEmptied"
    """Prices of the nodes emptied, added up, where they differ."""
    ROOMS_MADE = "RoomsMade"
    EXCESS_REMOVED = "ExcessRemoved"
    """Shares of nodes above their target thresholds, added up."""


class PlanBound(Record, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a plan reached, and what no plan can pass."""

    question: Question
    reached: float | None = None
    bound: float | None = None
    """No plan does better; None if that is not known."""
    gap: float | None = None
    """What is missing to the bound, as a share of it: 0..1."""
    proven: bool = False
    """True: nothing better exists."""
    solver_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """What the question is about in detail, and what the model leaves out."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """A decision. ``moves`` stand in an order in which they can be carried out, target reserved first."""

    api_version: str = "rescheduler.dev/v1alpha1"
    kind: str = "Plan"
    metadata: PlanMetadata
    moves: tuple[Move, ...]
    skipped: tuple[Skipped, ...]
    rooms: tuple[PendingRoom, ...] = ()
    """One for each pod and Reservation that policy PendingPods wants room for."""
    before: ClusterSummary
    after: ClusterSummary
    bounds: tuple[PlanBound, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of ``plan --prove``: how far it is from the best."""

    @property
    def beyond(self) -> int:
        """Badly placed pods that would be looked at next, had the plan not ended with its last move."""
        return sum(1 for skipped in self.skipped if skipped.reason is SkipReason.LIMIT_PLAN)


def stages_of(moves: Sequence[Move]) -> list[int]:
    """The stage of each move, in the order of the plan, in which a move stands behind those that it begins after.

    Raises:
        LookupError: a move begins after one that does not stand before it.
    """
    found: dict[ObjectKey, int] = {}
    for move in moves:
        earlier = (found[ObjectKey(pod.namespace, pod.name)] for pod in move.after)
        found[ObjectKey(move.pod.namespace, move.pod.name)] = 1 + max(earlier, default=0)
    return list(found.values())


def in_stages(moves: Sequence[Move]) -> list[list[Move]]:
    """The moves of each stage, in the order of the plan."""
    found: list[list[Move]] = []
    for move, stage in zip(moves, stages_of(moves), strict=True):
        while len(found) < stage:
            found.append([])
        found[stage - 1].append(move)
    return found


def numbers_before(moves: Sequence[Move]) -> list[str]:
    """For each move the numbers, from 1 in the order of the plan, of those that it begins after: "2, 3", or ""."""
    numbers = {move.pod: number for number, move in enumerate(moves, 1)}
    return [", ".join(str(numbers[pod]) for pod in move.after) for move in moves]
