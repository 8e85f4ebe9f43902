"""The table of answers: each row, their order, and that nobody waits beyond the limit."""

import itertools
import math
from dataclasses import replace

import msgspec
import pytest

from harness import builders as b
from rescheduler.guard.decision import (
    BUDGET_FREES_S,
    CATCHES_UP_S,
    SILENCE_S,
    Allow,
    AskAgain,
    Known,
    Why,
    asked_since_s,
    decide,
    failed_curably,
    of_earlier_request,
)
from rescheduler.guard.settings import GuardSettings, WhenNoRoom
from rescheduler.migrations.migration_lifecycle import FINISHED, TRANSITIONS, MigrationReason
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import ANNOTATION_ASKED_SINCE, GUARD, LABEL_GUARD
from rescheduler.model.records import Namespace
from rescheduler.model.selectors import LabelSet
from rescheduler.model.times import format_seconds
from tests import records

NOW_S = 1_800_000_000.0
OWN = "system:serviceaccount:rescheduler:rescheduler"
GUARDED = Namespace("shop", LabelSet({LABEL_GUARD: "enabled"}))
SETTINGS = GuardSettings()
REFUSE = GuardSettings(when_no_room=WhenNoRoom.REFUSE)


def pod(**more):
    made = (
        b.pod("web-1", namespace="shop").on("node-1").owner("ReplicaSet", "web", "u-web", "apps/v1").build()
    )
    return records.changed(made, **more)


def move(phase=MigrationPhase.PENDING, reason="", *, ended_s=0.0, began_s=NOW_S, asked_since="", **fields):
    named = {"namespace": "shop", "pod_name": "web-1", "policy": GUARD, "requested_by": "kubectl"}
    named["annotations"] = {ANNOTATION_ASKED_SINCE: asked_since} if asked_since else {}
    times = {"created_at_s": began_s, "ttl_s": 300.0, "finished_at_s": ended_s}
    return records.move("web-1-x", phase, reason=reason, **named | times | fields)


def failed(reason=MigrationReason.TARGET_REFUSED, **more):
    return move(MigrationPhase.FAILED, reason, ended_s=NOW_S - 1, began_s=NOW_S - 60, **more)


def known(**more):
    facts = {
        "user": "kubectl", "own_user": OWN, "namespace": GUARDED, "pod": pod(), "first_asked_s": NOW_S,
        "now_s": NOW_S,
    }  # fmt: skip
    return Known(**{**facts, **more})


