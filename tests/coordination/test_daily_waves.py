"""Loads that come and go every day: no move is undone, by the window that is shipped or one of a day, of which half says nothing.

With the shipped window what was seen of the last day keeps pods from nodes that will be too full.
"""

import math

import pytest
from measured_cluster import CORES, Load, MeasuredCluster

from harness import builders as b
from rescheduler.coordination.usage_window import UsageWindow
from rescheduler.model.measured import UsageStatistic
from rescheduler.model.usage_settings import UsageSettings
from tests.seeds import NIGHTLY, some

DAY_S = 86_400.0
EVERY_S = 300.0
"""Samples are further apart than in the controller, so that days pass quickly."""
A_DAY = round(DAY_S / EVERY_S)
LONG = 2 if NIGHTLY else 1
SAMPLES = 1 if NIGHTLY else 2
"""By how many times there are more samples for a decision than at night."""
FIXED = {"thresholds": {"cpu": 45.0}, "target_thresholds": {"cpu": 60.0}}
OF_A_DAY = UsageSettings(window_s=DAY_S, statistic=UsageStatistic.P95)
EVEN = {"use_deviation_thresholds": True, "target_thresholds": {"cpu": 10.0}}


def wave(night, day, begins=0.0):
    """Milli CPU; ``begins``: which part of the day after the start the night is deepest."""
    return lambda now_s: (
        night + (day - night) * (0.5 - 0.5 * math.cos(2 * math.pi * ((now_s - b.NOW_S) / DAY_S + begins)))
    )


def days(use_of, settings=OF_A_DAY, seed=1, **args):
    """Ten nodes with ten pods each; ``use_of(node)`` says what each of them uses."""
    loads = [Load(f"p-{n}-{i}", f"n{n}", use_of(n)) for n in range(10) for i in range(10)]
    return MeasuredCluster(10, loads, UsageWindow(settings=settings), seed, noise=0.03, **args)


def undone(moves):
    """Moves back to a node that the same work left less than a day before."""
    left, found = {}, []
    for at_s, name, source, target in moves:
        ways = left.setdefault(name.partition(".")[0], [])
        found += [(name, target) for then_s, node in ways if node == target and at_s - then_s < DAY_S]
        ways.append((at_s, source))
    return found


