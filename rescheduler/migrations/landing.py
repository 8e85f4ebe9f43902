"""After the eviction: the replacement claims its room, is bound there, becomes Ready. No room is released early.

The Reservation machine carries out the hand-over; this module turns its outcome into the outcome of the move. The
Reservation is never deleted while a claimant depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rescheduler.calls.objects import delete_migration
from rescheduler.migrations.checks import reason_of, reservation_words
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.migration_lifecycle import CONDITION_READY
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.migrations.observed_migration import ObservedMigration
from rescheduler.migrations.replacement_checks import lacking
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.node_status import MOVED_ON_REQUEST
from rescheduler.model.own_objects import Condition, condition, told
from rescheduler.model.records import OwnerRef, Pod, PodPhase
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.planning.avoid import entry_for, holds

_UNGATED_AFTER_S: Final = 5.0
"""How long a gated replacement may follow an ungated one before the move has failed, or a controller be scaled up again."""

_FAILED_BECAUSE: Final[Mapping[str, Why]] = {
    "LandedElsewhere": Why.LANDED_ELSEWHERE,
    "GateTimeout": Why.GATE_TIMEOUT,
    "ClaimantLost": Why.REPLACEMENT_GONE,
    "Expired": Why.REPLACEMENT_PENDING,
    "HigherPriorityWaits": Why.HIGHER_PRIORITY_WAITS,
    "NodeNotReady": Why.TARGET_LOST,
    "NodeDeleted": Why.TARGET_LOST,
}


def handing_over(draft: Draft) -> None:
    """The old pod is terminating or gone; wait until its replacement is bound."""
    reservation = draft.observed.reservation
    leave_hint(draft, draft.observed.controller)
    if reservation is None or reservation.deleting:
        draft.fail(
            Why.RESERVATION_LOST,
            f"Reservation {draft.status.reservation_name} was deleted during the hand-over",
        )
    # The phase is checked before the owners: a Reservation that has ended still lists the pod that claimed it.
    elif reservation.status.phase is ReservationPhase.SUCCEEDED:
        _landed(draft, reservation)
    elif reservation.status.phase is ReservationPhase.FAILED:
        _not_landed(draft, reservation)
    elif reservation.status.current_owners:
        _claimed(draft, reservation)
    else:
        _unclaimed(draft)


def finished(draft: Draft) -> None:
    """Record whether the replacement becomes Ready; later delete the object (as row K71 says of Reservations)."""
    status, settings = draft.status, draft.settings
    if status.phase is MigrationPhase.SUCCEEDED:
        _watch_ready(draft)
    collect_at_s = status.finished_at_s + settings.reservations.finished_ttl_s
    if draft.now_s >= collect_at_s:
        if draft.observed.waits.awaited:
            return  # the move that begins after this one could not tell its success from its deletion
        if not draft.observed.recorded.ended:
            return  # what limits count of it would be lost; the round after the record is stored deletes it
        migration = draft.observed.migration
        draft.do(delete_migration(migration))
    else:
        draft.wake(collect_at_s)


def leave_hint(draft: Draft, owner: OwnerRef | None) -> None:
    """Leave a hint that pods of this controller should avoid the source node for a while (rows R53-R58)."""
    migration, source = draft.observed.migration, draft.observed.source
    if source is None or owner is None or not owner.uid or migration.hint_s == 0:
        return
    reason, asked_s = migration.policy or MOVED_ON_REQUEST, migration.hint_s
    # Counted from the eviction, so that every step asks for the same.
    entry = entry_for(owner, migration.namespace, reason, draft.status.evicted_at_s or draft.now_s, asked_s)
    standing = holds(source.avoid, migration.namespace, owner.uid, draft.now_s)
    until_s = max((one.expires_at_s for one in standing if one.reason == reason), default=0.0)
    if not until_s or (asked_s is not None and until_s < entry.expires_at_s):
        draft.hint = entry
        until_s = entry.expires_at_s
    draft.change(source_avoided_until_s=until_s)


def _landed(draft: Draft, reservation: Reservation) -> None:
    owners = reservation.status.current_owners
    node = reservation.status.node_name
    name = owners[0].name if owners else "the replacement"
    draft.change(replacement=owners[0] if owners else None, node_name=node, landed_at_s=draft.now_s)
    draft.go(MigrationPhase.SUCCEEDED, Why.LANDED, f"{name} landed on node/{node}")
    _watch_ready(draft)


def _not_landed(draft: Draft, reservation: Reservation) -> None:
    owners = reservation.status.current_owners
    if owners:
        draft.change(replacement=owners[0])
    why = _FAILED_BECAUSE.get(reason_of(reservation), Why.RESERVATION_LOST)
    ready = condition(reservation.status.conditions, "Ready")
    words = ready.message if ready else f"Reservation {reservation.name} has failed"
    draft.fail(why, words)


def _claimed(draft: Draft, reservation: Reservation) -> None:
    owner = reservation.status.current_owners[0]
    draft.change(replacement=owner)
    ready = condition(reservation.status.conditions, "Ready")
    draft.say(Why.HANDING_OVER, ready.message if ready else f"claimed by {owner.namespace}/{owner.name}")


def _unclaimed(draft: Draft) -> None:
    observed = draft.observed
    if observed.pod is not None and observed.same_pod:
        draft.say(Why.WAITING_FOR_REPLACEMENT, f"pod {observed.pod.key} is terminating")
        return
    # The later of two times. After a crash the first sighting is too late, never too early; the recorded eviction is
    # earlier than the end of the pod.
    gone_s = max(observed.calls.pod_gone_at_s, draft.status.evicted_at_s)
    limit_s = gone_s + draft.settings.replacement_limit_s + observed.replacement_delay_s
    if observed.none_comes:
        draft.fail(Why.REPLACEMENT_MISSING, observed.none_comes)
        return
    ungated = observed.ungated
    if observed.complete:
        if draft.now_s >= gone_s + _UNGATED_AFTER_S:
            draft.fail(Why.REPLACEMENT_MISSING, observed.complete)
            return
        draft.wake(gone_s + _UNGATED_AFTER_S)
    if ungated is not None and not draft.soft:
        # Wait a moment: if the controller creates several pods, a gated one may follow.
        if draft.now_s >= gone_s + _UNGATED_AFTER_S:
            draft.fail(Why.REPLACEMENT_UNGATED, _without_gate(observed, ungated))
            return
        draft.wake(gone_s + _UNGATED_AFTER_S)
    if (
        draft.now_s >= limit_s
        and observed.reservation is not None
        and _FAILED_BECAUSE.get(reason_of(observed.reservation)) is Why.TARGET_LOST
    ):
        draft.fail(Why.TARGET_LOST, reservation_words(observed.reservation))
        return
    if draft.now_s >= limit_s:
        waited = f"{draft.settings.replacement_limit_s + observed.replacement_delay_s:g} s"
        said = f"no replacement claimed the room within {waited}{_where_to_look(observed)}"
        draft.fail(Why.REPLACEMENT_MISSING, said)
        return
    draft.say(Why.WAITING_FOR_REPLACEMENT, "the pod is gone; waiting for its replacement")
    draft.wake(limit_s)


def _without_gate(observed: ObservedMigration, pod: Pod) -> str:
    """Why a replacement that is not at the gate did not take the room. One that was refused its claim for long has been let go."""
    missing = lacking(observed.reservation, pod)
    if missing:
        why = f"is larger than its room ({missing})"
    elif observed.refused:
        why = f"is not at the gate, and the API server refuses what gives it its room ({observed.refused})"
    else:
        why = "was created without the gate"
    where = f"is bound to node/{pod.node}" if pod.node else "has no node yet"
    return f"{pod.key} {why}, so it did not take the room; it {where}"


def _where_to_look(observed: ObservedMigration) -> str:
    """The end of a message: the Events of the controller say why it created no pod (a quota, a webhook)."""
    owner = observed.controller
    if owner is None:
        return ""
    namespace = observed.migration.namespace
    return f"; why none was created: kubectl describe {owner.kind.lower()} {owner.name} -n {namespace}"


def _watch_ready(draft: Draft) -> None:
    status, claimant = draft.status, draft.observed.claimant
    if status.ready_at_s or condition(status.conditions, CONDITION_READY) is not None:
        return
    if claimant is not None and claimant.ready:
        said = Condition(CONDITION_READY, "True", "Ready", f"{claimant.key} is Ready")
        draft.change(ready_at_s=draft.now_s, conditions=told(status.conditions, said, draft.now_s))
        return
    seen = (
        draft.observed.migration.status.phase is MigrationPhase.SUCCEEDED
    )  # else the look for it was an earlier one
    lost = _lost_before_ready(claimant) if seen else ""
    if lost and status.replacement is not None:
        name = f"{status.replacement.namespace}/{status.replacement.name}"
        message = f"{name} landed on node/{status.node_name} and {lost} before it was Ready"
        said = Condition(CONDITION_READY, "False", Why.REPLACEMENT_GONE, message)
        draft.change(conditions=told(status.conditions, said, draft.now_s))
        draft.tell(Why.REPLACEMENT_GONE, message)
        return
    limit_s = status.landed_at_s + draft.settings.ready_limit_s
    if draft.now_s < limit_s:
        draft.wake(limit_s)
        return
    message = f"the replacement was not Ready within {draft.settings.ready_limit_s:g} s"
    said = Condition(CONDITION_READY, "False", Why.REPLACEMENT_NEVER_READY, message)
    draft.change(conditions=told(status.conditions, said, draft.now_s))


def _lost_before_ready(claimant: Pod | None) -> str:
    """What has ended the replacement; "": nothing has."""
    if claimant is None:
        return "was deleted"
    if claimant.deleting:
        return f"was deleted ({claimant.disruption_reason})" if claimant.disruption_reason else "was deleted"
    return "failed" if claimant.phase is PodPhase.FAILED else ""
