"""A pod whose owner has a responder of its own (``spec.evictionResponders``): a policy's move asks by an EvictionRequest."""

import dataclasses

import msgspec
import pytest
from test_migration_machine import NOW, PHASE, PROVEN, budget, kinds, look, migration, pod, reservation

from rescheduler.coordination.memory import Answers
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, RESPONDER
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import PodSpec
from rescheduler.model.selectors import LabelSet

OWNED = msgspec.structs.replace(pod(), spec=PodSpec(responders=("acme.io/checkpointer",)))
AWAITED = EvictionResult(EvictionOutcome.AWAITED, "responder acme.io/checkpointer goes first: 40 %", 5.0)


def planned(phase=PHASE.EVICTING, **fields):
    labels = LabelSet({LABEL_CREATED_BY: CREATED_BY})
    return migration(phase, policy="NodeTaints", labels=labels, **fields)


def asked(result=AWAITED, ago_s=6.0):
    return dataclasses.replace(PROVEN, eviction=result, eviction_at_s=NOW - ago_s)


def test_a_policys_move_asks_by_request_and_the_intent_stands_while_the_owner_is_at_work():
    first = look(planned(requested=NOW - 60), reservation=reservation(), pod=OWNED, calls=PROVEN)
    assert kinds(first)[-1:] == ["evict_by_request"]
    still = look(planned(requested=NOW - 60), reservation=reservation(), pod=OWNED, calls=asked())
    assert kinds(still)[-1:] == ["evict_by_request"]
    assert still.status.eviction_requested_at_s == NOW - 60
    early = look(planned(requested=NOW - 60), reservation=reservation(), pod=OWNED, calls=asked(ago_s=1.0))
    assert "evict_by_request" not in kinds(early)
    assert early.wake_at_s == NOW + 4.0
    assert (early.status.reason, early.status.message) == ("ResponderFirst", AWAITED.message)


@pytest.mark.parametrize(
    ("move", "target"),
    [(migration(PHASE.EVICTING, requested=NOW - 60), OWNED), (planned(requested=NOW - 60), pod())],
)
def test_what_people_ask_for_and_pods_without_responders_are_evicted_at_once(move, target):
    assert kinds(look(move, reservation=reservation(), pod=target, calls=PROVEN))[-1:] == ["evict"]


def test_a_pod_that_its_owner_takes_away_meanwhile_counts_as_evicted_so_that_its_replacement_gets_the_room():
    gone = look(planned(requested=NOW - 60), reservation=reservation(), pod=None, calls=asked())
    assert gone.status.phase is PHASE.HANDING_OVER
    assert "withdraw_eviction_request" not in kinds(gone)


@pytest.mark.parametrize(("more", "phase"), [
    ({"reservation": None}, PHASE.RESERVING),
    ({"migration": planned(requested=NOW - 60, paused=True)}, PHASE.EVICTING),
    ({"migration": planned(requested=NOW - 60, created_at_s=NOW - 301)}, PHASE.FAILED),
    ({"another": "default/other"}, PHASE.FAILED),
])  # fmt: skip
def test_without_the_intent_nobody_is_asked_any_more(more, phase):
    fields = {"migration": planned(requested=NOW - 60), "reservation": reservation(), **more}
    move = fields.pop("migration")
    outcome = look(move, pod=OWNED, calls=asked(), **fields)
    assert outcome.status.phase is phase
    assert not outcome.status.eviction_requested_at_s
    assert kinds(outcome).count("withdraw_eviction_request") == 1


def test_a_request_that_a_crash_left_is_withdrawn_once():
    left = look(planned(), reservation=reservation(), pod=OWNED, budgets=(budget(0),))
    assert "withdraw_eviction_request" in kinds(left)
    known = dataclasses.replace(PROVEN, request_withdrawn_at_s=NOW - 1)
    told = look(planned(), reservation=reservation(), pod=OWNED, budgets=(budget(0),), calls=known)
    assert "withdraw_eviction_request" not in kinds(told)
    again = look(planned(requested=NOW - 1), reservation=reservation(), pod=OWNED, calls=known)
    assert "evict_by_request" in kinds(again)


def test_a_refused_eviction_keeps_its_backoff_while_its_request_is_withdrawn():
    """Else intent, request and withdrawal would follow each other for ever, and the owner's responder work each time."""
    answers, move = Answers(), planned(requested=NOW - 60).key
    for _ in range(3):
        answers.eviction(move, EvictionResult(EvictionOutcome.BLOCKED), NOW - 1.0)
    answers.dry_run(move, EvictionResult(EvictionOutcome.EVICTED), NOW)
    refused = answers.of(move)
    answers.withdrawn(move, NOW)
    calls = dataclasses.replace(answers.of(move), gate_proven_at_s=NOW - 3)
    assert (calls.eviction, calls.tries) == (refused.eviction, refused.tries)
    waiting = look(planned(), reservation=reservation(), pod=OWNED, calls=calls)
    assert not waiting.status.eviction_requested_at_s
    assert waiting.wake_at_s > NOW + 1.0
    assert "withdraw_eviction_request" not in kinds(waiting)


def decoded(*responders):
    spec = {"containers": [{"name": "c"}], "evictionResponders": list(responders)}
    body = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec}
    return Decoder().record(Kind.POD, msgspec.json.encode(body)).spec.responders


def entry(name, priority):
    return {"name": name, "priority": priority}


@pytest.mark.parametrize(("responders", "before_ours"), [
    ([], ()),
    ([entry(RESPONDER, 5000)], ()),
    ([entry(RESPONDER, 5000), entry("late.io/x", 200)], ()),
    ([entry("b.io/x", 6000), entry(RESPONDER, 5000), entry("a.io/x", 10_000)], ("a.io/x", "b.io/x")),
    ([entry("only.io/x", 200)], ("only.io/x",)),
])  # fmt: skip
def test_only_responders_before_ours_count(responders, before_ours):
    assert decoded(*responders) == before_ours
