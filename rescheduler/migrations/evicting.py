"""From Available to evicted: the last checks, the gate, and the eviction, the only call that cannot be taken back.

Order: the decision still holds -> a dry-run creation shows a replacement that fits the room -> a dry run of the eviction passes,
where it may be refused or other moves depend on it -> the gate is proven and settled (begun earlier) -> a dry-run creation from
its last tenth of a second, half a second old at most, still fits the room -> in one step, the second call only if the first one
has succeeded: write the intent, evict with uid.
The intent (``evictionRequestedAt``) is on the API server before the eviction is sent, so that the replacement is recognised after
a crash, and by compare and swap, so that a move which somebody has deleted or paused evicts nothing. It is withdrawn if the
answer proves that no pod was evicted. Only where the gate waits for the intent (StartFirst), or is not in force, it comes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from rescheduler.calls.pods import evict, evict_by_request, measure_watch, withdraw_eviction_request
from rescheduler.migrations.checks import (
    availability_allows,
    budget_words,
    budgets_allow,
    nobody_waits,
    not_recorded,
    still_wanted,
)
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.gate_in_force import (
    AWAITED_S,
    LOOK_LEAD_S,
    gate_proven,
    prepare,
    proves,
    settled_s,
    settles,
)
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.migrations.replacement_checks import (
    LAST_LOOK_S,
    LOOK_LASTS_S,
    asked,
    is_its_turn,
    room_suffices,
)
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.room_pod import mark_of
from rescheduler.model.times import doubling_s

_DRY_RUN_FRESH_S: Final = 5.0
"""How long a dry run that passed is relied on."""
_LOOK_AGAIN_S: Final = 1.0
"""How long the cache has to show an eviction whose answer was lost, before the eviction is sent again."""
_LOOK_AGAIN_AT_LAST_S: Final = 8.0
"""The longest of these waits: new pods of the controller are gated meanwhile."""
_SURELY_FORBIDDEN_S: Final = 10.0
"""403 for longer than this ends the move. An API server that starts answers 403 until it has read the roles."""
_UNGATED: Final = (
    "new pods of the controller do not get the gate: the controller's own pod got it in a dry run, one in namespace {} did not; "
    "another mutating policy or webhook prevents it there (rescheduler check)"
)

# Evictions carry the uid: if the pod is gone or has another uid, the pod of this move has ended under our intent.
_HAPPENED: Final = frozenset({EvictionOutcome.EVICTED, EvictionOutcome.GONE, EvictionOutcome.REPLACED})
_MAY_HAPPEN: Final = frozenset({EvictionOutcome.UNKNOWN, EvictionOutcome.AWAITED})
_WAIT: Final = frozenset(
    {
        EvictionOutcome.BLOCKED,
        EvictionOutcome.STALE,
        EvictionOutcome.OVERLOADED,
        EvictionOutcome.FAILED,
        EvictionOutcome.FORBIDDEN,
    }
)


def room_held(draft: Draft) -> bool:
    """True if the Reservation holds the room and the decision is still valid. False: the status has the reason."""
    return _room_held(draft) and room_suffices(draft) and _decision_holds(draft)


def evicting(draft: Draft, held: Callable[[Draft], bool] = room_held) -> None:
    """Evict the pod as soon as every check passes. ``held``: checks that room is held."""
    if draft.status.eviction_requested_at_s:
        _requested(draft, held)
    elif still_wanted(draft) and held(draft) and _keeps_its_place(draft, None):
        prepare(draft)
        if budgets_allow(draft) and not proves(draft) and _looked(draft):
            _rehearse(draft)


def back_off_s(draft: Draft, retry_after_s: float | None) -> float:
    """The wait after a refusal: the server's Retry-After, else a doubling backoff (a budget that blocks sends none)."""
    if retry_after_s is not None:
        return retry_after_s
    settings, budgets = draft.settings, draft.observed.budgets
    if draft.observed.calls.forbidden_since_s:  # it passes soon, or the move ends
        return settings.first_backoff_s
    if budgets and budgets[0].disruptions_allowed > 0:  # the budget allows it again since the refusal
        return settings.first_backoff_s
    return doubling_s(settings.first_backoff_s, draft.observed.calls.tries, settings.last_backoff_s)


def _room_held(draft: Draft) -> bool:
    if draft.room_ready:
        return True
    # The intent keeps the gate on, and a gate without room to give would only delay pods.
    draft.change(eviction_requested_at_s=0.0)
    if draft.made_reservation:
        draft.change(reservation_uid="")  # another one may be made
    draft.go(MigrationPhase.RESERVING, Why.RESERVING, "the Reservation is not Available any more")
    return False


