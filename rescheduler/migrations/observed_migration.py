"""The input of the PodMigration machine: one move, and the objects that it depends on, at one moment.

Fields of ``Calls`` are what memory knows of calls made; losing them (a crash) is safe: each is asked again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rescheduler.calls.call import Call
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.model.migration import MigrationStatus, MoveMode, PodMigration
from rescheduler.model.outcomes import CreationOutcome, EvictionOutcome, EvictionResult
from rescheduler.model.records import DisruptionBudget, Node, ObjectKey, OwnerRef, Pod, Workload
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.reservation import Reservation
from rescheduler.model.selectors import NodeSelector
from rescheduler.planning.availability import Availability
from rescheduler.planning.beginning import HeldBack
from rescheduler.planning.priorities import HigherPriorityWaits
from rescheduler.replacements.replacement import Replacement
from rescheduler.reservations.settings import ReservationSettings

AT_LAST: Final = 0.25
"""Of the time that an eviction is kept waiting, the part before its end in which limits of our own no longer hold its move up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSettings:
    """What moves are carried out by: sections and modes of the configuration, and the limits that no document sets."""

    reservations: ReservationSettings = field(default_factory=ReservationSettings)
    """How long a move and its Reservation may take, and for how long they are kept."""
    mode: MoveMode = MoveMode.AUTO
    """The configured one; Auto: ReserveFirst."""
    modes: Mapping[str, MoveMode] = field(default_factory=dict)
    """What policies declare for their own moves, by the policy's name."""
    replacement_limit_s: float = 60.0
    """How long after the old pod is gone a replacement may take to claim its room."""
    ready_limit_s: float = 600.0
    """How long the replacement is watched for Ready after it was bound."""
    gate_limit_s: float = 15.0
    """How long the gate may take to be proven."""
    gate_settle_s: float = 1.0
    """Wait after the proof, for other API servers."""
    gate_settle_single_s: float = 0.2
    """The same where there seems to be one: longer than any lag that was measured, in case there is another one."""
    asked_limit_s: float = math.inf
    """After so long the guard lets an eviction that is asked for through without room; infinite: it never does."""
    first_backoff_s: float = 1.0
    """Between tries while a budget blocks; it doubles."""
    last_backoff_s: float = 10.0

    def at_last_s(self, migration: PodMigration) -> float:
        """From when the move waits for nothing that we could do without; infinite: it is not to replace an eviction, or that waits on.

        Soon whoever asks evicts the pod, without room.
        """
        if not migration.requested_by:
            return math.inf
        return migration.asked_since_s + self.asked_limit_s * (1.0 - AT_LAST)

    @property
    def start_first_policies(self) -> frozenset[str]:
        """Policies of which the configuration says that their moves start first."""
        return frozenset(name for name, mode in self.modes.items() if mode is MoveMode.START_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """An answer with its reason. ``ok`` True needs no message."""

    ok: bool
    message: str = ""
    passes: bool = False
    """True: what forbids it ends by itself (a rollout, fewer replicas), so the move waits for it."""


ALLOWED = Permission(ok=True)
_STORED_S: Final = 0.001
"""How much later than it was a stored time may be, because it is rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Memory of calls for one move. Times are when the answer came; 0.0 = never."""

    dry_run: EvictionResult | None = None
    """The last answer."""
    dry_run_at_s: float = 0.0
    eviction: EvictionResult | None = None
    """The last answer."""
    eviction_at_s: float = 0.0
    request_withdrawn_at_s: float = 0.0
    """When the EvictionRequest of the move was last taken back."""
    tries: int = 0
    """Refusals in a row."""
    gate_proven_at_s: float = 0.0
    """Since when the gate is known to be in force without a break; 0.0: it is not known."""
    gate_failed_at_s: float = 0.0
    """When the last proof of the gate found that it is not in force; 0.0: it did not find that."""
    gate_single: bool = False
    """The gate was proven on the only API server."""
    gate_problem: str = ""
    """Why no proof of the gate succeeds, as far as an API server said so."""
    pod_gone_at_s: float = 0.0
    """When the old pod was first seen to be gone."""
    start_refused: str = ""
    """The message of the API server if it refuses to create the replacement of mode StartFirst."""
    forbidden_since_s: float = 0.0
    """Since when every answer to an eviction was 403; 0.0: the last one was not."""

    def answer_for(self, status: MigrationStatus) -> EvictionResult | None:
        """The answer to the eviction for the intent in ``status``; None: one from before it belongs to an earlier try."""
        requested_s = status.eviction_requested_at_s
        return self.eviction if 0.0 < requested_s <= self.eviction_at_s + _STORED_S else None

    def evicted_for(self, status: MigrationStatus) -> bool:
        """True if the eviction for the intent in ``status`` was answered with success."""
        answer = self.answer_for(status)
        return answer is not None and answer.outcome is EvictionOutcome.EVICTED

    def evicted(self, status: MigrationStatus) -> bool:
        """True once the eviction is known to have happened; the status may say so later."""
        return bool(status.evicted_at_s) or self.evicted_for(status)


NO_CALLS = Calls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Which steps of a move ConfigMap ``move-history`` has, so that they are counted whatever happens to the PodMigration."""

    begun: bool = True
    """It has begun, and so counts as one that evicts."""
    begun_at_s: float = 0.0
    """When the move began, stored or not; 0.0: it has not, or that is not known."""
    ended: bool = True
    problem: str = ""
    """Why the ConfigMap cannot be read or written now."""


RECORDED = Recorded()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCreation:
    """What is known of the dry-run creation of the replacement. What was admitted is in ``ObservedMigration.replacement``."""

    template: TemplateKey | None = None
    """The template to ask with; None: it is not known how the controller of the pod creates pods, so none is tried."""
    outcome: CreationOutcome | None = None
    """Of the last answer; None: it was not asked, or is to be asked again."""
    message: str = ""
    """The API server's words."""
    ungated: bool = False
    """The pod was admitted without the gate."""
    asked_at_s: float = 0.0
    took_s: float = 0.0
    """How long the answer took."""
    tries: int = 0
    """Answers in a row by which nothing is known."""
    refused_beside: str = ""
    """Whose pods, in the namespace, the API server refuses at the moment, and why; looked for only if no dry run shows the pod."""
    changes_tried: bool = False
    """The changes of a hand-over were let through for a pod of this controller a moment ago."""
    deletion_tried: bool = False
    """The deletion of a placeholder was let through a moment ago."""
    again: Call | None = None
    """The dry-run creation, while the template that was read for it is not older than a moment and its controller is unchanged."""
    unread: bool = False
    """An answer came in this round, for another move of the same template: the next round knows of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWait:
    """What the move waits for because of other moves (``coordination.waiting_room``)."""

    begins_after: tuple[ObjectKey, ...] = ()
    """Moves of ``spec.after`` that have not ended."""
    evicts_after: str = ""
    """What is missing before anybody is evicted for the room that it makes; "": nothing."""
    in_vain: tuple[MigrationReason, str] | None = None
    """Why it ends: what it waits for will not come."""
    unseen: bool = False
    """The Reservation that it makes room for is not in the cache: right after the move was created, it may only not be there yet."""
    keeps_place: bool = False
    """The move begins after others, and what they leave is kept for it meanwhile."""
    awaited: bool = False
    """Others begin after it."""


NO_WAIT = ObservedWait()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStartFirst:
    """The further input of mode StartFirst."""

    declared: bool = False
    """True if owner or configuration asks for the mode."""
    eligible: Permission = ALLOWED
    """Whether two pods of this workload may run at the same time."""
    replica_set: Workload | None = None
    """The pod's owner."""
    deployment: Workload | None = None
    """The owner of that, if there is one."""
    owned: int = 0
    """Live pods of the ReplicaSet, gated ones included."""
    replacement: Pod | None = None
    """The pod of that name, or the replacement that was started."""
    replacement_name: str = ""
    busy: str = ""
    """What of another move of the same ReplicaSet must end first; "" if nothing."""

    def serves(self, asked: MoveMode) -> bool:
        """True if a move that asks for this mode is carried out by StartFirst."""
        return self.declared and self.eligible.ok and asked in (MoveMode.AUTO, MoveMode.START_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWatchLag:
    """How far the caches are behind the API server, as far as it is measured (``coordination.watch_lag``)."""

    late: str = ""
    """What was seen too late, or is not seen yet; "": nothing."""
    proven: bool = True
    """The watch of pods was measured a short while ago."""
    placeholder: Pod | None = None
    """The pod whose annotation may be written to measure it; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMigration:
    """One move at one moment."""

    migration: PodMigration
    reservation_name: str
    pod: Pod | None = None
    """The pod of that namespace and name now, whatever its uid."""
    movable: Permission = ALLOWED
    """Whether the pod may be moved at all: it has a controller, and no protection applies."""
    target: str = ""
    """The node to go to, the user's or the one that was chosen; "": none."""
    target_message: str = ""
    """Why there is no target."""
    node_request: Pod | None = None
    """The pod that asks the node autoscaler for a node, because there is no target."""
    node_request_refused: str = ""
    """Why that pod cannot be made, or cannot ask, now."""
    target_node: Node | None = None
    """The record of the target."""
    fits: Permission = ALLOWED
    """Whether the replacement fits there by our own rules, both while the old pod ends and once it is gone."""
    higher_waits: HigherPriorityWaits | None = None
    """The pending pod of higher priority that would take the capacity on the target from the replacement."""
    replacement: Replacement | None = None
    """What the pod's controller would create; None if the pod is gone."""
    creation: ObservedCreation = ObservedCreation()
    """Whether a dry-run creation has shown it."""
    volumes: tuple[NodeSelector, ...] = ()
    """Node affinity of the volumes that the pod's claims are bound to."""
    reservation: Reservation | None = None
    """That of ``reservation_name``, if the move may use it."""
    refused: str = ""
    """With which words the API server has refused the last call of the move or of its Reservation, if it has."""
    reservation_refused: str = ""
    """Why it may not: a Reservation of that name is not for this move."""
    room_held: bool = True
    room_ready_since_s: float = 0.0
    """Since when it has been seen that the room is held and claimed by no pod."""
    """Its placeholder is bound, and the room was not just assigned to a pod: the status may not show either yet."""
    owner_of_reservation: bool = True
    """The pod matches the owners of the Reservation."""
    budgets: tuple[DisruptionBudget, ...] = ()
    """Those that select the pod."""
    availability: Availability | None = None
    """That of the pod's workload; None if it does not limit the move: only a budget does, or the replacement starts first."""
    claimant: Pod | None = None
    """The pod that claimed the Reservation."""
    ungated: Pod | None = None
    """A replacement that came without our gate, if one was seen."""
    none_comes: str = ""
    """Why the controller of the evicted pod creates no more pods; empty while one is expected."""
    complete: str = ""
    """Why its controller creates none unless it is scaled up again: it has all the pods that it wants; "": it lacks one, or that is not known."""
    replacement_delay_s: float = 0.0
    """How long the controller may wait after the end of the old pod before it creates the new one."""
    waits: ObservedWait = NO_WAIT
    another: str = ""
    """What goes first: a move of the same pod, or one into the same Reservation."""
    controller: OwnerRef | None = None
    """The controller of the pod that is moved, also after the pod is gone; None if that is not known."""
    evicts_first: str = ""
    """A move of the same controller that evicts first, where only its replacement shows what admission adds now."""
    source: Node | None = None
    """The node that the pod leaves."""
    stands_on: Node | None = None
    """The node of the pod as it is now."""
    held_back: HeldBack | None = None
    """The limit that a move which has not begun would pass."""
    recorded: Recorded = RECORDED
    start_first: ObservedStartFirst | None = None
    """None for a move that cannot be of mode StartFirst."""
    watch_lag: ObservedWatchLag = ObservedWatchLag()
    calls: Calls = NO_CALLS

    @property
    def coming(self) -> Pod | None:
        """The pod that replaces the one that is moved; None if none comes, or nothing is known of it."""
        return self.replacement.pod if self.replacement is not None else None

    @property
    def same_pod(self) -> bool:
        """True if the pod that was asked for is still there under its uid."""
        return self.pod is not None and self.migration.pod_uid in ("", self.pod.uid)