@pytest.mark.crossed
@pytest.mark.parametrize("args", [FIXED, EVEN], ids=["fixed", "deviation"])
@pytest.mark.parametrize("begins", [0.0, 0.5])
def test_where_all_nodes_swing_alike_or_in_turns_nothing_moves(args, begins):
    """In turns: one half by day, the other by night. By what is used now, pods would follow the sun."""
    cluster = days(lambda n: wave(200, 700, begins * (n < 5)), **args)
    assert cluster.run((1 + LONG) * A_DAY // SAMPLES, EVERY_S, SAMPLES) == 0


@pytest.mark.parametrize("args", [FIXED, EVEN], ids=["fixed", "deviation"])
def test_where_half_of_the_nodes_swing_between_20_and_70_percent_no_move_is_undone(args):
    cluster = days(lambda n: wave(200, 700) if n < 5 else lambda _: 300, **args)
    cluster.run(4 * A_DAY // SAMPLES, EVERY_S, SAMPLES)
    assert cluster.moves
    assert undone(cluster.moves) == []
    assert len(cluster.moves) <= 14  # ten are the fewest that bring five nodes from 70 to 60 %
    assert all(at_s >= b.NOW_S + 22 * 3600 for at_s, *_ in cluster.moves)  # half a day says nothing of a day
    assert cluster.run(LONG * A_DAY // SAMPLES, EVERY_S, SAMPLES) == 0
    for _ in range(48):
        cluster.now_s += DAY_S / 48
        assert max(cluster.load(name) for name in cluster.names) <= 0.6 * 1000 * CORES


# By the window that is shipped ----------------------------------------------------------------------

SHIPPED_S = 100.0
"""Three samples in its five minutes."""
A_DECISION = 12
DECISIONS = round(DAY_S / SHIPPED_S / A_DECISION)


def in_turns(node):
    return wave(200, 700, 0.5 * (node < 5))


def one_after_the_other(node):
    return wave(200, 700, node / 10)


@pytest.mark.parametrize(
    ("args", "use_of", "seed"),
    some([({}, in_turns, 1), (FIXED, in_turns, 3), (EVEN, one_after_the_other, 5)], 2),
)
def test_by_the_shipped_window_no_move_is_undone(args, use_of, seed):
    cluster = days(use_of, UsageSettings(), seed, **args)
    decisions, samples = DECISIONS // SAMPLES, A_DECISION * SAMPLES
    cluster.run(decisions, SHIPPED_S, samples)
    later = cluster.run(LONG * decisions, SHIPPED_S, samples)
    assert undone(cluster.moves) == []
    assert later <= 1 or "use_deviation_thresholds" in args  # of which the mean is measured anew


def test_by_the_shipped_window_a_few_moves_even_out_what_swings():
    cluster = days(lambda n: wave(200, 700) if n < 5 else lambda _: 300, UsageSettings(), **FIXED)
    assert cluster.run(DECISIONS, SHIPPED_S, A_DECISION) == 10
    assert cluster.run(DECISIONS, SHIPPED_S, A_DECISION) == 0


def test_a_swing_too_short_for_the_memory_of_a_day_takes_no_pod_back():
    """n0 is too full for ten minutes, so the pod goes; two hours later n1 is, by a pod that fits nowhere, and n0 has room."""
    after = lambda seconds, then, before: lambda now_s: then if now_s >= b.NOW_S + seconds else before  # noqa: E731
    loads = [Load("hot", "n0", lambda _: 2000), Load("brief", "n0", after(600, 500, 5000))]
    loads += [Load("large", "n1", after(7200, 6500, 500))]
    cluster = MeasuredCluster(2, loads, UsageWindow(), **FIXED | {"who_goes": "neighbours"})
    assert cluster.run(20) == 1
    assert cluster.moves[0][1:] == ("hot", "n0", "n1")
    cluster.watch(7200, 60.0)
    assert cluster.load("n1") == 8500
    assert cluster.run(60) == 0


def by_day(milli):
    """From six to eighteen."""
    return lambda now_s: milli if 0.25 <= ((now_s - b.NOW_S) / DAY_S) % 1.0 < 0.75 else 0


def by_night(milli):
    return lambda now_s: milli - by_day(milli)(now_s)


@pytest.mark.parametrize(("hot", "goes"), [(by_night(3000), True), (lambda _: 3000, False)])
def test_at_night_a_pod_goes_to_a_node_that_is_busy_by_day_only_if_it_is_idle_then(hot, goes):
    """In the second night n0 gets too full by a pod that fits nowhere, and one of 30 %; n1 is empty then, and by day at 40 of 60 %."""
    full = lambda now_s: 6500 * (now_s > b.NOW_S + 1.77 * DAY_S)  # noqa: E731
    loads = [Load("hot", "n0", hot), Load("more", "n0", full), Load("busy", "n1", by_day(4000))]
    cluster = MeasuredCluster(2, loads, UsageWindow(), **FIXED)
    cluster.watch(1.8 * DAY_S, 150.0)
    cluster.run(30)
    assert [name for _, name, _, _ in cluster.moves] == ["hot"] * goes
    if not goes:
        assert cluster.run(40, 150.0, 10) == 0


def every_other(milli, less, offset):
    """``milli`` in one sample and ``less`` in the next."""
    return lambda now_s: milli if (round((now_s - b.NOW_S) / 30.0) + offset) % 2 else less


@pytest.mark.parametrize(("offset", "moves"), [(1, 1), (0, 0)])
def test_what_stands_for_a_node_with_a_pod_is_the_statistic_of_their_sum(offset, moves):
    """At p95 n0 has 90 of 68 %, of which the pod has 30, and n1 has 50: more than 68 together where their peaks come at one time."""
    loads = [
        Load("hot", "n0", every_other(3000, 300, offset)),
        Load("stays", "n0", lambda _: 6000),
        Load("far", "n1", every_other(5000, 500, 0)),
    ]
    settings = UsageSettings(statistic=UsageStatistic.P95)
    args = {"thresholds": {"cpu": 62.0}, "target_thresholds": {"cpu": 68.0}}
    cluster = MeasuredCluster(2, loads, UsageWindow(settings=settings), **args)
    assert cluster.run(40) == moves
