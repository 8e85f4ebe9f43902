"""The gate of a move is switched on, proven and settled before the intent to evict, for a limited time."""

from __future__ import annotations

import msgspec
import pytest
from test_migration_machine import NOW, PHASE, kinds, look, migration, reservation, too_few

from rescheduler.migrations.gate_in_force import AWAITED_S, PREPARED_S
from rescheduler.migrations.observed import Calls
from rescheduler.model.migration import MoveMode
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.reservation import ReservationPhase

PASSED = EvictionResult(EvictionOutcome.EVICTED)


def begun(phase, age_s=1.0, **fields):
    move = migration(phase, **fields)
    times = {"reserved_at_s": NOW - age_s} if phase is PHASE.EVICTING else {"started_at_s": NOW - age_s}
    return msgspec.structs.replace(move, status=msgspec.structs.replace(move.status, **times))


def calls(**gate):
    return Calls(dry_run=PASSED, dry_run_at_s=NOW, **gate)


def test_the_gate_is_on_while_room_is_reserved():
    outcome = look(begun(PHASE.RESERVING), reservation=reservation(ReservationPhase.PENDING))
    assert outcome.prepares_gate
    assert "prove_gate" not in kinds(outcome), "the key is not stored yet"
    stored = look(
        begun(PHASE.RESERVING),
        reservation=reservation(ReservationPhase.PENDING),
        calls=Calls(gate_stored=True),
    )
    assert "prove_gate" in kinds(stored)


@pytest.mark.parametrize(
    ("gate", "intends"),
    [
        ({}, False),
        ({"gate_stored": True}, False),
        ({"gate_stored": True, "gate_proven_at_s": NOW - 0.5}, False),
        ({"gate_stored": True, "gate_proven_at_s": NOW - 1.0}, True),
        ({"gate_stored": True, "gate_failed_at_s": NOW - 0.1}, True),
    ],
    ids=["not stored", "not proven", "not settled", "settled", "not in force"],
)
def test_the_intent_waits_until_the_gate_has_settled(gate, intends):
    outcome = look(begun(PHASE.EVICTING), reservation=reservation(), calls=calls(**gate))
    assert bool(outcome.status.eviction_requested_at_s) is intends
    assert outcome.prepares_gate
    assert outcome.wake_at_s > NOW


def test_the_intent_does_not_wait_for_ever():
    outcome = look(begun(PHASE.EVICTING, AWAITED_S), reservation=reservation(), calls=calls())
    assert outcome.status.eviction_requested_at_s == NOW


def test_the_gate_settles_while_the_eviction_waits_for_other_pods():
    waiting = begun(PHASE.EVICTING, 20.0)
    outcome = look(waiting, reservation=reservation(), calls=calls(gate_stored=True), availability=too_few())
    assert outcome.status.reason == "TooFewAvailable"
    assert outcome.prepares_gate
    assert "prove_gate" in kinds(outcome)


def test_a_move_that_waits_for_long_gates_nobody_meanwhile():
    waiting = begun(PHASE.EVICTING, PREPARED_S)
    outcome = look(waiting, reservation=reservation(), calls=calls(gate_stored=True), availability=too_few())
    assert not outcome.prepares_gate
    assert "prove_gate" not in kinds(outcome)


@pytest.mark.parametrize("age_s", [1.0, 60.0])
def test_after_the_intent_the_eviction_follows_at_once_if_the_gate_has_settled(age_s):
    move = begun(PHASE.EVICTING, age_s, requested=NOW - 0.1)
    outcome = look(move, reservation=reservation(), calls=Calls(gate_proven_at_s=NOW - 1.0))
    assert "evict" in kinds(outcome)
    unproven = look(move, reservation=reservation(), calls=Calls(gate_stored=True))
    assert ("evict" in kinds(unproven), "prove_gate" in kinds(unproven)) == (False, True)


@pytest.mark.parametrize("paused", [True, False])
def test_a_paused_move_and_one_of_mode_soft_keep_no_gate_on(paused):
    move = begun(PHASE.EVICTING, paused=paused)
    if not paused:
        soft = msgspec.structs.replace(move.status, mode=MoveMode.SOFT)
        move = msgspec.structs.replace(move, status=soft)
    assert not look(move, reservation=reservation(), calls=calls(gate_stored=True)).prepares_gate
