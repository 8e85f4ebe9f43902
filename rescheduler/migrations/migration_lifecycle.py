"""The phases of a PodMigration and the transitions between them, as one table.

Promises: no other module sets ``status.phase``; a transition that is not in the table is a programming error;
a finished move never changes its phase again. Reasons are one closed list, so that metrics can count them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from rescheduler.errors import TransitionError
from rescheduler.model.migration import (
    DISRUPTION_BUDGET,
    OWNER_BUSY,
    TARGET_REFUSED,
    TOO_FEW_AVAILABLE,
    MigrationPhase,
    MigrationStatus,
)
from rescheduler.model.own_objects import Condition, told


class MigrationReason(enum.StrEnum):
    """Why a move waits or how it ended."""

    # It goes on
    CHECKING = "Checking"
    RESERVING = "Reserving"
    STARTING = "Starting"
    PROVING_GATE = "ProvingGate"
    EVICTING = "Evicting"
    WAITING_FOR_REPLACEMENT = "WaitingForReplacement"
    HANDING_OVER = "HandingOver"
    ADOPTING = "Adopting"
    LANDED = "Landed"
    # It waits
    PAUSED = "Paused"
    DISRUPTION_BUDGET = DISRUPTION_BUDGET
    TOO_FEW_AVAILABLE = TOO_FEW_AVAILABLE
    NO_TARGET = "NoTarget"
    TARGET_UNSCHEDULABLE = "TargetUnschedulable"
    HIGHER_PRIORITY_WAITS = "HigherPriorityWaits"
    SERVER_BUSY = "ServerBusy"
    OWNER_BUSY = OWNER_BUSY
    ANOTHER_MOVE = "AnotherMove"
    EARLIER_MOVES = "EarlierMoves"
    MAKING_ROOM = "MakingRoom"
    LIMIT_HOUR = "LimitMovesPerHour"
    COOLDOWN = "WorkloadCooldown"
    BACKOFF = "MoveBackoff"
    RECORDING = "Recording"
    REPLACEMENT_NOT_READY = "ReplacementNotReady"
    REPLACEMENT_UNKNOWN = "ReplacementUnknown"
    LATE_WATCH = "LateWatch"
    RESPONDER_FIRST = "ResponderFirst"
    # It ended before anything was disturbed
    POD_GONE = "PodGone"
    POD_REPLACED = "PodReplaced"
    NOT_MOVABLE = "NotMovable"
    ALREADY_ON_TARGET = "AlreadyOnTarget"
    TARGET_NOT_FOUND = "TargetNotFound"
    MODE_NOT_SUPPORTED = "ModeNotSupported"
    OWNER_CHANGED = "OwnerChanged"
    TARGET_REFUSED = TARGET_REFUSED
    RESERVATION_FAILED = "ReservationFailed"
    RESERVATION_EXPIRED = "ReservationExpired"
    RESERVATION_UNFIT = "ReservationUnfit"
    NOT_ADMITTED = "NotAdmitted"
    REPLACEMENT_CHANGED = "ReplacementChanged"
    DECISION_STALE = "DecisionStale"
    EARLIER_MOVE_FAILED = "EarlierMoveFailed"
    ROOM_GIVEN_UP = "RoomGivenUp"
    MULTIPLE_BUDGETS = "MultipleBudgets"
    GATE_NOT_IN_FORCE = "GateNotInForce"
    FORBIDDEN = "Forbidden"
    EVICTION_FAILED = "EvictionFailed"
    TIMEOUT = "Timeout"
    # It ended after the eviction
    LANDED_ELSEWHERE = "LandedElsewhere"
    TARGET_LOST = "TargetLost"
    REPLACEMENT_UNGATED = "ReplacementUngated"
    REPLACEMENT_MISSING = "ReplacementMissing"
    REPLACEMENT_PENDING = "ReplacementPending"
    REPLACEMENT_GONE = "ReplacementGone"
    REPLACEMENT_NEVER_READY = "ReplacementNeverReady"
    GATE_TIMEOUT = "GateTimeout"
    RESERVATION_LOST = "ReservationLost"


LASTING: Final[frozenset[str]] = frozenset(
    {
        MigrationReason.PAUSED,
        MigrationReason.EARLIER_MOVES,
        MigrationReason.LIMIT_HOUR,
        MigrationReason.COOLDOWN,
        MigrationReason.BACKOFF,
    }
)
"""It is known when the wait ends: by the clock, by a change of the PodMigration itself, or by the end of other moves."""

CONDITION_PROGRESS: Final = "Progressing"
CONDITION_READY: Final = "Ready"
"""The replacement is Ready; watched after landing, until a limit."""
CONDITION_START_FIRST: Final = "StartFirst"
"""False: the mode was declared, but the API server refused to create the replacement; the move reserves first instead."""
CONDITION_ADMITTED: Final = "ReplacementAdmitted"
"""From what the size of the replacement is known. True: a dry-run creation has shown it. Unknown: it is estimated, and the
reason is the source. False: the API server refuses the replacement."""

_P = MigrationPhase

FINISHED: Final = frozenset({_P.SUCCEEDED, _P.FAILED})

TRANSITIONS: Final[Mapping[MigrationPhase, frozenset[MigrationPhase]]] = {
    _P.PENDING: frozenset({_P.PENDING, _P.RESERVING, _P.FAILED}),
    _P.RESERVING: frozenset({_P.RESERVING, _P.EVICTING, _P.FAILED}),
    _P.EVICTING: frozenset({_P.EVICTING, _P.RESERVING, _P.HANDING_OVER, _P.FAILED}),
    _P.HANDING_OVER: frozenset({_P.HANDING_OVER, _P.SUCCEEDED, _P.FAILED}),
    _P.SUCCEEDED: frozenset(),
    _P.FAILED: frozenset(),
}
"""EVICTING may go back to RESERVING before the eviction is sent, if the Reservation is not Available any more."""


def enter(
    status: MigrationStatus,
    phase: MigrationPhase,
    reason: MigrationReason,
    message: str,
    now_s: float,
) -> MigrationStatus:
    """The status in ``phase`` with reason and message; unchanged if it has them already.

    Raises:
        TransitionError: the table has no such step.
    """
    if phase not in TRANSITIONS[status.phase]:
        raise TransitionError(f"a PodMigration that is {status.phase} cannot become {phase}")
    finished = phase in FINISHED
    said = Condition(CONDITION_PROGRESS, "False" if finished else "True", reason, message)
    return msgspec.structs.replace(
        status,
        phase=phase,
        reason=str(reason),
        message=message,
        conditions=told(status.conditions, said, now_s),
        finished_at_s=now_s if finished else status.finished_at_s,
    )
