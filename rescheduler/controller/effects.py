"""The effect of an action: the objects that it changed and the answer of the API server.

The reconciler remembers changed objects as expectations, and answers that no object shows as ``Answers``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.coordination.expectations import Touched
from rescheduler.errors import ReschedulerError
from rescheduler.migrations.actions import MigrationAction
from rescheduler.model.eviction import EvictionResult
from rescheduler.model.pod_creation import CreationAnswer
from rescheduler.reservations.actions import ReservationAction
from rescheduler.room_sets.actions import RoomSetAction

Action = ReservationAction | MigrationAction | RoomSetAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The outcome of one action that was carried out."""

    touched: tuple[Touched, ...] = ()
    eviction: EvictionResult | None = None
    gate_proven: bool | None = None
    creation: CreationAnswer | None = None
    """The answer to a dry-run creation."""
    template_refused: str | None = None
    """The API server's words on a template whose pod it does not take; "" if it does."""
    refused: str = ""
    """The message of the API server if it refused, and would refuse the same call again."""


NO_EFFECT = Effect()


class NotLeaderError(ReschedulerError):
    """Leadership was lost before a call that changes something; that call was not sent."""
