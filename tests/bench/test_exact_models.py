"""The exact models find what trying everything finds, and plans are judged as they say."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("highspy", reason="highspy is not installed: make install")

from bench.exact_models import Relief, least_excess
from bench.optima import planned
from bench.random_clusters import REPAIRS, Kind, policies, random_cluster
from bench.replay import replay
from bench.staged_repairs import fewest_violations
from harness import builders as b
from rescheduler.optima.any_plan import fewest_violations_of_any_plan, most_relief_by_count
from rescheduler.optima.fillings import (
    Consolidation,
    most_emptied,
    most_emptied_by_count,
    most_emptied_by_sizes,
)
from rescheduler.optima.placement import Places
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.scheduling.state import SchedulingState
from tests.bench.tiny_clusters import one_stage, tiny
from tests.seeds import seeds

SECONDS = 120.0


@pytest.mark.parametrize("seed", seeds(0, 16, 3))
def test_fewest_violations_are_those_of_trying_everything(seed):
    placement = Places(tiny(seed)).placement
    least = min(placement.violations(counts) for counts, _ in one_stage(placement))
    found = fewest_violations(placement, 1, SECONDS)
    assert found.proven
    assert round(found.objective) == least
    in_two = fewest_violations(placement, 2, SECONDS)
    assert in_two.objective <= found.objective + 1e-6
    assert fewest_violations_of_any_plan(placement, None, SECONDS).objective <= in_two.objective + 1e-6


@pytest.mark.crossed
@pytest.mark.parametrize("max_moves", [2, 10, None])
@pytest.mark.parametrize("seed", [880_000, 880_001])
def test_what_is_counted_by_sizes_is_a_bound_of_what_can_be_emptied(seed, max_moves):
    cluster = random_cluster(Kind.CONSOLIDATION, seed)
    thresholds, placement = cluster.thresholds, Places(cluster.snapshot).placement
    asked = Consolidation.of(placement, thresholds.low, thresholds.high, max_moves)
    by_sizes = most_emptied_by_sizes(placement, asked, SECONDS)
    assert by_sizes.bound <= most_emptied(placement, asked, 5.0).objective + 1e-6
    assert -by_sizes.objective <= most_emptied_by_count(placement, asked) + 1e-6


def test_a_pod_does_not_fit_into_pieces_of_room_on_two_nodes():
    """Six whole GPUs are free, but no node has more than two: of pods with four none finds a place, of those with two all do."""
    small, large = b.replicaset("small").requests(cpu="1", **{"example.com/gpu": "2"}), b.replicaset("large")
    large = large.requests(cpu="1", **{"example.com/gpu": "4"})
    nodes = [b.node(name).allocatable(cpu="8", pods="20", **{"example.com/gpu": "4"}) for name in "abcde"]
    owners = [small.replicas(3), large.replicas(2)]
    pods = [small.pod(f"small-{name}").on(name) for name in "abc"]
    pods += [large.pod(f"large-{name}").on(name) for name in "de"]
    placement = Places(b.snapshot([*nodes, *owners, *pods])).placement
    asked = Consolidation.of(placement, {"cpu": 101.0}, {"cpu": 100.0}, None)
    assert most_emptied_by_sizes(placement, asked, SECONDS).objective == -1
    assert most_emptied(placement, asked, SECONDS).objective == -1


def test_the_solver_does_not_cut_off_the_best_before_it_begins():
    """Of this cluster a plan empties 8 nodes with 20 moves; with HiGHS's presolve 7 were called optimal."""
    cluster = random_cluster(Kind.CONSOLIDATION, 880_002)
    places = Places(cluster.snapshot)
    placement, thresholds = places.placement, cluster.thresholds
    asked = Consolidation.of(placement, thresholds.low, thresholds.high, 20)
    found = most_emptied(placement, asked, SECONDS)
    done = planned(cluster.snapshot, cluster.policies, max_moves=20)
    assert done.refused == 0
    emptied = placement.in_use(placement.start) - placement.in_use(places.counts(done.snapshot))
    assert emptied <= round(-found.bound)


@pytest.mark.parametrize("seed", seeds(24, 32, 3))
def test_so_many_moves_take_away_no_more_excess_than_the_largest_pods_of_each_node(seed):
    placement = Places(tiny(seed)).placement
    high, every = {"cpu": 60.0, "memory": 50.0}, np.ones(len(placement.nodes), dtype=np.bool_)
    start = placement.excess(placement.start, high)
    tried = list(one_stage(placement))
    for most in range(4):
        least = min(placement.excess(counts, high) for counts, arrived in tried if arrived.sum() <= most)
        assert start - least <= most_relief_by_count(placement, every, high, most) + 1e-9
    assert most_relief_by_count(placement, every, high, 1000) == pytest.approx(start)


@pytest.mark.parametrize("seed", seeds(24, 32, 3))
def test_least_excess_is_that_of_trying_everything(seed):
    placement = Places(tiny(seed)).placement
    low, high = {"cpu": 40.0}, {"cpu": 60.0}
    asked = Relief.of(placement, low, high, None)
    over = placement.load(placement.start)[:, 0] / placement.capacity[:, 0] > 0.6
    best = min(
        placement.excess(counts, high)
        for counts, arrived in one_stage(placement)
        if not (arrived.any(axis=0) & ~asked.free).any()
        and not ((counts < placement.start).any(axis=0) & ~over).any()
        and (placement.load(counts) <= asked.limit)[arrived.any(axis=0)].all()
    )
    found = least_excess(placement, asked, SECONDS)
    assert found.objective == pytest.approx(best, abs=1e-3 * max(1.0, best))


def test_a_move_into_room_that_an_old_pod_of_its_stage_holds_is_refused():
    nodes = [b.node(f"n{i}").label(disk=disk) for i, disk in enumerate(("hdd", "ssd", "hdd"))]
    wrong = b.replicaset("wrong").cpu("3").requires_node("disk", "ssd")
    there = b.replicaset("there").cpu("3")
    alone = b.snapshot(nodes, [wrong, wrong.pod("wrong-0").on("n0")])
    (repair,) = plan(alone, policies(*REPAIRS), PlanningInputs(unlimited=True), SchedulingState(alone)).moves
    both = b.snapshot(nodes, [wrong, wrong.pod("wrong-0").on("n0")], [there, there.pod("there-0").on("n1")])
    (pod,) = (p for p in both.pods.values() if p.name == "there-0")
    named = msgspec.structs.replace(repair.pod, name=pod.name, uid=pod.uid)
    aside = msgspec.structs.replace(repair, pod=named, source="n1", target="n2")
    assert replay(both, [[aside, repair]]).refused == (repair,)
    assert replay(both, [[aside], [repair]]).refused == ()