def _decision_holds(draft: Draft) -> bool:
    fits = draft.observed.fits
    if fits.ok:
        return True
    draft.fail(Why.DECISION_STALE, f"node/{draft.status.node_name}: {fits.message}")
    return False


def _keeps_its_place(draft: Draft, result: EvictionResult | None) -> bool:
    """False if a pending pod of higher priority would take the capacity as soon as the replacement lands.

    The placeholder alone keeps that pod out. So the move ends and gives the capacity back; but it waits while no scheduler
    has looked at the pod yet, because the pod may be bound to another node. ``result``: of an eviction that may have happened.
    """
    higher = draft.observed.higher_waits
    if higher is None:
        return True
    if higher.settled:
        draft.fail(Why.HIGHER_PRIORITY_WAITS, higher.message)
        return False
    if result is None:
        draft.change(eviction_requested_at_s=0.0)
    nobody_waits(draft)
    draft.wake(draft.now_s + _LOOK_AGAIN_S)
    return False


def _others_ready(draft: Draft) -> bool:
    """False while the room that this pod steps aside for is not kept, or another one has nowhere to go yet."""
    waits_for = draft.observed.waits.evicts_after
    if waits_for:
        draft.say(Why.MAKING_ROOM, waits_for)
        draft.wake(draft.now_s + _LOOK_AGAIN_S)
    return not waits_for


def _looked(draft: Draft) -> bool:
    return asked(draft, LAST_LOOK_S) and is_its_turn(draft) and _sees(draft)


def _sees(draft: Draft) -> bool:
    """False while the caches are too far behind to bring the replacement to its room in time, or that is not known.

    It is measured by a write to the placeholder; where there is none, only what other writes have shown counts.
    """
    watch_lag = draft.observed.watch_lag
    if not watch_lag.late and (watch_lag.proven or watch_lag.placeholder is None):
        return True
    draft.change(eviction_requested_at_s=0.0)
    if watch_lag.late:
        draft.say(Why.LATE_WATCH, f"what the controller sees is too far behind: {watch_lag.late}")
    draft.wake(draft.now_s + _LOOK_AGAIN_S)
    if not watch_lag.proven and watch_lag.placeholder is not None:
        draft.do(measure_watch(watch_lag.placeholder, draft.now_s))
    return False


def _rehearse(draft: Draft) -> None:
    calls = draft.observed.calls
    result = calls.dry_run
    if result is None and not _may_be_refused(draft):
        _intend(draft)
    # The budget may have been used up since, so an old answer is not relied on.
    elif result is None or (
        result.outcome is EvictionOutcome.EVICTED and draft.now_s > calls.dry_run_at_s + _DRY_RUN_FRESH_S
    ):
        _dry_run(draft)
    elif result.outcome is EvictionOutcome.EVICTED:
        _intend(draft)
    else:
        _refused(draft, result, calls.dry_run_at_s)


def _may_be_refused(draft: Draft) -> bool:
    """False if a dry run would show nothing that the eviction itself does not show as well, at the price of one intent.

    No budget selects the pod, no eviction of it was refused so far, and no other move or started replacement depends on it.
    """
    observed = draft.observed
    waits, move = observed.waits, observed.migration
    linked = waits.awaited or waits.evicts_after or move.after or mark_of(move)
    return bool(observed.budgets or observed.calls.eviction or draft.starts_first or linked)


def _intend(draft: Draft) -> None:
    """Write the intent, and evict in the same step if the gate is in force."""
    retry_at_s = _refused_until(draft)
    if draft.now_s < retry_at_s:
        draft.wake(retry_at_s)
        return
    # Only now, so that a move that says it waits for others could evict itself (``coordination.waiting_room``).
    if settles(draft) or not _others_ready(draft):
        return
    kept_on = draft.gate_until_s >= draft.now_s + AWAITED_S and not math.isinf(settled_s(draft))
    if not (kept_on or draft.soft):
        draft.change(eviction_requested_at_s=draft.now_s)
        draft.say(Why.PROVING_GATE, "the eviction is being prepared")
    elif _looked_last(draft) and gate_proven(draft) and _comes_gated(draft) and _recorded(draft):
        draft.change(eviction_requested_at_s=draft.now_s)
        _evict(draft, "is being evicted")


