"""How evictions that wait become PodMigrations: once, at a bounded pace, in turns of namespaces, and for as long as somebody asks."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.guard.asks import MOST_ASKS, REMEMBERED_S, UNCONFIRMED_S, Asks, WaitingEviction
from rescheduler.guard.decision import LAST_ASK_S, SILENCE_S, TRY_AGAIN_S
from rescheduler.guard.filing import (
    ASKS_AGAIN_S,
    GATHERED_S,
    LARGEST_FIRST_S,
    MOST_AT_ONCE,
    MOST_OPEN,
    SHOWN_S,
    Create,
    Extend,
    Remove,
    due,
    guarded_key,
    guarded_move,
    is_guarded,
)
from rescheduler.guard.settings import GuardSettings, WhenNoRoom
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.records import ObjectKey

NOW_S = 1_800_000_000.0
SETTINGS = GuardSettings()


def ask(name="web-1", namespace="shop", first_s=NOW_S, last_s=NOW_S, **more):
    facts = {
        "user": "kubectl", "grace_s": None, "node": "node-1", "size": 1.0, "came_s": first_s - GATHERED_S,
    }  # fmt: skip
    return WaitingEviction(
        pod=ObjectKey(namespace, name),
        uid=f"uid-{namespace}-{name}",
        first_s=first_s,
        last_s=last_s,
        **{**facts, **more},
    )


def pod(uid="u", name="web-0"):
    made = b.pod(name, namespace="shop").on("node-1").cpu("500m").memory("2Gi").build()
    return msgspec.structs.replace(made, uid=uid)


def move(of, ttl_s=150.0, began_s=NOW_S, **status):
    return msgspec.structs.replace(
        guarded_move(of, ttl_s), created_at_s=began_s, uid="m", status=MigrationStatus(**status)
    )


def writes(*pairs, settings=SETTINGS, now_s=NOW_S):
    moves = {asked.uid: made for asked, made in pairs}
    return list(due([asked for asked, _ in pairs], lambda one: moves[one.uid], settings, now_s))


def test_a_first_question_makes_a_move_that_lives_while_its_caller_asks():
    asked = ask()
    assert writes((asked, None)) == [Create(asked, SILENCE_S + LAST_ASK_S)]


def test_no_move_lives_longer_than_the_limit():
    asked = ask(first_s=NOW_S - 200)
    assert writes((asked, None)) == [Create(asked, 100.0)]
    assert writes((ask(first_s=NOW_S - 300), None)) == []


def test_a_move_that_was_made_a_moment_ago_is_not_made_twice():
    asked = ask(filed_s=NOW_S - 1)
    assert writes((asked, None)) == []
    assert len(writes((ask(filed_s=NOW_S - SHOWN_S), None))) == 1


def test_nothing_is_made_for_a_caller_that_does_not_come_again():
    assert writes((ask(last_s=NOW_S - ASKS_AGAIN_S), None)) == []


def test_the_move_lives_on_while_its_caller_asks_and_is_told_so_now_and_then():
    asked = ask(first_s=NOW_S - 60)
    began_s = NOW_S - 60
    assert writes((asked, move(asked, ttl_s=200.0, began_s=began_s))) == []
    made = move(asked, began_s=began_s)
    assert writes((asked, made)) == [Extend(asked, made, 210.0)]


def test_a_move_whose_caller_is_silent_is_not_prolonged():
    asked = ask(first_s=NOW_S - 90, last_s=NOW_S - 60)
    assert writes((asked, move(asked, ttl_s=180.0, began_s=NOW_S - 90))) == []


def test_in_the_end_it_lives_until_the_limit_and_no_longer():
    asked = ask(first_s=NOW_S - 290)
    made = move(asked, ttl_s=295.0, began_s=NOW_S - 290)
    assert writes((asked, made)) == [Extend(asked, made, 300.0)]
    assert writes((asked, move(asked, ttl_s=300.0, began_s=NOW_S - 290))) == []


def test_while_a_budget_is_used_up_its_room_is_held_beyond_the_limit():
    asked = ask(first_s=NOW_S - 400)
    waits = {"phase": MigrationPhase.EVICTING, "reason": MigrationReason.DISRUPTION_BUDGET}
    made = move(asked, ttl_s=420.0, began_s=NOW_S - 400, **waits)
    assert writes((asked, made)) == [Extend(asked, made, 400.0 + SILENCE_S + LAST_ASK_S)]
    silent = ask(first_s=NOW_S - 400, last_s=NOW_S - 140)
    assert writes((silent, move(silent, ttl_s=420.0, began_s=NOW_S - 400, **waits))) == []


@pytest.mark.parametrize("moment", ["eviction_requested_at_s", "evicted_at_s"])
def test_a_move_that_disturbs_its_pod_is_left_alone(moment):
    asked = ask()
    assert writes((asked, move(asked, ttl_s=1.0, phase=MigrationPhase.EVICTING, **{moment: NOW_S}))) == []


def test_a_move_of_a_caller_that_had_given_up_makes_way_for_the_next():
    asked = ask()
    ended = {"phase": MigrationPhase.FAILED, "finished_at_s": NOW_S - 10}
    withdrawn = move(asked, **ended, reason=MigrationReason.TIMEOUT)
    assert writes((asked, withdrawn)) == [Remove(asked, withdrawn, NOW_S)]
    refused = move(asked, ttl_s=300.0, **ended, reason=MigrationReason.TARGET_REFUSED)
    assert writes((asked, refused)) == []


def test_where_evictions_are_refused_another_move_is_tried():
    settings = GuardSettings(when_no_room=WhenNoRoom.REFUSE)
    asked = ask(first_s=NOW_S - 1000)
    ended = move(
        asked,
        ttl_s=300.0,
        phase=MigrationPhase.FAILED,
        reason=MigrationReason.TARGET_REFUSED,
        finished_at_s=NOW_S - TRY_AGAIN_S,
    )
    assert writes((asked, ended), settings=settings) == [Remove(asked, ended, asked.first_s)]
    assert writes((asked, None), settings=settings) == [Create(asked, settings.limit_s)]


def test_another_move_follows_a_failed_one_while_there_is_time():
    began_s = NOW_S - 100
    asked, late = ask(first_s=began_s), ask(first_s=NOW_S - 290)
    ended = {"phase": MigrationPhase.FAILED, "reason": MigrationReason.DECISION_STALE}
    made = move(asked, began_s=began_s, **ended, finished_at_s=NOW_S - TRY_AGAIN_S)
    assert writes((asked, made)) == [Remove(asked, made, began_s)]
    fresh = move(asked, began_s=began_s, **ended, finished_at_s=NOW_S - TRY_AGAIN_S + 1)
    assert writes((asked, fresh)) == []
    too_late = move(late, **ended, finished_at_s=NOW_S - 40, began_s=NOW_S - 290)
    assert writes((late, too_late), now_s=NOW_S + 25) == []
    silent = ask(first_s=began_s, last_s=NOW_S - ASKS_AGAIN_S)
    assert writes((silent, move(silent, began_s=began_s, **ended, finished_at_s=NOW_S - 90))) == []
    incurable = {**ended, "reason": MigrationReason.NOT_MOVABLE, "finished_at_s": NOW_S - 90}
    assert writes((asked, move(asked, began_s=began_s, **incurable))) == []


def test_the_largest_pods_of_a_node_find_their_place_first():
    small, large = ask("small"), ask("large", size=4.0)
    elsewhere = ask("elsewhere", node="node-2")
    assert {w.ask.pod.name for w in writes((small, None), (large, None), (elsewhere, None))} == {
        "large",
        "elsewhere",
    }
    looks = move(large, reason=MigrationReason.RECORDING)
    assert writes((small, None), (large, looks)) == []
    placed = move(large, reason=MigrationReason.RESERVING, phase=MigrationPhase.RESERVING)
    assert [w.ask for w in writes((small, None), (large, placed))] == [small]
    nowhere = move(large, reason=MigrationReason.NO_TARGET)
    assert [w.ask for w in writes((small, None), (large, nowhere))] == [small]


def test_nobody_waits_long_for_a_larger_pod_that_nobody_looks_at():
    small, large = (
        ask(name, came_s=NOW_S - LARGEST_FIRST_S, filed_s=filed_s, size=size)
        for name, filed_s, size in (("small", 0.0, 1.0), ("large", NOW_S - 1, 4.0))
    )
    assert [w.ask for w in writes((small, None), (large, move(large)))] == [small]


def test_larger_pods_that_come_one_after_the_other_hold_back_a_smaller_one_once():
    """Else a team that asks for a large pod of its own every ten seconds keeps those of others from their moves."""
    small = ask("small", first_s=NOW_S - LARGEST_FIRST_S)
    large = ask("large", size=4.0, filed_s=NOW_S - 1)
    assert [w.ask for w in writes((small, None), (large, None))] == [small]


def test_a_pod_that_waits_for_its_turn_holds_back_no_smaller_one():
    small, large = ask("small"), ask("large", size=4.0, held=True)
    assert [w.ask for w in writes((small, None), (large, None))] == [small]


def test_the_questions_of_one_drain_are_gathered():
    assert writes((ask(came_s=NOW_S), None)) == []


def test_a_pod_is_as_large_as_what_it_requests():
    asks = Asks()
    asks.hear(pod(), "kubectl", NOW_S)
    assert asks.find("u", NOW_S).size == 1.0


def test_namespaces_take_turns():
    many = [(ask(f"web-{n}", "loud"), None) for n in range(100)]
    found = writes(*many, (ask("one", "quiet"), None))
    assert len(found) == MOST_AT_ONCE
    assert ObjectKey("quiet", "one") in {write.ask.pod for write in found[:2]}


def test_open_moves_are_bounded_and_still_prolonged():
    asks = [ask(f"web-{n}", first_s=NOW_S - 60) for n in range(MOST_OPEN // 2)]
    pairs = [(one, move(one, began_s=NOW_S - 60)) for one in asks]
    found = writes(*pairs, (ask("another"), None))
    assert found
    assert all(isinstance(write, Extend) for write in found)


def test_who_has_many_open_moves_leaves_as_many_to_the_next():
    """However long their moves wait for room."""
    asks = [ask(f"web-{n}", "loud") for n in range(3 * MOST_OPEN)]
    pairs = [(one, move(one)) for one in asks[: MOST_OPEN // 2]] + [
        (one, None) for one in asks[MOST_OPEN // 2 :]
    ]
    found = writes(*pairs, (ask("one", "quiet"), None))
    assert [write.ask.pod.namespace for write in found] == ["quiet"]


def test_two_replicas_name_the_same_object():
    assert guarded_key(ObjectKey("shop", "web-1"), "u") == guarded_key(ObjectKey("shop", "web-1"), "u")
    assert guarded_key(ObjectKey("shop", "web-1"), "v") != guarded_key(ObjectKey("shop", "web-1"), "u")
    assert len(guarded_key(ObjectKey("shop", "w" * 253), "u").name) <= 63


def test_a_move_that_somebody_else_made_under_its_name_is_none_of_the_guard():
    made = move(ask())
    assert is_guarded(made, made.pod_uid)
    assert not is_guarded(msgspec.structs.replace(made, requested_by=""), made.pod_uid)
    assert not is_guarded(made, "another")


def test_a_namespace_that_fills_all_places_leaves_one_to_each_that_has_fewer():
    asks = Asks(most=4)
    many = [b.pod(f"many-{n}", namespace="many").on("n1").build() for n in range(5)]
    few = [b.pod(f"few-{n}", namespace="few").on("n1").build() for n in range(3)]
    assert [asks.hear(one, "tenant", NOW_S) for one in many] == [True] * 4 + [False]
    assert [asks.hear(one, "kubectl", NOW_S) for one in few] == [True, True, False]
    assert asks.since_s(few[2], NOW_S) is None
    wanted = {ask.pod.name for ask in asks.current(lambda _: True, NOW_S)}
    assert wanted == {"many-0", "many-1", "few-0", "few-1"}, "the last that came makes place"
    assert asks.current(lambda ask: ask.pod.namespace == "few", NOW_S)
    assert all(asks.hear(one, "kubectl", NOW_S) for one in (few[2], many[0])), (
        "whose pods are gone have no share"
    )


def test_what_waits_is_bounded_and_makes_place_when_nobody_asks():
    asks = Asks(most=3)
    pods = [pod(f"web-{n}", f"web-{n}") for n in range(4)]
    heard = [asks.hear(one, "kubectl", NOW_S) for one in pods]
    assert heard == [True, True, True, False]
    assert asks.since_s(pods[3], NOW_S) is None
    assert asks.since_s(pods[0], NOW_S) == NOW_S
    assert asks.hear(pods[0], "karpenter", NOW_S + 100)
    later_s = NOW_S + SILENCE_S
    assert [one.user for one in asks.current(lambda _: True, later_s)] == ["kubectl"]
    assert asks.find("web-1", later_s) is None
    assert asks.hear(pods[3], "kubectl", later_s)


def test_callers_who_count_are_remembered_for_a_round_and_so_many_of_them():
    """A namespace may make any number of accounts that ask."""
    asks = Asks(most=3)
    one, other = pod("web-0", "web-0"), pod("web-1", "web-1")
    for number in range(5):
        assert asks.hear(one, f"account-{number}", NOW_S, one_by_one=True)
    held = [bool(asks.unconfirmed(f"account-{number}", other.uid, NOW_S)) for number in range(5)]
    assert held == [True, True, True, False, False]
    later_s = NOW_S + UNCONFIRMED_S
    asks.current(lambda _: True, later_s)
    assert asks.hear(one, "account-4", later_s, one_by_one=True)
    assert asks.unconfirmed("account-4", other.uid, later_s)


def test_a_tool_that_gives_up_before_the_limit_is_let_through_in_the_end():
    """What it has waited before counts, for an hour."""
    asks, one, now_s, waited_s = Asks(), pod(), NOW_S, []
    for _ in range(4):
        for _ in range(12):  # two minutes, as cluster-autoscaler
            asks.hear(one, "cluster-autoscaler", now_s)
            now_s += 10
        asks.current(lambda _: True, now_s)
        waited_s.append(now_s - 10 - asks.find("u", now_s).first_s)
        now_s += 300
    assert waited_s == [110.0, 220.0, 330.0, 440.0]
    assert waited_s[2] > SETTINGS.limit_s
    later_s = now_s + REMEMBERED_S
    assert asks.since_s(pod(), later_s) == later_s
    asks.current(lambda _: True, later_s)
    assert len(asks) == 0


def test_who_returns_is_the_new_caller():
    asks, one = Asks(), pod()
    asks.hear(one, "kubectl", NOW_S)
    asks.hear(one, "karpenter", NOW_S + SILENCE_S)
    found = asks.find("u", NOW_S + SILENCE_S)
    assert (found.user, found.first_s) == ("karpenter", NOW_S + SILENCE_S)


@pytest.mark.parametrize("back_s", [1.0, 60.0, 3_600.0])
def test_a_clock_that_is_set_back_lets_nobody_wait_for_hours(back_s):
    """A little is no new request, else a clock that sways would begin it again and again."""
    asks, one = Asks(), pod()
    asks.hear(one, "kubectl", NOW_S)
    asks.hear(one, "kubectl", NOW_S + 100)
    asks.hear(one, "kubectl", NOW_S + 100 - back_s)
    first_s = asks.find("u", NOW_S + 100 - back_s).first_s
    assert first_s == (NOW_S if back_s < SILENCE_S else NOW_S + 100 - back_s)


def test_ten_thousand_questions_cost_a_few_megabytes():
    import tracemalloc  # noqa: PLC0415 - of this test only

    known = pod()
    tracemalloc.start()
    asks = Asks()
    for n in range(MOST_ASKS + 5):
        asks.hear(msgspec.structs.replace(known, name=f"web-{n}", uid=f"uid-{n}"), "kubectl", NOW_S)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(asks) == MOST_ASKS
    assert used < 10_000_000
