"""One step of a move: from what is observed now to its new status and the calls to take.

Pure. Promises: a pod is evicted only if, in the same step, the Reservation is Available (StartFirst: the replacement is
Ready), the intent is on the API server, and (unless the mode is Soft) the gate is proven. A failure before the eviction
releases everything and leaves the pod running; after the eviction the Reservation stays while its claimant needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from rescheduler.calls.call import AnyCall
from rescheduler.calls.objects import unreadable, write_status
from rescheduler.migrations import start_first
from rescheduler.migrations.checks import may_begin, pending, reserving
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.evicting import evicting, take_request_back
from rescheduler.migrations.landing import finished, handing_over
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.migrations.observed_migration import MigrationSettings, ObservedMigration
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.own_objects import with_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep:
    """The outcome of one step. ``wake_at_s``: take the next step then at the latest, even if nothing changes."""

    status: MigrationStatus
    calls: tuple[AnyCall, ...] = ()
    wake_at_s: float | None = None
    begins: bool = False
    """The move may begin once its beginning is recorded in ConfigMap ``move-history``."""
    gate_until_s: float = 0.0
    """Until when the gate is to be on for it, although the intent to evict is not written; 0.0: it is not."""
    hint: AvoidEntry | None = None
    """What the node that the pod leaves is to say, and does not yet (``coordination.node_hints``)."""


def step(observed: ObservedMigration, now_s: float, settings: MigrationSettings) -> MigrationStep:
    """What to do for one move now."""
    migration = observed.migration
    if migration.unreadable and not migration.deleting and migration.status.phase not in FINISHED:
        unread, calls = unreadable(migration, migration.status, now_s)
        return MigrationStep(status=unread, calls=calls)
    draft = Draft(
        observed=observed,
        now_s=now_s,
        settings=settings,
        status=msgspec.structs.replace(
            migration.status,
            observed_generation=migration.generation,
            conditions=with_readable(migration.status.conditions, "", now_s),
        ),
    )
    if migration.deleting:
        # After the eviction the room belongs to the replacement, and the Reservation machine completes the hand-over.
        if not draft.evicted:
            draft.release(f"PodMigration {migration.key} is being deleted")
        return MigrationStep(status=migration.status, calls=tuple(draft.calls))
    phase = migration.status.phase
    if phase in FINISHED:
        finished(draft)
    elif phase is not MigrationPhase.PENDING or may_begin(draft):
        (_START_FIRST if draft.starts_first else _RESERVE_FIRST)[phase](draft)
    take_request_back(draft)
    return _close(draft)


def _reserving(draft: Draft) -> None:
    reserving(draft)
    if draft.status.phase is MigrationPhase.EVICTING:  # in the same round, so that one write says both
        _evicting(draft)


def _evicting(draft: Draft) -> None:
    evicting(draft)
    if draft.status.phase is MigrationPhase.HANDING_OVER:
        handing_over(draft)


_RESERVE_FIRST: Final[Mapping[MigrationPhase, Callable[[Draft], None]]] = {
    MigrationPhase.PENDING: pending,
    MigrationPhase.RESERVING: _reserving,
    MigrationPhase.EVICTING: _evicting,
    MigrationPhase.HANDING_OVER: handing_over,
}
_START_FIRST: Final[Mapping[MigrationPhase, Callable[[Draft], None]]] = {
    MigrationPhase.PENDING: start_first.begin,
    MigrationPhase.RESERVING: start_first.starting,
    MigrationPhase.EVICTING: start_first.evicting_the_old_pod,
    MigrationPhase.HANDING_OVER: start_first.adopting,
}


def _close(draft: Draft) -> MigrationStep:
    migration, status = draft.observed.migration, draft.status
    if status != migration.status:
        draft.calls.insert(0, write_status(migration, status))
        # That it has succeeded its status says, and the owner has the Event of the eviction: the object stays for as long.
        if status.phase is not migration.status.phase and status.phase is MigrationPhase.FAILED:
            draft.tell(status.reason, status.message)
    return MigrationStep(
        status=status,
        calls=tuple(draft.calls),
        wake_at_s=draft.wake_at_s,
        begins=draft.begins,
        gate_until_s=draft.gate_until_s,
        hint=draft.hint,
    )