def _refused_until(draft: Draft) -> float:
    """When the backoff after a refused eviction ends. A dry run that passes in between does not shorten it."""
    calls = draft.observed.calls
    if calls.eviction is None or calls.eviction.outcome not in _WAIT:
        return 0.0
    return calls.eviction_at_s + back_off_s(draft, calls.eviction.retry_after_s)


def _refused(draft: Draft, result: EvictionResult, at_s: float) -> None:
    match result.outcome:
        case EvictionOutcome.GONE:
            draft.fail(Why.POD_GONE, "the pod is gone")
        case EvictionOutcome.REPLACED:
            draft.fail(Why.POD_REPLACED, result.message)
        case EvictionOutcome.MULTIPLE_BUDGETS:
            draft.fail(Why.MULTIPLE_BUDGETS, result.message)
        case EvictionOutcome.FORBIDDEN if _surely_forbidden(draft, at_s):
            draft.fail(Why.FORBIDDEN, result.message)
        case _:
            _wait_for_budget(draft, result)
            again_s = at_s + back_off_s(draft, result.retry_after_s)
            if draft.now_s >= again_s:
                _dry_run(draft)
            else:
                draft.wake(again_s)


def _surely_forbidden(draft: Draft, at_s: float) -> bool:
    return at_s >= draft.observed.calls.forbidden_since_s + _SURELY_FORBIDDEN_S


def _wait_for_budget(draft: Draft, result: EvictionResult) -> None:
    if result.outcome in (EvictionOutcome.BLOCKED, EvictionOutcome.STALE):
        budgets = draft.observed.budgets
        draft.say(Why.DISRUPTION_BUDGET, budget_words(budgets[0]) if budgets else result.message)
    elif result.outcome is EvictionOutcome.FAILED:
        draft.say(Why.EVICTION_FAILED, result.message)
    elif result.outcome is EvictionOutcome.FORBIDDEN:
        draft.say(Why.FORBIDDEN, result.message)
    else:
        draft.say(Why.SERVER_BUSY, result.message or "the API server did not answer")


def _dry_run(draft: Draft) -> None:
    migration, pod = draft.observed.migration, draft.observed.pod
    if pod is not None:
        draft.do(evict(pod, migration.grace_s, dry_run=True))


# The intent is written -----------------------------------------------------------------------------


def _requested(draft: Draft, held: Callable[[Draft], bool]) -> None:
    observed, calls = draft.observed, draft.observed.calls
    pod, result = observed.pod, calls.answer_for(draft.status)
    # After a crash there is no answer: a pod that is gone or ending under a written intent counts as evicted by us, for
    # its replacement is gated and must get the room.
    if pod is None or not observed.same_pod or pod.deleting or (result and result.outcome in _HAPPENED):
        _evicted(draft)
    elif result is not None and result.outcome not in _MAY_HAPPEN:
        _take_back(draft, result)
    # The answer was lost, or others are asked: the pod may have been evicted. The cache gets a moment to show it before it is asked again.
    elif result is not None and draft.now_s < (again_s := _sent_again_s(draft, result)):
        if result.outcome is EvictionOutcome.AWAITED:
            draft.say(Why.RESPONDER_FIRST, result.message)
        draft.wake(again_s)
    elif not still_wanted(draft):
        if (
            draft.status.phase is MigrationPhase.EVICTING
        ):  # paused: without the intent no new pod is gated meanwhile
            draft.change(eviction_requested_at_s=0.0)
    elif (
        held(draft)
        and _keeps_its_place(draft, result)
        and _others_ready(draft)
        and _stays_available(draft, result)
        and (result is not None or _sees(draft))
        and _looked_last(draft)
        and gate_proven(draft)
        and _comes_gated(draft)
        and _recorded(draft)
    ):
        awaited = result is not None and result.outcome is EvictionOutcome.AWAITED
        # Other words than with the intent: so the first try after it, by another process perhaps, has a compare and swap as well.
        _evict(draft, "" if awaited else "is being evicted, as was intended before")


def _evict(draft: Draft, words: str) -> None:
    pod, move = draft.observed.pod, draft.observed.migration
    if pod is None:
        return
    if words:
        draft.say(Why.EVICTING, f"pod {pod.key} {words}")
    draft.do(evict_by_request(pod, move) if _by_request(draft) else evict(pod, move.grace_s))


def _by_request(draft: Draft) -> bool:
    """True if responders of the pod's owner have their turn before the controller: what people ask for is their own choice."""
    pod = draft.observed.pod
    return pod is not None and bool(pod.spec.responders) and not draft.observed.migration.requested


