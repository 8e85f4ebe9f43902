"""The load of single pods: which pod leaves a node that is too full, how many moves it takes, and that nothing follows."""

import pytest
from measured_cluster import Load, MeasuredCluster

from harness import builders as b
from rescheduler.coordination.usage_window import UsageWindow
from rescheduler.model.measured import UsageStatistic
from rescheduler.model.usage import Readings, usage_key
from rescheduler.model.usage_settings import UsageSettings
from rescheduler.policies.sure_overload import AnomalyArgs
from tests.seeds import some

TARGETS = {"thresholds": {"cpu": 40.0}, "target_thresholds": {"cpu": 55.0}}


def steady(milli, rng=None, jitter=0.0):
    return lambda _: milli * (1.0 + (rng.uniform(-jitter, jitter) if rng else 0.0))


def hot_spot(**args):
    """On n0 one pod uses 4.5 CPUs, sixty times its request, and nine use 0.2; on the other nine nodes stand five of those."""
    loads = [Load("hot", "n0", steady(4500), "75m")]
    loads += [Load(f"calm-0-{i}", "n0", steady(200)) for i in range(9)]
    loads += [Load(f"calm-{n}-{i}", f"n{n}", steady(200)) for n in range(1, 10) for i in range(5)]
    return MeasuredCluster(10, loads, noise=0.03, **{**TARGETS, **args})


def test_the_pod_that_carries_the_load_goes_by_one_move_and_nothing_follows():
    cluster = hot_spot()
    cluster.run(200)
    ((_, name, source, _),) = cluster.moves
    assert (name, source) == ("hot", "n0")


def test_its_neighbours_go_where_that_is_wanted_as_few_as_do():
    cluster = hot_spot(who_goes="neighbours")
    cluster.run(200)
    assert "hot" not in {name for _, name, _, _ in cluster.moves}
    assert {source for _, _, source, _ in cluster.moves} == {"n0"}
    assert len(cluster.moves) == 4  # 8 points too much, 2 points each


def test_a_pod_that_is_too_hot_for_every_node_is_not_carried_about():
    loads = [Load("hot", "n0", steady(7000)), *(Load(f"calm-{i}", "n0", steady(500)) for i in range(4))]
    loads += [Load(f"far-{n}", f"n{n}", steady(500)) for n in range(1, 10)]
    cluster = MeasuredCluster(10, loads, noise=0.03, **TARGETS)
    cluster.run(200)
    assert {name.partition("-")[0] for _, name, _, _ in cluster.moves} == {"calm"}
    assert len(cluster.moves) == 4


def test_pods_without_requests_count_by_what_they_use():
    loads = [Load(f"none-{i}", "n0", steady(2000), "0") for i in range(4)]
    cluster = MeasuredCluster(4, loads, use_default_requests=False, **TARGETS)
    cluster.run(50)
    assert len(cluster.moves) == 2
    assert cluster.load("n0") == 4000


def test_a_pod_that_is_not_measured_while_others_are_does_not_go():
    cluster = hot_spot()
    read = cluster.read

    def without_hot():
        hidden, cluster.loads = cluster.loads, [one for one in cluster.loads if one.name != "hot"]
        pods = read()[1]
        cluster.loads = hidden
        return read()[0], pods

    cluster.read = without_hot
    cluster.run(100)
    assert "hot" not in {name for _, name, _, _ in cluster.moves}
    assert cluster.moves


def warnings_of(cluster):
    for _ in range(2):
        cluster.cycle()
    return cluster.cycle().metadata.warnings


def test_what_is_not_measured_is_said():
    one, none, all_ = hot_spot(), hot_spot(), hot_spot()
    read = one.read
    one.read = lambda: (read()[0], Readings.of([(usage_key("default", "calm-0-0"), one.now_s, 200.0, 1.0)]))
    none.pods_measured = False
    said = [[text for text in warnings_of(cluster) if "pod" in text] for cluster in (one, none, all_)]
    assert "leaves 9 pods on overloaded nodes alone, because they are not measured" in said[0][0]
    assert "by requests, because no pod is measured" in said[1][0]
    assert said[2] == []


def test_a_move_says_how_much_of_the_node_its_pod_uses():
    cluster = hot_spot()
    found = [cluster.cycle() for _ in range(3)][-1]
    assert found.moves[0].message.endswith("of 55%, 45% by this pod")


