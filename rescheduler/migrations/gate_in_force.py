"""The gate as a move sees it: switched on before the intent to evict is written, proven, and settled before the eviction.

Pure. New pods of the controller must be gated when the old pod is evicted, on every API server. That takes the time in which
the key is written and proven, and ``gate_settle_s`` (``gate_settle_single_s`` where there is one API server). A pod whose
eviction is intended counts as unavailable, so this time is spent before the intent wherever it can be: from the moment at which
the move begins, while room is reserved, and while the eviction waits for other pods.
The round in which the key is stored asks for the proof, without waiting for the move (``controller.reconcile``). It comes before
the eviction in any case; a proof of another move of the same controller serves as well.
"""

from __future__ import annotations

import math
from typing import Final

from rescheduler.calls.call import GateProbe
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.model.migration import MigrationPhase

PREPARED_S: Final = 30.0
"""How long a move that waits keeps the gate on: pods that come meanwhile are admitted only in the next round."""
AWAITED_S: Final = 5.0
"""How long the intent waits for the gate."""
LOOK_LEAD_S: Final = 0.1
"""How long before the gate has settled the last look at the replacement is made: its answer takes about that long."""
_PROVE_AGAIN_S: Final = 0.05
"""Wait between two proofs of the gate."""


def prepare(draft: Draft) -> None:
    """Ask for the gate before the intent, for a limited time from the beginning of the move, and again once its room is held."""
    if draft.soft or draft.starts_first:
        return
    if draft.observed.migration.status.phase is MigrationPhase.PENDING:
        since_s = draft.observed.recorded.begun_at_s or draft.now_s
    else:
        since_s = max(draft.status.started_at_s, draft.status.reserved_at_s)
    until_s = since_s + PREPARED_S
    if draft.now_s >= until_s:
        return
    draft.gate_until_s = until_s
    draft.wake(until_s)


def proves(draft: Draft) -> bool:
    """True while the proof of the gate is awaited: the eviction is rehearsed after it, while the gate settles."""
    return not draft.observed.calls.gate_proven_at_s and settles(draft)


def settles(draft: Draft) -> bool:
    """True until the last look before the intent is due, because the gate settles.

    If that takes long, or a proof failed, the intent is written all the same: then the move ends, or goes on, as its limit says.
    """
    calls, status = draft.observed.calls, draft.status
    if not draft.gate_until_s or calls.gate_failed_at_s:
        return False
    until_s = max(status.started_at_s, status.reserved_at_s) + AWAITED_S
    if calls.gate_proven_at_s:
        until_s = min(until_s, settled_s(draft) - LOOK_LEAD_S)
    if draft.now_s >= until_s:
        return False
    draft.wake(until_s)
    return True


def settled_s(draft: Draft) -> float:
    """When all API servers have the gate, as far as that can be known; infinite: it is not proven."""
    if draft.soft:
        return 0.0
    calls, settings = draft.observed.calls, draft.settings
    if not calls.gate_proven_at_s:
        return math.inf
    return calls.gate_proven_at_s + (
        settings.gate_settle_single_s if calls.gate_single else settings.gate_settle_s
    )


def gate_proven(draft: Draft) -> bool:
    """True once the gate is proven and settled, or not needed; False: the proof is on its way, or the move has ended."""
    if draft.soft:
        return True
    calls, requested_s = draft.observed.calls, draft.status.eviction_requested_at_s
    if calls.gate_proven_at_s:
        # One API server has proven it; the other ones read the ConfigMap through their own watches, a little later.
        if draft.now_s >= settled_s(draft):
            return True
        draft.wake(settled_s(draft))
        return False
    # The move ends only if a proof was tried and failed, not if the API server could not be reached.
    if draft.now_s >= requested_s + draft.settings.gate_limit_s and calls.gate_failed_at_s >= requested_s:
        because = (
            calls.gate_problem
            or "a pod created in a dry run was not held (rescheduler check says what mends it)"
        )
        draft.fail(Why.GATE_NOT_IN_FORCE, f"new pods of the controller do not get the gate: {because}")
        return False
    if calls.gate_problem:
        draft.say(Why.PROVING_GATE, f"the gate is not proven: {calls.gate_problem}")
    pod = draft.observed.pod
    if pod is not None and pod.controller is not None:
        draft.do(GateProbe(pod.controller, pod.namespace))
    draft.wake(draft.now_s + _PROVE_AGAIN_S)
    return False