def take_request_back(draft: Draft) -> None:
    """An EvictionRequest stands only while the intent does: nobody else may take the pod away when its replacement has no room.

    Memory of it may be lost in a crash; then it is withdrawn once, whether it was filed or not.
    """
    observed, status, calls = draft.observed, draft.status, draft.observed.calls
    asks = status.eviction_requested_at_s or status.evicted_at_s or status.phase is MigrationPhase.PENDING
    if asks or observed.pod is None or not observed.same_pod or not _by_request(draft):
        return
    if not calls.request_withdrawn_at_s or calls.request_withdrawn_at_s < calls.eviction_at_s:
        draft.do(withdraw_eviction_request(observed.pod, observed.migration))


def _sent_again_s(draft: Draft, result: EvictionResult) -> float:
    pause_s = max(_LOOK_AGAIN_S, back_off_s(draft, result.retry_after_s))
    return draft.observed.calls.eviction_at_s + min(pause_s, _LOOK_AGAIN_AT_LAST_S)


def _stays_available(draft: Draft, result: EvictionResult | None) -> bool:
    """The last look at the pods of the workload, which no budget protects; if too few are available, the eviction waits.

    The intent is withdrawn meanwhile, unless an eviction without an answer may have happened: its replacement must be gated.
    """
    if availability_allows(draft):
        return True
    if result is None:
        draft.change(eviction_requested_at_s=0.0)
    return False


def _evicted(draft: Draft) -> None:
    observed, status = draft.observed, draft.status
    migration, calls, pod = observed.migration, observed.calls, observed.pod
    owner = pod.controller if pod is not None and observed.same_pod else observed.controller
    draft.change(evicted_at_s=calls.eviction_at_s if calls.evicted_for(status) else draft.now_s)
    draft.go(
        MigrationPhase.HANDING_OVER,
        Why.WAITING_FOR_REPLACEMENT,
        f"pod {migration.pod_name} was evicted; waiting for its replacement",
    )
    if owner is not None:
        held = f"room is held on node/{status.node_name}; moved by {migration.by}"
        draft.do(
            Event(
                ObjectReference(owner.kind, owner.name, migration.namespace, owner.uid, owner.api_version),
                reason="PodRescheduled",
                message=f"Pod {migration.pod_name} was evicted from node/{status.source_node}: {held}",
                related=ObjectReference("Pod", migration.pod_name, migration.namespace, migration.pod_uid),
            )
        )


def _take_back(draft: Draft, result: EvictionResult) -> None:
    """The answer proves that no pod was evicted: withdraw the intent, and with it the gate key."""
    match result.outcome:
        case EvictionOutcome.MULTIPLE_BUDGETS:
            draft.fail(Why.MULTIPLE_BUDGETS, result.message)
        case EvictionOutcome.FORBIDDEN if _surely_forbidden(draft, draft.observed.calls.eviction_at_s):
            draft.fail(Why.FORBIDDEN, result.message)
        case _:
            draft.change(eviction_requested_at_s=0.0)
            _wait_for_budget(draft, result)
            draft.wake(draft.observed.calls.eviction_at_s + back_off_s(draft, result.retry_after_s))


def _looked_last(draft: Draft) -> bool:
    """False while the last dry-run creation is on its way, so that admission that changed a moment ago counts.

    It is not older than ``LOOK_LASTS_S``; where answers take long it may be, or none would ever be young enough.
    """
    lasts_s, due_s = 3.0 * draft.observed.creation.took_s, settled_s(draft) - LOOK_LEAD_S
    return draft.now_s < due_s or asked(draft, min(max(LOOK_LASTS_S, lasts_s), LAST_LOOK_S), due_s)


def _comes_gated(draft: Draft) -> bool:
    """False, and the move ends, if the replacement would come without the gate: what others do to pods of its namespace takes it off.

    The proof is made in the controller's own namespace. A last look from before the gate has settled is made again.
    """
    seen = draft.observed.creation
    if draft.soft or draft.starts_first or not seen.ungated:
        return True
    if asked(draft, LAST_LOOK_S, settled_s(draft)):
        draft.fail(Why.GATE_NOT_IN_FORCE, _UNGATED.format(draft.observed.migration.namespace))
    return False


def _recorded(draft: Draft) -> bool:
    """False while ConfigMap ``move-history`` does not have the intent, or cannot be kept, as when API servers disagree on the time."""
    recorded = draft.observed.recorded
    if recorded.problem or not recorded.begun:
        not_recorded(draft)
        return False
    return True
