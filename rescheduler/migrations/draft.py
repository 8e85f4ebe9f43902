"""A step while it is computed: the status so far, the calls, and when to step again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.calls.call import AnyCall
from rescheduler.calls.objects import delete_reservation
from rescheduler.migrations.migration_lifecycle import CONDITION_PROGRESS, MigrationReason, enter
from rescheduler.migrations.observed_migration import MigrationSettings, ObservedMigration
from rescheduler.model.event import Event, about
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.own_objects import condition, seconds_of
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.times import earliest

WATCHES_APART_S: Final = 5.0
"""How far the watch of one kind may be behind that of another one while the API server answers."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """Collects the outcome of one step. Only the modules of the machine use it."""

    observed: ObservedMigration
    now_s: float
    settings: MigrationSettings
    status: MigrationStatus
    calls: list[AnyCall] = field(default_factory=list)
    wake_at_s: float | None = None
    begins: bool = False
    """The move may begin as soon as its beginning is recorded."""
    gate_until_s: float = 0.0
    """Until when the gate is to be on, although the intent to evict is not written; 0.0: it is not."""
    hint: AvoidEntry | None = None
    """What the node that the pod leaves is to say, and does not yet."""

    def wake(self, at_s: float | None) -> None:
        """Take the next step at that time at the latest."""
        self.wake_at_s = earliest(self.wake_at_s, at_s)

    def do(self, call: AnyCall) -> None:
        """Add ``call``, to be carried out after the status is written."""
        self.calls.append(call)

    def tell(self, reason: str, message: str) -> None:
        """Add a Warning about the move."""
        self.do(Event(about(self.observed.migration), reason, message, warning=True))

    def say(self, reason: MigrationReason, message: str) -> None:
        """Stay in the phase, with this reason and message."""
        self.go(self.status.phase, reason, message)

    def go(self, phase: MigrationPhase, reason: MigrationReason, message: str) -> None:
        """Enter ``phase``."""
        self.status = enter(self.status, phase, reason, message, self.now_s)

    def change(self, **fields: object) -> None:
        """Set fields of the status."""
        self.status = msgspec.structs.replace(self.status, **fields)

    def fail(self, reason: MigrationReason, message: str) -> None:
        """End the move as Failed. If its own Reservation is not claimed, it is deleted at once."""
        pod = self.observed.pod
        # It may end before it began; who reads it wants to know from where all the same.
        if pod is not None and not self.status.source_node:
            self.change(source_node=pod.node)
        self.change(eviction_requested_at_s=self.status.eviction_requested_at_s if self.evicted else 0.0)
        self.go(MigrationPhase.FAILED, reason, message)
        self.release(f"the move failed ({reason})")

    def missing(self, reason: MigrationReason, message: str) -> None:
        """End the move because an object that it names does not exist.

        A move that was just created waits for a moment: each kind has a watch of its own, and that of the object may be behind.
        """
        shown_s = self.observed.migration.created_at_s + WATCHES_APART_S
        if self.status.phase is MigrationPhase.PENDING and self.now_s < shown_s:
            self.say(reason, message)
            self.wake(shown_s)
        else:
            self.fail(reason, message)

    def release(self, why: str) -> None:
        """Delete the Reservation that was made for this move, unless a claimant depends on it."""
        reservation = self.observed.reservation
        if reservation is None or not self.made_reservation or reservation.deleting:
            return
        if reservation.status.current_owners:
            return
        # With the resource version: a claim that is being written at this moment must not lose its Reservation.
        migration = self.observed.migration
        moved = f"{migration.namespace}/{migration.pod_name}"
        source = f" from node/{self.status.source_node}" if self.status.source_node else ""
        why = f"pod {moved} is not moved{source}: {why}"
        self.do(delete_reservation(reservation, unchanged=True, why=why))

    @property
    def made_reservation(self) -> bool:
        """True if the Reservation belongs to this move alone."""
        return not self.observed.migration.reservation_ref

    @property
    def evicted(self) -> bool:
        """True once the eviction is known to have happened."""
        return self.observed.calls.evicted(self.status)

    @property
    def room_ready(self) -> bool:
        """True if the room is held now and no pod has claimed it: the condition for an eviction."""
        return self.observed.room_held and available(self.observed.reservation)

    @property
    def soft(self) -> bool:
        """True if the destination is not guaranteed."""
        return self.status.mode is MoveMode.SOFT

    @property
    def starts_first(self) -> bool:
        """True if the replacement is started before the old pod is evicted."""
        return self.status.mode is MoveMode.START_FIRST

    @property
    def end_s(self) -> float:
        """When the move gives up, if nothing has been evicted by then."""
        migration, most_s = self.observed.migration, self.settings.reservations.longest_ttl_s
        ttl_s = self.settings.reservations.ttl_s if migration.ttl_s is None else migration.ttl_s
        return migration.created_at_s + (min(ttl_s, most_s) if ttl_s > 0 else most_s)

    @property
    def paused_until_s(self) -> float | None:
        """Until when a paused move may hold room; None: it holds none of its own.

        A new pause begins anew: what bounds all of them together is ``end_s``.
        """
        if self.status.phase is MigrationPhase.PENDING or not (self.made_reservation or self.starts_first):
            return None
        said = condition(self.status.conditions, CONDITION_PROGRESS)
        known = said is not None and said.reason == MigrationReason.PAUSED
        since_s = seconds_of(said.last_transition_time) if said is not None and known else self.now_s
        return since_s + self.settings.reservations.ttl_s


def available(reservation: Reservation | None) -> bool:
    """True if it holds room that no pod has claimed."""
    return (
        reservation is not None
        and reservation.status.phase is ReservationPhase.AVAILABLE
        and not reservation.deleting
        and not reservation.status.current_owners
    )
