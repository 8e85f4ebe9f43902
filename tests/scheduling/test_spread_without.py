"""Soft spread constraints score the same for many pods at once, each of them alone taken off, as for one after the other."""

import numpy as np
import pytest

from bench.growth_clusters import cluster, spread_by_default
from harness.differential.clusters import random_cluster
from harness.differential.comparison import profile_of, snapshot_of
from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread, spread_without
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import some


def assert_same(state, every):
    """For each class and some feasible nodes. Gives how many pods were compared, and on how many nodes at most."""
    pods, most = 0, 0
    for kind in [kind for kind in state.cluster.classes if kind.pods]:
        here = np.unique(kind.where)
        feasible = np.unique(np.append(np.arange(0, len(state.node_names), every), here))
        found = spread_without(kind, (kind, here), state.cluster, feasible)
        if found is None:
            continue
        kinds, points = found.kinds(feasible), found.points(here, feasible)
        for row, node in enumerate(here.tolist()):
            mark = state.checkpoint()
            state.remove(next(pod for pod in kind.pods if state.node_index[pod.node] == node))
            wanted = PodTopologySpread().score(
                Ask(kind.pods[0] if kind.pods else None, kind), state.cluster, feasible
            )
            state.rollback(mark)
            own = np.flatnonzero(feasible == node)[0]
            beside = np.arange(len(feasible)) != own
            assert points[row, :-1][beside].tolist() == wanted[beside].tolist()
            assert points[row, -1] == wanted[own]
            alone = spread_without(kind, (kind, np.array([node])), state.cluster, feasible[beside])
            assert alone.points(np.array([node]), feasible[beside])[0, -1] == wanted[own]
            for one in np.unique(kinds[beside]):
                assert len(set(wanted[beside & (kinds == one)].tolist())) == 1
            pods += 1
            most = max(most, len(np.unique(kinds)))
    return pods, most


@pytest.mark.parametrize("begin", some(range(0, 200, 25), 8))
def test_clusters_with_every_kind_of_constraint_and_profile(begin):
    compared = 0
    for seed in range(begin, begin + 25):
        question = random_cluster(seed)
        state = SchedulingState(snapshot_of(question.objects), profile_of(question))
        compared += assert_same(state, 1 + seed % 2)[0]
    assert compared > 10


def test_few_nodes_tell_it_where_a_profile_spreads_all_pods():
    snapshot = spread_by_default(cluster(40))
    pods, kinds = assert_same(SchedulingState(snapshot), 1)
    assert pods > 300
    assert kinds < 20
