"""``nodeSelector`` says from which nodes a policy takes pods; what it finds bad is counted everywhere."""

import numpy as np
import pytest

from harness import builders as b
from harness.rest.clusters import random_cluster
from harness.rest.sets import VARIANTS
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.simple import SimplePolicy
from rescheduler.policies.wire import NodePoolArgs, PolicyArgs
from rescheduler.scheduling.state import SchedulingState

RULES = [
    variant
    for variant in VARIANTS
    if not issubclass(REGISTRY[variant[1]].args, NodePoolArgs) and variant[1] != "WorkloadSpread"
]
"""Of policies that propose pods by themselves."""


def view_of(cluster):
    return PolicyView.of(cluster, SchedulingState(cluster))


class Costly(SimplePolicy):
    """Every pod costs something everywhere, and pods of one namespace that share a node cost more."""

    name = "Costly"

    def cost(self, pod, node):
        del pod
        return 0.25 if node.labels.get("disk") else 0.0

    def group(self, pod):
        return pod.namespace

    def cost_together(self, pods):
        return len(pods) - 1.0


def proposed(policy, view):
    return {(c.pod.uid, c.reason) for c in policy.candidates(view)}


@pytest.mark.parametrize("variant", RULES, ids=lambda variant: variant[0])
def test_only_pods_of_the_pool_are_proposed_and_all_are_counted(variant):
    _, name, args = variant
    inside = outside = 0
    for seed in range(40):
        cluster = random_cluster(seed)
        view = view_of(cluster)
        everywhere = REGISTRY[name].build(REGISTRY[name].args(**args))
        pool = REGISTRY[name].build(REGISTRY[name].args(**args, node_selector={"disk": "ssd"}))
        disks = {p.uid: cluster.nodes[p.node].labels.get("disk") for p in cluster.pods.values() if p.node}
        found = proposed(pool, view)
        assert all(disks[uid] == "ssd" for uid, _ in found), seed
        inside += len(found)
        outside += sum(disks[uid] != "ssd" for uid, _ in proposed(everywhere, view))
        assert np.array_equal(pool.badness(view), everywhere.badness(view)), seed
    assert inside, "no pod of the pool is badly placed in any of the clusters"
    assert outside, "no pod outside is badly placed in any of the clusters"


def test_a_simple_policy_has_pools_too():
    view = view_of(random_cluster(3))
    pool, everywhere = Costly(PolicyArgs(node_selector={"disk": "ssd"})), Costly(PolicyArgs())
    nodes = {c.pod.node for c in pool.candidates(view)}
    assert nodes
    assert nodes < {c.pod.node for c in everywhere.candidates(view)}
    assert np.array_equal(pool.badness(view), everywhere.badness(view))


def test_a_pod_of_the_pool_may_go_anywhere(decide, app):
    cluster = b.snapshot(
        b.node("n1").label(pool="web").taint("old"), b.node("n2").label(pool="batch"), app("web", ["n1"])
    )
    assert [m.target for m in decide(cluster, ("NodeTaints", {"node_selector": {"pool": "web"}})).moves] == [
        "n2"
    ]
    assert decide(cluster, ("NodeTaints", {"node_selector": {"pool": "batch"}})).moves == ()


def test_of_a_crowded_domain_the_pods_of_the_pool_go(decide, app):
    """Zone a has two pods too many, one on each node: the one in the pool is proposed, and no more."""
    nodes = [b.node(f"n{i}").zone(zone).label({HOSTNAME: f"n{i}", "pool": pool}) for i, (zone, pool) in enumerate(
        [("a", "web"), ("a", "batch"), ("b", "batch")])]  # fmt: skip
    cluster = b.snapshot(*nodes, app("web", ["n0", "n1", "n1"], lambda s: s.spread(ZONE, app="web")))
    moves = decide(cluster, ("TopologySpread", {"node_selector": {"pool": "web"}})).moves
    assert [(m.source, m.target) for m in moves] == [("n0", "n2")]
