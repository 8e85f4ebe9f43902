"""The clusters of bench/drain.py are what they promise, and its figures say what the events say."""

import math
from collections import Counter

import pytest

from bench.drained_clusters import NODE_CPU_MILLI, Sight, Workload, figures, generate
from tests.seeds import seeds

WEB = Workload(name="web", kind="Deployment", cpu_milli=500, nodes=("n1", "n2"), budget=None)


@pytest.fixture(params=seeds(1, 61, 10), ids=lambda seed: f"seed{seed}")
def cluster(request):
    return generate(request.param)


def test_the_same_seed_gives_the_same_cluster(cluster):
    assert generate(cluster.seed) == cluster


def test_85_percent_are_requested_and_no_node_is_overfull(cluster):
    used = Counter(cluster.ballast)
    for workload in cluster.workloads:
        for node in workload.nodes:
            used[node] += workload.cpu_milli
    assert sum(used.values()) == cluster.requested_milli == NODE_CPU_MILLI * len(cluster.nodes) * 85 // 100
    assert max(used.values()) <= NODE_CPU_MILLI
    assert cluster.drained not in cluster.ballast
    assert used[cluster.drained] >= NODE_CPU_MILLI / 2


def test_the_pods_of_the_drained_node_fit_on_the_others_one_by_one(cluster):
    free = dict.fromkeys(cluster.nodes, NODE_CPU_MILLI)
    for node, cpu in cluster.ballast.items():
        free[node] -= cpu
    for workload in cluster.workloads:
        for node in workload.nodes:
            free[node] -= workload.cpu_milli
    del free[cluster.drained]
    leaving = sorted(
        (w.cpu_milli for w in cluster.workloads for n in w.nodes if n == cluster.drained), reverse=True
    )

    def fit(pods, rooms):
        if not pods:
            return True
        return any(
            fit(pods[1:], tuple(sorted((*rooms[:i], room - pods[0], *rooms[i + 1 :]))))
            for i, room in enumerate(rooms)
            if room >= pods[0] and room not in rooms[:i]
        )

    assert leaving
    assert fit(tuple(leaving), tuple(sorted(free.values())))


def test_every_budget_allows_an_eviction_while_all_are_ready(cluster):
    for workload in cluster.workloads:
        field, value = workload.budget or ("maxUnavailable", 1)
        assert (value if field == "maxUnavailable" else workload.replicas - value) >= 1


def test_clusters_of_even_seeds_have_competitors(cluster):
    assert bool(cluster.competitors) == (cluster.seed % 2 == 0)


def seen(at_s, uid, node, *, ready=False, gone=False):
    return Sight(at_s=at_s, uid=uid, app="web", node=node, ready=ready, gone=gone)


BEFORE = [seen(0.0, "a", "n1", ready=True), seen(0.0, "b", "n2", ready=True)]
EVICTED = [*BEFORE, seen(11.0, "a", "n1"), seen(11.5, "c", ""), seen(12.0, "a", "n1", gone=True)]


def test_a_replacement_that_lands_is_pending_until_it_is_bound():
    landed = [*EVICTED, seen(14.0, "c", "n3"), seen(16.0, "c", "n3", ready=True)]
    found = figures(landed, [WEB], "n1", 10.0, 20.0)
    assert found.pending_s == 2.5
    assert found.missing_s == 5.0
    assert found.least_ready == {"web": 1}
    assert found.empty_s == 2.0
    assert (found.left_on_node, found.left_unbound) == (0, 0)


def test_a_replacement_without_a_room_is_pending_until_the_end():
    found = figures(EVICTED, [WEB], "n1", 10.0, 20.0)
    assert (found.pending_s, found.missing_s, found.left_unbound) == (8.5, 9.0, 1)


def test_a_node_that_keeps_a_pod_is_never_empty():
    found = figures(BEFORE, [WEB], "n1", 10.0, 20.0)
    assert (found.pending_s, found.missing_s, found.empty_s, found.left_on_node) == (0.0, 0.0, math.inf, 1)


def test_a_node_to_which_a_pod_comes_back_is_empty_only_afterwards():
    back = [*EVICTED, seen(13.0, "c", "n1"), seen(15.0, "c", "n1", gone=True)]
    assert figures(back, [WEB], "n1", 10.0, 20.0).empty_s == 5.0


def test_pods_of_others_and_events_after_the_end_do_not_count():
    other = Sight(at_s=1.0, uid="x", app="", node="n1", ready=True)
    late = seen(30.0, "b", "n2", gone=True)
    assert figures([*BEFORE, other, late], [WEB], "n1", 10.0, 20.0).least_ready == {"web": 2}
