"""Type score proposes exactly the pods that would stand clearly better elsewhere by what the objective counts of scores."""

import numpy as np
import pytest

from bench.growth_clusters import cluster, some_nodes_better_avoided, spread_by_default
from harness.differential.clusters import random_cluster
from harness.differential.comparison import profile_of, snapshot_of
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.node_affinity import NodeAffinity, NodeAffinityArgs
from rescheduler.policies.objective import ONE, Tier, gain
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import some

HALF = ONE // 2


def falls_by_definition(policy, state, view):
    """By uid, the most that a move takes off on a node that would take the pod if it were gone."""
    found = {}
    for pod in [pod for node in state.node_names for pod in state.pods_on(node)]:
        kind = state.cluster.kind_of(pod)
        if kind.deleting or kind.belongs_to_node:
            continue
        change = policy.change(pod, pod, view)[Tier.SOFT]
        mark = state.checkpoint()
        state.remove(pod)
        takes = state.feasible(pod) & view.nodes.usable
        state.rollback(mark)
        found[pod.uid] = -int(np.where(takes, change, 0).min())
    return found


def assert_same(state, snapshot):
    view, moving = PolicyView.of(snapshot, state), 0
    for least in (0.02, 0.25):
        policy = NodeAffinity(NodeAffinityArgs(types=("score",), minimum_score_difference=least))
        falls = falls_by_definition(policy, state, view)
        wanted = {uid: gain(Tier.SOFT, fall / HALF) for uid, fall in falls.items() if fall >= least * HALF}
        assert {one.pod.uid: one.gain for one in policy.candidates(view)} == wanted
        moving += len(wanted)
    return moving


@pytest.mark.parametrize("begin", some(range(0, 120, 20), 6))
def test_clusters_with_every_kind_of_preference_and_profile(begin):
    found = 0
    for seed in range(begin, begin + 20):
        question = random_cluster(seed)
        snapshot = snapshot_of(question.objects)
        found += assert_same(SchedulingState(snapshot, profile_of(question)), snapshot)
    assert found


@pytest.mark.parametrize("changed", [some_nodes_better_avoided, spread_by_default])
def test_clusters_with_many_classes_that_differ_in_little(changed):
    snapshot = changed(cluster(40))
    assert assert_same(SchedulingState(snapshot), snapshot)
