"""The gate of a move is switched on, proven and settled before the intent to evict, for a limited time."""

from __future__ import annotations

import msgspec
import pytest
from test_migration_machine import NOW, PHASE, budget, kinds, look, migration, reservation, too_few

from rescheduler.migrations.gate_in_force import AWAITED_S, LOOK_LEAD_S, PREPARED_S
from rescheduler.migrations.observed_migration import Calls, ObservedCreation, ObservedWait, Recorded
from rescheduler.model.migration import MoveMode
from rescheduler.model.outcomes import CreationOutcome, EvictionOutcome, EvictionResult
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.reservation import ReservationPhase

NEVER = budget(0, expected=3, desired=3)
PASSED = EvictionResult(EvictionOutcome.EVICTED)


def begun(phase, age_s=1.0, **fields):
    move = migration(phase, **fields)
    times = {"reserved_at_s": NOW - age_s} if phase is PHASE.EVICTING else {"started_at_s": NOW - age_s}
    return msgspec.structs.replace(move, status=msgspec.structs.replace(move.status, **times))


def calls(**gate):
    return Calls(dry_run=PASSED, dry_run_at_s=NOW, **gate)


def test_the_gate_is_on_as_soon_as_the_move_is_to_begin():
    wanted = look(migration(), recorded=Recorded(begun=False))
    assert (wanted.begins, wanted.gate_until_s) == (True, NOW + PREPARED_S)
    begins = look(migration(), recorded=Recorded(begun=True, begun_at_s=NOW - 2))
    assert begins.status.phase is PHASE.RESERVING
    assert begins.gate_until_s == NOW - 2 + PREPARED_S
    tried = look(migration(), recorded=Recorded(begun=True, begun_at_s=NOW - PREPARED_S))
    assert tried.status.phase is PHASE.RESERVING
    assert not tried.gate_until_s, "its first step cannot be written for long"
    assert not look(migration(), recorded=Recorded(begun=False, problem="403")).gate_until_s
    assert not look(migration(), recorded=Recorded(begun=False), budgets=(NEVER,)).gate_until_s


def test_the_gate_is_on_while_room_is_reserved():
    outcome = look(begun(PHASE.RESERVING), reservation=reservation(ReservationPhase.PENDING))
    assert outcome.gate_until_s
    assert "prove_gate" not in kinds(outcome), "it is proven in the round in which its key is stored"


@pytest.mark.parametrize(("gate", "intends"), [
    ({}, False),
    ({"gate_proven_at_s": NOW - 0.5}, False),
    ({"gate_proven_at_s": NOW - 1.0 + LOOK_LEAD_S}, False),
    ({"gate_proven_at_s": NOW - 1.0}, True),
    ({"gate_proven_at_s": NOW - 0.15, "gate_single": True}, False),
    ({"gate_proven_at_s": NOW - 0.2, "gate_single": True}, True),
    ({"gate_failed_at_s": NOW - 0.1}, True),
], ids=["not proven", "not settled", "about to be settled", "settled", "not settled on one API server", "settled on one API server", "not in force"])  # fmt: skip
def test_the_intent_waits_until_the_gate_has_settled(gate, intends):
    outcome = look(begun(PHASE.EVICTING), reservation=reservation(), calls=calls(**gate))
    assert bool(outcome.status.eviction_requested_at_s) is intends
    assert outcome.gate_until_s
    assert outcome.wake_at_s > NOW


def test_one_step_writes_the_intent_and_evicts():
    outcome = look(begun(PHASE.EVICTING), reservation=reservation(), calls=calls(gate_proven_at_s=NOW - 1.0))
    assert kinds(outcome) == ["write_status", "evict"]
    assert outcome.calls[0].status.eviction_requested_at_s == NOW


REFUSED = EvictionResult(EvictionOutcome.FAILED, "a webhook refuses it")


@pytest.mark.parametrize(("seen", "rehearsed"), [
    ({}, False),
    ({"budgets": (budget(1),)}, True),
    ({"calls": Calls(eviction=REFUSED, eviction_at_s=NOW - 60, gate_proven_at_s=NOW - 2)}, True),
    ({"waits": ObservedWait(awaited=True)}, True),
    ({"waits": ObservedWait(evicts_after="another pod has nowhere to go yet")}, True),
], ids=[ "alone", "a budget selects the pod", "refused before", "others begin after it", "it waits for others"])  # fmt: skip
def test_the_eviction_is_rehearsed_where_it_may_be_refused_or_others_depend_on_it(seen, rehearsed):
    calls = seen.pop("calls", Calls(gate_proven_at_s=NOW - 2))
    outcome = look(begun(PHASE.EVICTING), reservation=reservation(), calls=calls, **seen)
    assert ("rehearse_eviction" in kinds(outcome), "evict" in kinds(outcome)) == (rehearsed, not rehearsed)