ROWS = [
    ("its own eviction", {"user": OWN}, Why.OWN),
    ("a dry run", {"dry_run": True}, Why.DRY_RUN),
    ("caches that were never up to date", {"stale_s": math.inf}, Why.CACHES_STALE),
    ("caches that are not up to date for long", {"stale_s": CATCHES_UP_S}, Why.CACHES_STALE),
    ("a pod that old caches do not know", {"stale_s": 1.0, "pod": None}, Why.CACHES_STALE),
    ("a namespace that is not known or not guarded", {"namespace": None}, Why.NOT_GUARDED),
    ("a namespace that ends", {"namespace": Namespace("shop", GUARDED.labels, deleting=True)}, Why.NAMESPACE_TERMINATING),
    ("a pod that is not known", {"pod": None}, Why.UNKNOWN_POD),
    ("a pod that has been replaced", {"uid": "another"}, Why.UNKNOWN_POD),
    ("a pod that has changed", {"version": "7", "pod": pod(resource_version="8")}, Why.UNKNOWN_POD),
    ("a pod that ends", {"pod": pod(deleting=True)}, Why.ENDING),
    ("a pod that has no node", {"pod": pod(node="")}, Why.ENDING),
    ("a pod that is never moved", {"stays": "belongs to a DaemonSet"}, Why.NOT_MOVED),
    ("a pod whose move says that it is not moved", {"move": failed(MigrationReason.NOT_MOVABLE)}, Why.NOT_MOVED),
    ("no place to remember it", {"first_asked_s": None}, Why.TOO_MANY),
    ("a PodMigration that is refused", {"problem": "403: quota"}, Why.NOT_FILED),
    ("a budget that never allows it", {"move": move(reason=MigrationReason.DISRUPTION_BUDGET, message="PDB web allows 0")}, Why.BUDGET),
    ("a move that has failed too late for another one", {"move": failed(), "first_asked_s": NOW_S - 250}, Why.NO_ROOM),
    ("no turn within the limit", {"first_asked_s": NOW_S - 300}, Why.LIMIT),
    ("a move that takes too long", {"first_asked_s": NOW_S - 300, "move": move(began_s=NOW_S - 299)}, Why.LIMIT),
    ("a move that another replica made too long ago", {"first_asked_s": NOW_S - 1, "move": move(began_s=NOW_S - 300)}, Why.LIMIT),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "why"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_it_is_let_through(facts, why):
    answer = decide(known(**facts), SETTINGS)
    assert isinstance(answer, Allow)
    assert answer.why is why


def test_every_reason_to_let_through_has_a_row():
    assert {row[2] for row in ROWS} == set(Why) - {Why.WAITS, Why.REFUSED, Why.MOVED}


WAITING = [
    ("a first question", {}, "it is to be moved"),
    ("a version that the cache does not show yet", {"version": "10", "pod": pod(resource_version="9")}, "it is to be moved"),
    ("a move that has not begun", {"move": move(reason=MigrationReason.NO_TARGET, message="none fits")}, "none fits"),
    ("room that is being reserved", {"move": move(MigrationPhase.RESERVING, node_name="node-3")}, "room for its replacement is being reserved on node-3"),
    ("room that is held", {"move": move(MigrationPhase.EVICTING, node_name="node-3")}, "is held on node-3"),
    ("an eviction that the cache does not show", {"move": move(MigrationPhase.HANDING_OVER)}, "is being evicted"),
    ("a move whose caller had given up", {"move": failed(MigrationReason.TIMEOUT, ttl_s=150.0)}, "it is to be moved"),
    ("a move that has failed, with time for another one", {"move": failed()}, "a move failed: TargetRefused"),
    ("a failure of long ago", {"move": move(MigrationPhase.FAILED, MigrationReason.TARGET_REFUSED, ended_s=NOW_S - SILENCE_S - 1)}, "it is to be moved"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "words"), [row[1:] for row in WAITING], ids=[row[0] for row in WAITING])
def test_it_waits_and_says_for_what(facts, words):
    answer = decide(known(**facts), SETTINGS)
    assert isinstance(answer, AskAgain)
    assert words in answer.message
    assert "ask again" in answer.message
    assert 0 < answer.retry_after_s <= 10


def test_a_budget_that_is_used_up_for_now_is_named_to_the_caller():
    waits = move(MigrationPhase.EVICTING, MigrationReason.DISRUPTION_BUDGET, message="PDB web allows 0 of 3")
    answer = decide(known(move=waits), SETTINGS)
    assert isinstance(answer, AskAgain)
    assert answer.budget == "PDB web allows 0 of 3"


@pytest.mark.parametrize(
    "facts", [{"move": failed(), "first_asked_s": NOW_S - 250}, {"first_asked_s": NOW_S - 300}]
)
def test_without_room_it_is_refused_where_the_configuration_says_so(facts):
    answer = decide(known(**facts), REFUSE)
    assert isinstance(answer, AskAgain)
    assert answer.why is Why.REFUSED


def of_stateful_set(**more):
    made = b.pod("db-0", namespace="shop").on("node-1").owner("StatefulSet", "db", "u-db", "apps/v1").build()
    return records.changed(made, **more)


def test_while_a_moved_pod_ends_nobody_evicts_by_a_name_that_its_successor_will_have():
    """The API server may meet the successor, which waits for its room, and delete it."""
    facts = {"move": move(MigrationPhase.HANDING_OVER), "pod": of_stateful_set(deleting=True)}
    answer = decide(known(**facts), SETTINGS)
    assert isinstance(answer, AskAgain)
    assert "it is ending" in answer.message
    for more in (
        {"uid": of_stateful_set().uid},
        {"first_asked_s": NOW_S - SETTINGS.limit_s},
        {"move": None},
        {"pod": pod(deleting=True)},
    ):
        assert decide(known(**{**facts, **more}), SETTINGS) == Allow(Why.ENDING), more


def test_who_counts_what_he_evicts_is_told_that_another_comes_first_and_not_when_to_ask():
    """A client that is told when asks by itself for half a minute, pod after pod."""
    facts = {"one_by_one": True, "unconfirmed": "shop/web-0"}
    answer = decide(known(**facts), SETTINGS)
    assert isinstance(answer, AskAgain)
    assert "shop/web-0 comes first" in answer.message
    assert answer.retry_after_s == 0
    under_way = decide(known(**facts, move=move(MigrationPhase.RESERVING)), SETTINGS)
    assert isinstance(under_way, AskAgain)
    assert "being reserved" in under_way.message
    assert isinstance(decide(known(**facts, first_asked_s=NOW_S - SETTINGS.limit_s), SETTINGS), Allow)


def test_what_is_not_for_lack_of_room_is_never_refused():
    assert isinstance(decide(known(move=failed(MigrationReason.NOT_MOVABLE)), REFUSE), Allow)


def test_another_try_is_told_while_it_is_under_way():
    again = move(MigrationPhase.RESERVING, node_name="node-3")
    answer = decide(known(move=again, first_asked_s=NOW_S - 900), REFUSE)
    assert isinstance(answer, AskAgain)
    assert "node-3" in answer.message


def test_while_a_budget_is_used_up_the_room_that_is_held_is_waited_for():
    """The API server would refuse the eviction anyway; without the wait it would let one through, without room, once the budget allows it."""
    waits = move(MigrationPhase.EVICTING, MigrationReason.DISRUPTION_BUDGET, message="PDB web allows 0 of 3")
    late = known(move=waits, first_asked_s=NOW_S - 2 * SETTINGS.limit_s, used_up_s=NOW_S - 10)
    assert isinstance(decide(late, SETTINGS), AskAgain)
    evicts = move(MigrationPhase.EVICTING, MigrationReason.PROVING_GATE)
    assert isinstance(decide(replace(late, move=evicts), SETTINGS), AskAgain)
    for ended in ({"used_up_s": NOW_S - BUDGET_FREES_S}, {"move": move(MigrationPhase.RESERVING)}):
        assert decide(replace(late, **ended), SETTINGS).why is Why.LIMIT, ended


@pytest.mark.parametrize("phase", MigrationPhase)
def test_whatever_the_move_says_nobody_waits_beyond_the_limit(phase):
    """No tenant holds a drain up: neither by what becomes of the move, nor by what he writes into it."""
    ahead_s = NOW_S + 400  # by the clock of another API server, or of another leader
    ends, begins = (0.0, NOW_S - 1, NOW_S - 400, ahead_s), (NOW_S - 400, NOW_S, ahead_s)
    ttls, notes = (None, 1.0, 604_800.0), ("9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "soon")
    some = (MigrationReason.TIMEOUT, MigrationReason.DECISION_STALE, MigrationReason.NOT_MOVABLE)
    asks = known(first_asked_s=NOW_S - SETTINGS.limit_s)
    for reason, ended_s, began_s, ttl_s, since in itertools.chain(
        itertools.product([*MigrationReason, ""], ends, begins, ttls, [""]),
        itertools.product(some, ends, begins, ttls, notes),
    ):
        seen = move(phase, reason, ended_s=ended_s, began_s=began_s, ttl_s=ttl_s, asked_since=since)
        answer = decide(replace(asks, move=seen), SETTINGS)
        assert isinstance(answer, Allow), (seen, answer)


def test_the_earlier_rows_go_first():
    everything = {
        "stays": "x", "first_asked_s": None, "problem": "x", "move": failed(), "namespace": None,
        "stale_s": CATCHES_UP_S,
    }  # fmt: skip
    assert decide(known(user=OWN, dry_run=True, **everything), SETTINGS) == Allow(Why.OWN)
    assert decide(known(dry_run=True, **everything), SETTINGS) == Allow(Why.DRY_RUN)
    assert decide(known(**everything), SETTINGS) == Allow(Why.CACHES_STALE)


def test_a_request_goes_on_with_the_move_that_another_replica_made():
    assert asked_since_s(NOW_S, move(began_s=NOW_S - 100), 300.0) == NOW_S - 100
    assert asked_since_s(NOW_S, failed(MigrationReason.TIMEOUT, ttl_s=150.0), 300.0) == NOW_S


def test_a_request_goes_on_with_the_move_that_follows_one_that_failed():
    """After a restart nothing else says how long its caller has waited."""
    second = {"began_s": NOW_S - 10, "asked_since": format_seconds(NOW_S - 200)}
    assert asked_since_s(NOW_S, move(**second), 300.0) == NOW_S - 200
    timed_out = failed(MigrationReason.TIMEOUT)
    over = move(
        MigrationPhase.FAILED, MigrationReason.TIMEOUT, ended_s=NOW_S, ttl_s=100.0, began_s=NOW_S - 100,
        asked_since=format_seconds(NOW_S - 200),
    )  # fmt: skip
    assert not of_earlier_request(over, NOW_S, 200.0)
    assert of_earlier_request(msgspec.structs.replace(timed_out, ttl_s=60.0), NOW_S, 300.0)
    for written in ("9999-12-31T23:59:59Z", "soon", ""):
        assert asked_since_s(NOW_S, move(began_s=NOW_S - 10, asked_since=written), 300.0) == NOW_S - 10


@pytest.mark.parametrize("reason", sorted(set(MigrationReason) - {MigrationReason.TIMEOUT}))
def test_another_move_follows_only_what_it_can_cure_and_only_in_time(reason):
    for first_s, in_time in ((NOW_S - 60, True), (NOW_S - 250, False)):
        answer = decide(known(move=failed(reason), first_asked_s=first_s), SETTINGS)
        lets_go = isinstance(answer, Allow)
        incurable = lets_go and answer.why is Why.NOT_MOVED
        assert lets_go is (incurable or not in_time)
        assert incurable != failed_curably(failed(reason))


def test_a_pod_whose_replacement_the_api_server_refuses_is_not_evicted_at_once():
    """It would not come back at all. Who answers for that admission hears of it, and has the limit to mend it."""
    refused = known(move=failed(MigrationReason.NOT_ADMITTED), first_asked_s=NOW_S - 60)
    assert "NotAdmitted" in decide(refused, SETTINGS).message
    assert isinstance(decide(refused, SETTINGS), AskAgain)
    late = replace(refused, first_asked_s=NOW_S - 300)
    assert decide(late, SETTINGS).why is Why.NO_ROOM
    assert decide(late, REFUSE).why is Why.REFUSED


def test_a_move_that_has_not_ended_is_of_this_request():
    for phase in TRANSITIONS.keys() - FINISHED:
        assert not of_earlier_request(move(phase), NOW_S, 300.0)
