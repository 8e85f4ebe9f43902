"""The load of single pods: which pod leaves a node that is too full, how many moves it takes, and that nothing follows."""

import pytest
from measured_cluster import Load, MeasuredCluster

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


@pytest.mark.parametrize("deviation", [False, True])
def test_jitter_of_15_points_on_an_even_cluster_moves_nothing_in_300_cycles(deviation):
    loads = [Load(f"p-{n}-{i}", f"n{n}", steady(500)) for n in range(10) for i in range(10)]
    args = (
        {"use_deviation_thresholds": True, "target_thresholds": {"cpu": 10.0}}
        if deviation
        else {"thresholds": {"cpu": 55.0}, "target_thresholds": {"cpu": 60.0}}
    )
    cluster = MeasuredCluster(10, loads, noise=0.15, minimum_relief=0.0, **args)
    assert cluster.run(300) == 0
