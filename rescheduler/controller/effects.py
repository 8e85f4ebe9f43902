"""What became of an action: the objects that it changed and the answers that it brought.

The reconciler needs the first to not act again on what its cache does not show yet, and the second as
memory of calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.migrations.actions import MigrationAction
from rescheduler.model.eviction import EvictionResult
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.reservations.actions import ReservationAction

Action = ReservationAction | MigrationAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """One object that was written. ``version`` "" and ``deleted``: it is going or gone."""

    kind: Kind
    key: ObjectKey
    version: str = ""
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The outcome of one action that was carried out."""

    touched: tuple[Touched, ...] = ()
    eviction: EvictionResult | None = None
    gate_proven: bool | None = None
    refused: str = ""
    """The server's words where it will not do it, however often it is asked."""


NO_EFFECT = Effect()


class NotLeaderError(Exception):
    """Leadership was lost before the call that must not be made without it; nothing was done."""