def test_metrics_that_stop_start_no_moves_and_are_taken_up_where_they_ended():
    cluster = hot_spot()
    cluster.measured = False
    assert cluster.run(50) == 0
    cluster.measured = True
    cluster.run(2)
    cluster.measured = False
    assert cluster.run(1) == 0
    cluster.measured = True
    assert cluster.run(1) == 1  # the third sample; one reading that failed drops none of them
    cluster.measured = False
    assert cluster.run(100) == 0


@pytest.mark.parametrize("statistic", some(["p50", "p90", "p95", "p99", "peak"], 2))
def test_by_any_statistic_jitter_moves_nothing_and_a_hot_spot_goes_by_one_move(statistic):
    window = UsageWindow(settings=UsageSettings(statistic=UsageStatistic(statistic)))
    loads = [Load(f"p-{n}-{i}", f"n{n}", steady(500)) for n in range(10) for i in range(10)]
    even = {"use_deviation_thresholds": True, "target_thresholds": {"cpu": 10.0}}
    assert MeasuredCluster(10, loads, window, noise=0.15, minimum_relief=0.0, **even).run(300) == 0
    # With what its nodes vary by the pod fits a node of 10 %, where it makes 52 of 57 %.
    cluster = hot_spot(target_thresholds={"cpu": 57.0})
    cluster.window = UsageWindow(settings=UsageSettings(statistic=UsageStatistic(statistic)))
    cluster.loads[0].use = steady(4200)
    cluster.loads += [Load(f"more-{i}", "n0", steady(200)) for i in range(3)]
    cluster.run(200)
    assert [(name, source) for _, name, source, _ in cluster.moves] == [("hot", "n0")]


def burst(from_s, to_s, milli):
    """Much for a while, and nothing else."""
    return lambda now_s: milli if from_s <= now_s - b.NOW_S < to_s else 100


def bursting(to_s, **args):
    """From the tenth sample on, a pod of n0 beside one of 2 CPUs uses 6."""
    loads = [Load("steady", "n0", steady(2000)), Load("burst", "n0", burst(300, to_s, 6000))]
    loads += [Load(f"far-{n}", f"n{n}", steady(500)) for n in range(1, 4)]
    return MeasuredCluster(4, loads, **TARGETS | {"target_thresholds": {"cpu": 65.0}} | args)


def test_nothing_is_done_before_enough_samples_are_above():
    peak = UsageSettings(statistic=UsageStatistic.PEAK)
    short = bursting(390, anomaly=AnomalyArgs(4, 5))  # three samples
    short.window = UsageWindow(settings=peak)
    assert short.run(40) == 0
    long = bursting(10_000, anomaly=AnomalyArgs(4, 5))
    long.window = UsageWindow(settings=peak)
    moved = [number for number in range(1, 40) if long.cycle().moves]
    assert moved[0] >= 13
    assert len(moved) == 1


def test_relief_begins_above_one_bound_and_ends_at_another():
    def cluster(cpus, most=1):
        loads = [Load(f"p-{i}", "n0", steady(500)) for i in range(2 * cpus)]
        loads += [Load(f"far-{n}", f"n{n}", steady(500)) for n in range(1, 6)]
        made = MeasuredCluster(6, loads, start_thresholds={"cpu": 80.0}, **TARGETS)
        made.most_moves = most
        return made

    between = cluster(7)
    assert between.run(40) == 0
    above = cluster(9)
    assert above.run(200) == 7  # one at a time, from 90 % to 55 %, on and on below 80 % too
    assert above.load("n0") == 5500


def test_a_series_that_a_move_changed_is_known_at_once_and_counts_after_new_samples():
    cluster = hot_spot()
    cluster.run(4)
    assert len(cluster.moves) == 1
    cluster.cycle()
    known = {one.node: one for one in cluster.window.known}
    target = cluster.moves[0][3]
    assert not known["n0"].settled
    cluster.run(5)
    known = {one.node: one for one in cluster.window.known}
    assert known["n0"].settled
    assert abs(known["n0"].cpu_milli - cluster.load("n0")) < 300
    assert abs(known[target].cpu_milli - cluster.load(target)) < 300
