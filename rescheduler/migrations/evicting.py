"""From Available to evicted: the last checks, the gate, and the one call that cannot be taken back.

Order: decision still holds -> dry run passes -> the intent is written -> gate on and proven -> evict with
the uid. The intent (``evictionRequestedAt``) is on the API server before the call, so that after a crash
the replacement is recognised; it is taken back when the answer proves that nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rescheduler.migrations import actions as act
from rescheduler.migrations.checks import budget_words, budgets_allow, still_wanted
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.lifecycle import MigrationReason as Why
from rescheduler.model.eviction import EvictionOutcome, EvictionResult
from rescheduler.model.migration import MigrationPhase
from rescheduler.reservations.actions import RecordEvent

_DRY_RUN_FRESH_S: Final = 5.0
_LOOK_AGAIN_S: Final = 1.0
_PROVE_AGAIN_S: Final = 0.05
_SURELY_FORBIDDEN_S: Final = 10.0
"""An API server that starts forbids everything until it has read the roles."""

_HAPPENED: Final = frozenset({EvictionOutcome.EVICTED, EvictionOutcome.GONE, EvictionOutcome.REPLACED})
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
    """What must hold before an eviction whose room a Reservation holds. False: said, and what it means."""
    return _room_held(draft) and _decision_holds(draft)


def evicting(draft: Draft, held: Callable[[Draft], bool] = room_held) -> None:
    """Room is held, as ``held`` judges. Evict as soon as everything allows it."""
    if draft.status.eviction_requested_at_s:
        _requested(draft, held)
    elif still_wanted(draft) and held(draft) and budgets_allow(draft):
        _rehearse(draft)


def back_off_s(draft: Draft, retry_after_s: float | None) -> float:
    """The wait after a refusal: what the server asks for, else doubling (a blocking budget asks for none)."""
    if retry_after_s is not None:
        return retry_after_s
    settings, budgets = draft.settings, draft.observed.budgets
    if draft.observed.calls.forbidden_since_s:  # soon over, or the end
        return settings.first_backoff_s
    if budgets and budgets[0].disruptions_allowed > 0:  # the budget has moved since
        return settings.first_backoff_s
    doubled = settings.first_backoff_s * 2.0 ** min(max(0, draft.observed.calls.tries - 1), 16)
    return float(min(settings.last_backoff_s, doubled))


def _room_held(draft: Draft) -> bool:
    if draft.room_ready:
        return True
    draft.change(eviction_requested_at_s=0.0)
    draft.go(MigrationPhase.RESERVING, Why.RESERVING, "the Reservation is not Available any more")
    return False


def _decision_holds(draft: Draft) -> bool:
    fits = draft.observed.fits
    if fits.ok:
        return True
    draft.fail(Why.DECISION_STALE, f"node {draft.status.node_name}: {fits.message}")
    return False


def _rehearse(draft: Draft) -> None:
    calls = draft.observed.calls
    result = calls.dry_run
    if result is None:
        _dry_run(draft)
    elif result.outcome is EvictionOutcome.EVICTED:
        if draft.now_s > calls.dry_run_at_s + _DRY_RUN_FRESH_S:
            _dry_run(draft)
            return
        retry_at_s = _refused_until(draft)
        if draft.now_s < retry_at_s:
            draft.wake(retry_at_s)
            return
        draft.change(eviction_requested_at_s=draft.now_s)
        draft.say(Why.EVICTING if draft.soft else Why.PROVING_GATE, "the eviction is being prepared")
    else:
        _refused(draft, result, calls.dry_run_at_s)


def _refused_until(draft: Draft) -> float:
    """After a real refusal the next try waits, even if a dry run passes in between."""
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
        draft.say(Why.SERVER_BUSY, result.message or "the API server gave no answer")


def _dry_run(draft: Draft) -> None:
    migration, pod = draft.observed.migration, draft.observed.pod
    if pod is not None:
        draft.do(act.DryRunEvict(migration.key, pod.key, pod.uid, migration.grace_s))


# The intent is written -----------------------------------------------------------------------------


def _requested(draft: Draft, held: Callable[[Draft], bool]) -> None:
    observed, calls = draft.observed, draft.observed.calls
    pod, requested_s = observed.pod, draft.status.eviction_requested_at_s
    result = calls.eviction if calls.eviction_at_s >= requested_s else None
    if pod is None or not observed.same_pod or pod.deleting or (result and result.outcome in _HAPPENED):
        _evicted(draft)
    elif result is not None and result.outcome is not EvictionOutcome.UNKNOWN:
        _take_back(draft, result)
    elif result is not None and draft.now_s < calls.eviction_at_s + _LOOK_AGAIN_S:
        draft.wake(calls.eviction_at_s + _LOOK_AGAIN_S)
    elif not still_wanted(draft):
        if draft.status.phase is MigrationPhase.EVICTING:  # paused
            draft.change(eviction_requested_at_s=0.0)
    elif held(draft) and (draft.soft or _gate_proven(draft)):
        draft.say(Why.EVICTING, f"pod {pod.key} is being evicted")
        draft.do(act.Evict(observed.migration.key, pod.key, pod.uid, observed.migration.grace_s))


def _evicted(draft: Draft) -> None:
    migration, pod = draft.observed.migration, draft.observed.pod
    draft.change(evicted_at_s=draft.now_s)
    draft.go(
        MigrationPhase.HANDING_OVER,
        Why.WAITING_FOR_REPLACEMENT,
        f"pod {migration.pod_name} was evicted; waiting for its replacement",
    )
    if pod is not None and draft.observed.same_pod:
        message = f"Evicted: room is held on node {draft.status.node_name}"
        draft.do(RecordEvent("Pod", pod.namespace, pod.name, pod.uid, "Rescheduled", message))
        owner = pod.controller
        if owner is not None:
            moved = f"Pod {pod.name} was evicted from node {pod.node}: room is held on node {draft.status.node_name}"
            draft.do(RecordEvent(owner.kind, pod.namespace, owner.name, owner.uid, "PodRescheduled", moved))


def _take_back(draft: Draft, result: EvictionResult) -> None:
    """The answer proves that nothing was evicted: take the intent (and with it the gate) back."""
    match result.outcome:
        case EvictionOutcome.MULTIPLE_BUDGETS:
            draft.fail(Why.MULTIPLE_BUDGETS, result.message)
        case EvictionOutcome.FORBIDDEN if _surely_forbidden(draft, draft.observed.calls.eviction_at_s):
            draft.fail(Why.FORBIDDEN, result.message)
        case _:
            draft.change(eviction_requested_at_s=0.0)
            _wait_for_budget(draft, result)
            draft.wake(draft.observed.calls.eviction_at_s + back_off_s(draft, result.retry_after_s))


def _gate_proven(draft: Draft) -> bool:
    observed, calls = draft.observed, draft.observed.calls
    requested_s = draft.status.eviction_requested_at_s
    if calls.gate_proven_at_s >= requested_s:
        settled_s = calls.gate_proven_at_s + draft.settings.gate_settle_s
        if draft.now_s >= settled_s:
            return True
        draft.wake(settled_s)
        return False
    if draft.now_s >= requested_s + draft.settings.gate_limit_s and calls.gate_asked_at_s >= requested_s:
        draft.fail(Why.GATE_NOT_IN_FORCE, calls.gate_message or "new pods of the controller are not held")
        return False
    pod = observed.pod
    if pod is not None and pod.controller is not None:
        draft.do(act.ProveGate(observed.migration.key, pod.controller, pod.namespace))
        draft.wake(draft.now_s + _PROVE_AGAIN_S)
    return False
