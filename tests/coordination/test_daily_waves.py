"""Loads that come and go every day: with a window of a day no move is undone, and nothing is decided by half a day."""

import math

import pytest
from measured_cluster import CORES, Load, MeasuredCluster

from rescheduler.coordination.usage_window import UsageWindow
from rescheduler.model.measured import UsageStatistic
from rescheduler.model.usage_settings import UsageSettings
from rescheduler.testing import builders as b

DAY_S = 86_400.0
EVERY_S = 300.0
"""Samples are further apart than in the controller, so that days pass quickly."""
A_DAY = round(DAY_S / EVERY_S)
FIXED = {"thresholds": {"cpu": 45.0}, "target_thresholds": {"cpu": 60.0}}
EVEN = {"use_deviation_thresholds": True, "target_thresholds": {"cpu": 10.0}}


def wave(night, day, begins=0.0):
    """Milli CPU; ``begins``: which part of the day after the start the night is deepest."""
    return lambda now_s: (
        night + (day - night) * (0.5 - 0.5 * math.cos(2 * math.pi * ((now_s - b.NOW_S) / DAY_S + begins)))
    )


def days(use_of, **args):
    """Ten nodes with ten pods each; ``use_of(node)`` says what each of them uses."""
    loads = [Load(f"p-{n}-{i}", f"n{n}", use_of(n)) for n in range(10) for i in range(10)]
    window = UsageWindow(settings=UsageSettings(window_s=DAY_S, statistic=UsageStatistic.P95))
    return MeasuredCluster(10, loads, window, noise=0.03, **args)


def undone(moves):
    """Moves back to a node that the same work left less than a day before."""
    left, found = {}, []
    for at_s, name, source, target in moves:
        ways = left.setdefault(name.partition(".")[0], [])
        found += [(name, target) for then_s, node in ways if node == target and at_s - then_s < DAY_S]
        ways.append((at_s, source))
    return found


@pytest.mark.parametrize("args", [FIXED, EVEN], ids=["fixed", "deviation"])
@pytest.mark.parametrize("begins", [0.0, 0.5])
def test_where_all_nodes_swing_alike_or_in_turns_nothing_moves(args, begins):
    """In turns: one half by day, the other by night. By what is used now, pods would follow the sun."""
    cluster = days(lambda n: wave(200, 700, begins * (n < 5)), **args)
    assert cluster.run(3 * A_DAY, EVERY_S) == 0


@pytest.mark.parametrize("args", [FIXED, EVEN], ids=["fixed", "deviation"])
def test_where_half_of_the_nodes_swing_between_20_and_70_percent_no_move_is_undone(args):
    cluster = days(lambda n: wave(200, 700) if n < 5 else lambda _: 300, **args)
    cluster.run(4 * A_DAY, EVERY_S)
    assert cluster.moves
    assert undone(cluster.moves) == []
    assert len(cluster.moves) <= 14  # ten are the fewest that bring five nodes from 70 to 60 %
    assert all(at_s >= b.NOW_S + 22 * 3600 for at_s, *_ in cluster.moves)  # half a day says nothing of a day
    assert cluster.run(2 * A_DAY, EVERY_S) == 0
    for _ in range(48):
        cluster.now_s += DAY_S / 48
        assert max(cluster.load(name) for name in cluster.names) <= 0.6 * 1000 * CORES
