"""Type score finds exactly the pods that its definition names, although it does not score all nodes for each of them."""

import msgspec
import pytest

from bench.growth_clusters import cluster, some_nodes_better_avoided, spread_by_default
from bench.random_clusters import Kind
from bench.random_clusters import random_cluster as random_placement
from harness.differential.clusters import random_cluster
from harness.differential.comparison import profile_of, snapshot_of
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.node_affinity import NodeAffinity, NodeAffinityArgs
from rescheduler.policies.objective import Tier, gain
from rescheduler.policies.score_potential import owners_spec
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import seeds, some


def leads_by_definition(state, view):
    """Pod -> by how much of the highest score the best node that may be a target beats its own, the pod taken off."""
    found = {}
    for pod in [pod for node in state.node_names for pod in state.pods_on(node)]:
        kind, here, mark = state.cluster.kind_of(pod), state.node_index[pod.node], state.checkpoint()
        if kind.deleting or kind.belongs_to_node:
            continue
        state.remove(pod)
        probe = msgspec.structs.replace(pod, node="", nominated_node="", spec=owners_spec(kind, view))
        feasible = state.feasible(probe)
        scores = state.score(probe, feasible)
        weights = dict(state.profile.weights)
        highest = 100 * sum(weights[name] for name, points in scores.by_plugin.items() if points.any())
        targets = feasible & view.nodes.usable
        if feasible[here] and highest and targets.any():
            found[pod.uid] = float(scores.total[targets].max() - scores.total[here]) / highest
        state.rollback(mark)
    return found


def gains_by_policy(view, least):
    policy = NodeAffinity(NodeAffinityArgs(types=("score",), minimum_score_difference=least))
    return {one.pod.uid: one.gain for one in policy.candidates(view)}


def assert_same(state, snapshot):
    view = PolicyView.of(snapshot, state)
    leads = leads_by_definition(state, view)
    for least in (0.02, 0.1, 0.25, 0.5):
        wanted = {uid: gain(Tier.SOFT, lead) for uid, lead in leads.items() if lead >= least}
        assert gains_by_policy(view, least) == wanted
    return sum(lead >= 0.1 for lead in leads.values()), len(leads)


@pytest.mark.parametrize("begin", some(range(0, 120, 20), 6))
def test_clusters_with_every_kind_of_preference_and_profile(begin):
    some = 0
    for seed in range(begin, begin + 20):
        question = random_cluster(seed)
        snapshot = snapshot_of(question.objects)
        found, _ = assert_same(SchedulingState(snapshot, profile_of(question)), snapshot)
        some += found
    assert some


@pytest.mark.parametrize("kind", list(Kind))
def test_clusters_of_deployments(kind):
    for seed in seeds(0, 3, 1):
        snapshot = random_placement(kind, seed).snapshot
        state = SchedulingState(snapshot)
        assert_same(state, snapshot)


def as_generated(snapshot):
    return snapshot


@pytest.mark.parametrize("changed", [as_generated, some_nodes_better_avoided, spread_by_default])
def test_clusters_with_many_classes_that_differ_in_little(changed):
    snapshot = changed(cluster(40))
    found, pods = assert_same(SchedulingState(snapshot), snapshot)
    assert 0 < found < pods
