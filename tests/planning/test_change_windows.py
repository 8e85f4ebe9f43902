"""``limits.windows``: when planned moves begin, within which limits, and that none evicts after its window."""

import math

import pytest

from harness import builders as b
from rescheduler.configuration.document import Configuration
from rescheduler.controller.issuing import ApiIssuer, Order
from rescheduler.planning.change_windows import LAST_S, ChangeWindow, limits_within, opening
from rescheduler.planning.limits import Limits, PlanningInputs

NOW_S = b.NOW_S
"""Friday, 2027-01-15 at 08:00 UTC, 09:00 in Berlin."""
HOUR_S = 3600.0
AT_SIX = ChangeWindow(cron="0 6 * * *", duration_s=4 * HOUR_S)
NIGHT = ChangeWindow(cron="0 22 * * 1-5", duration_s=8 * HOUR_S, time_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("windows", "policy", "closes_s", "opens_s"),
    [
        ((), "A", math.inf, None),
        ((AT_SIX,), "A", NOW_S + 2 * HOUR_S, None),
        ((NIGHT,), "A", 0.0, NOW_S + 13 * HOUR_S),
        ((NIGHT, AT_SIX), "A", NOW_S + 2 * HOUR_S, None),
        # One that begins before the others end goes on from there.
        ((AT_SIX, ChangeWindow(cron="30 9 * * *", duration_s=HOUR_S)), "A", NOW_S + 2.5 * HOUR_S, None),
        ((AT_SIX, ChangeWindow(cron="0 10 * * *", end="12:00")), "A", NOW_S + 4 * HOUR_S, None),
        ((ChangeWindow(cron="0 6 * * *", duration_s=4 * HOUR_S, policies=("B",)),), "A", 0.0, None),
        ((ChangeWindow(cron="0 6 * * *", duration_s=4 * HOUR_S, policies=("B",)), NIGHT), "B", NOW_S + 2 * HOUR_S, None),
        ((ChangeWindow(cron="0 6 * * *", duration_s=4 * HOUR_S, policies=("B",)), NIGHT), "A", 0.0, NOW_S + 13 * HOUR_S),
    ],
)  # fmt: skip
def test_when_moves_of_a_policy_begin(windows, policy, closes_s, opens_s):
    assert opening(windows, policy, NOW_S) == (closes_s, opens_s)


def test_none_begins_in_the_last_minute_and_the_next_window_is_named_then():
    ends_s = NOW_S + 2 * HOUR_S
    assert opening([AT_SIX], "A", ends_s - LAST_S - 1).closes_s == ends_s
    assert opening([AT_SIX], "A", ends_s - LAST_S) == (0.0, NOW_S + 22 * HOUR_S)
    joined = [AT_SIX, ChangeWindow(cron="0 10 * * *", duration_s=HOUR_S)]
    assert opening(joined, "A", ends_s - 1).closes_s == ends_s + HOUR_S


def test_windows_that_follow_each_other_for_ever_are_open_for_long():
    always = [ChangeWindow(cron="0 0 * * *", duration_s=24 * HOUR_S)]
    assert opening(always, "A", NOW_S).closes_s > NOW_S + 30 * 24 * HOUR_S


def test_the_first_open_window_that_states_limits_sets_them():
    closed = ChangeWindow(cron="0 22 * * *", duration_s=HOUR_S, moves_at_once=50)
    plain, stating = (
        AT_SIX,
        ChangeWindow(cron="0 6 * * *", duration_s=4 * HOUR_S, moves_per_hour=200, per_node=0),
    )
    windows = (closed, plain, stating)
    assert limits_within(windows, NOW_S) == {"moves_per_hour": 200, "per_node": 0}
    at = Limits(windows=windows).at(NOW_S)
    assert (at.moves_at_once, at.moves_per_hour, at.per_node) == (5, 200, 0)
    assert Limits(windows=windows).at(NOW_S + 3 * HOUR_S).moves_per_hour == Limits().moves_per_hour


def inputs(*windows, unlimited=False):
    return PlanningInputs(limits=Limits(windows=windows), unlimited=unlimited)


@pytest.fixture
def cluster(app):
    return b.snapshot(b.node("n1").taint("old"), b.node("n2"), app("web", ["n1"], lambda pod: pod.cpu("1")))


def test_outside_of_all_windows_a_pod_stays_and_it_is_said_until_when(decide, cluster):
    plan = decide(cluster, "NodeTaints", inputs=inputs(NIGHT))
    assert not plan.moves
    (left,) = plan.skipped
    assert (left.reason, left.blocked_by) == ("ChangeWindow", "limits.windows")
    assert "moves of NodeTaints begin; the next opens at 2027-01-15T21:00:00Z" in left.message
    assert len(decide(cluster, "NodeTaints", inputs=inputs(AT_SIX)).moves) == 1


def test_a_window_of_another_policy_does_not_serve(decide, cluster):
    of_others = ChangeWindow(cron="0 6 * * *", duration_s=4 * HOUR_S, policies=("NodeAffinity",))
    (left,) = decide(cluster, "NodeTaints", inputs=inputs(of_others)).skipped
    assert "none is for NodeTaints" in left.message


def test_a_plan_without_limits_shows_the_moves_and_says_when_they_begin(decide, cluster):
    plan = decide(cluster, "NodeTaints", inputs=inputs(NIGHT, unlimited=True))
    assert len(plan.moves) == 1
    assert any("the next opens at 2027-01-15T21:00:00Z" in words for words in plan.metadata.warnings)
    assert not decide(cluster, "NodeTaints", inputs=inputs(AT_SIX, unlimited=True)).metadata.warnings


@pytest.mark.parametrize(("left_s", "ttl"), [(2 * HOUR_S, "5m0s"), (90.0, "1m30s")])
def test_no_move_outlives_the_window_in_which_it_began(decide, app, mocker, left_s, ttl):
    now_s = NOW_S + 2 * HOUR_S - left_s
    cluster = b.snapshot(
        b.node("n1").taint("old"), b.node("n2"), app("web", ["n1"], lambda pod: pod.cpu("1")), now_s=now_s
    )
    plan = decide(cluster, "NodeTaints", inputs=inputs(AT_SIX))
    api = mocker.Mock()
    order = Order(snapshot=cluster, configuration=Configuration(limits=Limits(windows=(AT_SIX,))))
    ApiIssuer(api).issue(plan.moves, order, now_s)
    (call,) = api.create.call_args_list
    assert call.args[1]["spec"]["ttl"] == ttl
