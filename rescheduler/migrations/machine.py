"""One step of a move: what is seen now -> the status that is true, and what to do about it.

Pure. Promises: no eviction is asked for unless the Reservation is Available in the same look (StartFirst: the
replacement is Ready), the intent is on the API server, and (unless the mode is Soft) the gate is proven; before the eviction every failure
gives everything back and nobody was disturbed; after it the Reservation stays while its claimant needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rescheduler.migrations import actions as act
from rescheduler.migrations import start_first
from rescheduler.migrations.checks import may_begin, pending, reserving
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.evicting import evicting
from rescheduler.migrations.landing import finished, handing_over
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.migrations.observed import MigrationSettings, ObservedMigration
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.reservations.actions import RecordEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep:
    """The outcome of one look. ``wake_at_s``: look again then at the latest, even if nothing is heard."""

    status: MigrationStatus
    actions: tuple[act.MigrationAction, ...] = ()
    wake_at_s: float | None = None


def step(observed: ObservedMigration, now_s: float, settings: MigrationSettings) -> MigrationStep:
    """What to do for one move now."""
    migration = observed.migration
    draft = Draft(
        observed=observed,
        now_s=now_s,
        settings=settings,
        status=msgspec.structs.replace(migration.status, observed_generation=migration.generation),
    )
    if migration.deleting:
        if not draft.evicted:
            draft.release()
        return MigrationStep(status=migration.status, actions=tuple(draft.actions))
    match migration.status.phase:
        case MigrationPhase.PENDING:
            if may_begin(draft):
                (start_first.begin if draft.starts_first else pending)(draft)
        case MigrationPhase.RESERVING:
            (start_first.starting if draft.starts_first else reserving)(draft)
        case MigrationPhase.EVICTING:
            (start_first.swapping if draft.starts_first else evicting)(draft)
        case MigrationPhase.HANDING_OVER:
            (start_first.adopting if draft.starts_first else handing_over)(draft)
        case MigrationPhase.SUCCEEDED | MigrationPhase.FAILED:
            finished(draft)
    return _close(draft)


def _close(draft: Draft) -> MigrationStep:
    migration = draft.observed.migration
    actions = tuple(draft.actions)
    if draft.status != migration.status:
        write = act.WriteMigrationStatus(
            migration.key, migration.uid, migration.resource_version, draft.status
        )
        actions = (write, *actions)
        if draft.status.phase is not migration.status.phase:
            actions = (*actions, _event(draft))
    return MigrationStep(status=draft.status, actions=actions, wake_at_s=draft.wake_at_s)


def _event(draft: Draft) -> RecordEvent:
    migration, status = draft.observed.migration, draft.status
    return RecordEvent(
        kind="PodMigration",
        namespace=migration.namespace,
        name=migration.name,
        uid=migration.uid,
        reason=status.reason if status.phase in FINISHED else str(status.phase),
        message=status.message,
        warning=status.phase is MigrationPhase.FAILED,
    )