@pytest.mark.parametrize(("age_s", "gate"), [
    (PREPARED_S - AWAITED_S + 1.0, {"gate_proven_at_s": NOW - 1.0}),
    (1.0, {"gate_failed_at_s": NOW - 0.1}),
], ids=["wanted for a moment only", "not in force"])  # fmt: skip
def test_the_intent_comes_first_where_it_is_what_keeps_the_gate_on(age_s, gate):
    outcome = look(begun(PHASE.EVICTING, age_s), reservation=reservation(), calls=calls(**gate))
    assert outcome.status.eviction_requested_at_s == NOW
    assert kinds(outcome) == ["write_status"]


def test_the_intent_does_not_wait_for_ever():
    outcome = look(begun(PHASE.EVICTING, AWAITED_S), reservation=reservation(), calls=calls())
    assert outcome.status.eviction_requested_at_s == NOW


def test_the_gate_settles_while_the_eviction_waits_for_other_pods():
    waiting = begun(PHASE.EVICTING, 20.0)
    outcome = look(waiting, reservation=reservation(), calls=calls(), availability=too_few())
    assert outcome.status.reason == "TooFewAvailable"
    assert outcome.gate_until_s


def test_a_move_that_waits_for_long_gates_nobody_meanwhile():
    waiting = begun(PHASE.EVICTING, PREPARED_S)
    outcome = look(waiting, reservation=reservation(), calls=calls(), availability=too_few())
    assert not outcome.gate_until_s
    assert "prove_gate" not in kinds(outcome)


@pytest.mark.parametrize("requested_s", [0.0, NOW - 0.01], ids=["before the intent", "after the intent"])
def test_while_the_gate_settles_the_replacement_is_looked_at_a_last_time(requested_s):
    move = begun(PHASE.EVICTING, requested=requested_s)
    template = TemplateKey("rs", "")
    settles = calls(gate_proven_at_s=NOW - 1.0 + LOOK_LEAD_S / 2)
    for asked_at_s, expected in ((NOW - 0.3, ["try_creation"]), (NOW - 0.01, [])):
        seen = ObservedCreation(template=template, outcome=CreationOutcome.ADMITTED, asked_at_s=asked_at_s)
        outcome = look(move, reservation=reservation(), calls=settles, creation=seen)
        assert [call for call in kinds(outcome) if call != "write_status"] == expected


@pytest.mark.parametrize("requested_s", [0.0, NOW - 2.0], ids=["before the intent", "after the intent"])
@pytest.mark.parametrize(("settled_ago_s", "asked_ago_s", "expected"), [
    (0.05, 0.06, ["try_creation"]),
    (0.05, 0.01, ["fail"]),
    (3.0, 0.3, ["fail"]),
], ids=["asked before the gate has settled", "asked after it", "asked long after it"])  # fmt: skip
def test_nothing_is_evicted_whose_replacement_would_come_without_the_gate(
    requested_s, settled_ago_s, asked_ago_s, expected
):
    move = begun(PHASE.EVICTING, requested=requested_s)
    proven = calls(gate_proven_at_s=NOW - 1.0 - settled_ago_s)
    seen = ObservedCreation(template=TemplateKey("rs", ""), outcome=CreationOutcome.ADMITTED, asked_at_s=NOW - asked_ago_s, ungated=True)  # fmt: skip
    outcome = look(move, reservation=reservation(), calls=proven, creation=seen)
    assert "evict" not in kinds(outcome)
    if expected == ["fail"]:
        assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "GateNotInForce")
        assert "namespace default" in outcome.status.message
    else:
        assert [call for call in kinds(outcome) if call != "write_status"] == expected


@pytest.mark.parametrize("age_s", [1.0, 60.0])
def test_after_the_intent_the_eviction_follows_at_once_if_the_gate_has_settled(age_s):
    move = begun(PHASE.EVICTING, age_s, requested=NOW - 0.1)
    outcome = look(move, reservation=reservation(), calls=Calls(gate_proven_at_s=NOW - 1.0))
    assert "evict" in kinds(outcome)
    unproven = look(move, reservation=reservation(), calls=Calls())
    assert ("evict" in kinds(unproven), "prove_gate" in kinds(unproven)) == (False, True)


def test_an_eviction_that_did_not_follow_its_intent_is_sent_after_another_compare_and_swap():
    """The process died in between, or the answer took too long: somebody may have deleted or paused the move since."""
    first = look(begun(PHASE.EVICTING), reservation=reservation(), calls=calls(gate_proven_at_s=NOW - 1.0))
    stored = msgspec.structs.replace(migration(PHASE.EVICTING), status=first.status)
    outcome = look(stored, reservation=reservation(), calls=calls(gate_proven_at_s=NOW - 1.0))
    assert kinds(outcome) == ["write_status", "evict"]
    assert outcome.status.eviction_requested_at_s == NOW


@pytest.mark.parametrize("paused", [True, False])
def test_a_paused_move_and_one_of_mode_soft_keep_no_gate_on(paused):
    move = begun(PHASE.EVICTING, paused=paused)
    if not paused:
        soft = msgspec.structs.replace(move.status, mode=MoveMode.SOFT)
        move = msgspec.structs.replace(move, status=soft)
    assert not look(move, reservation=reservation(), calls=calls()).gate_until_s
