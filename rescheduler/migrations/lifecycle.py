"""The life of a PodMigration as one table: from each phase, where it may go.

Promises: no other module sets ``status.phase``; a step that is not in the table is a programming error;
a finished move stays as it ended. Reasons are one closed list, so that people and metrics can count them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from rescheduler.model.conditions import Condition, condition, with_condition
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.timestamps import format_seconds


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
    DISRUPTION_BUDGET = "DisruptionBudget"
    NO_TARGET = "NoTarget"
    TARGET_UNSCHEDULABLE = "TargetUnschedulable"
    SERVER_BUSY = "ServerBusy"
    OWNER_BUSY = "OwnerBusy"
    ANOTHER_MOVE = "AnotherMove"
    REPLACEMENT_NOT_READY = "ReplacementNotReady"
    # It ended before anything was disturbed
    POD_GONE = "PodGone"
    POD_REPLACED = "PodReplaced"
    NOT_MOVABLE = "NotMovable"
    ALREADY_ON_TARGET = "AlreadyOnTarget"
    TARGET_NOT_FOUND = "TargetNotFound"
    MODE_NOT_SUPPORTED = "ModeNotSupported"
    OWNER_CHANGED = "OwnerChanged"
    RESERVATION_FAILED = "ReservationFailed"
    RESERVATION_EXPIRED = "ReservationExpired"
    RESERVATION_UNFIT = "ReservationUnfit"
    DECISION_STALE = "DecisionStale"
    MULTIPLE_BUDGETS = "MultipleBudgets"
    GATE_NOT_IN_FORCE = "GateNotInForce"
    FORBIDDEN = "Forbidden"
    EVICTION_FAILED = "EvictionFailed"
    TIMEOUT = "Timeout"
    # It ended after the eviction
    LANDED_ELSEWHERE = "LandedElsewhere"
    REPLACEMENT_UNGATED = "ReplacementUngated"
    REPLACEMENT_MISSING = "ReplacementMissing"
    REPLACEMENT_PENDING = "ReplacementPending"
    REPLACEMENT_GONE = "ReplacementGone"
    REPLACEMENT_NEVER_READY = "ReplacementNeverReady"
    GATE_TIMEOUT = "GateTimeout"
    RESERVATION_LOST = "ReservationLost"


CONDITION_PROGRESS: Final = "Progressing"
CONDITION_READY: Final = "Ready"
"""The replacement is Ready; watched after landing, until a limit."""
CONDITION_START_FIRST: Final = "StartFirst"
"""False: it was declared, but the server did not let the replacement be created; the move reserves first instead."""

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
"""EVICTING may go back to RESERVING while nothing was posted: the Reservation stopped being Available."""


class TransitionError(Exception):
    """A step that the table does not know: a defect of the caller, never of the cluster."""


def enter(
    status: MigrationStatus,
    phase: MigrationPhase,
    reason: MigrationReason,
    message: str,
    now_s: float,
) -> MigrationStatus:
    """The status in ``phase`` with its words; unchanged if it says so already.

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


def told(conditions: tuple[Condition, ...], new: Condition, now_s: float) -> tuple[Condition, ...]:
    """``conditions`` with ``new``; untouched if nothing but the time would change."""
    old = condition(conditions, new.type)
    if old and (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
        return conditions
    moment = format_seconds(now_s)
    return with_condition(
        conditions, msgspec.structs.replace(new, last_probe_time=moment, last_transition_time=moment)
    )
