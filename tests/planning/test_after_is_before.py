"""What a plan says of the cluster after it is what the next plan says before its own moves, if nothing else happened."""

from __future__ import annotations

import pytest

from harness.rest.clusters import random_cluster
from harness.rest.cycles import moved
from harness.rest.sets import documents, pairs
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.low_node_utilization import LowNodeUtilization, LowNodeUtilizationArgs
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b
from tests.seeds import seeds

SETS = [*documents(), *list(pairs())[::7]]
CYCLES = 4


def plans(cluster, policies, inputs):
    """Each plan with the one that follows it."""
    made = plan(cluster, policies, inputs, SchedulingState(cluster))
    for _ in range(CYCLES):
        if not made.moves:
            return
        cluster = moved(cluster, made)
        following = plan(cluster, policies, inputs, SchedulingState(cluster))
        yield made, following
        made = following


@pytest.mark.parametrize("one", SETS, ids=lambda one: one.name)
def test_after_a_plan_is_before_the_next(one):
    for seed in seeds(700, 704, 1):
        for made, following in plans(random_cluster(seed), one.policies, one.inputs):
            assert made.after.policies == following.before.policies, seed


@pytest.mark.parametrize("max_moves", [None, 5, 40])
@pytest.mark.parametrize(
    "args",
    [
        LowNodeUtilizationArgs(thresholds={"cpu": 20.0}, target_thresholds={"cpu": 50.0}),
        LowNodeUtilizationArgs(thresholds={"cpu": 30.0}, target_thresholds={"cpu": 50.0}, number_of_nodes=3),
        LowNodeUtilizationArgs(
            use_deviation_thresholds=True, thresholds={"cpu": 5.0}, target_thresholds={"cpu": 5.0}
        ),
    ],
    ids=["defaults", "few nodes", "deviation"],
)
def test_after_says_what_is_left_on_overloaded_nodes(args, max_moves, app):
    # More is to be moved than the nodes that are nearly empty may take: what is left must be told, not 0.
    nodes = [b.node(f"n{i}") for i in range(12)]
    full = [f"n{i}" for i in range(9) for _ in range(9)]
    cluster = b.snapshot(*nodes, app("web", full, lambda spec: spec.cpu("400m")))
    inputs = PlanningInputs(unlimited=True, max_moves=max_moves)
    policies = (LowNodeUtilization(args),)
    seen = list(plans(cluster, policies, inputs))
    assert seen
    # Where the target follows the mean, nothing need be left.
    assert args.use_deviation_thresholds or seen[0][0].after.policies[0].badness.balance > 0
    for made, following in seen:
        assert made.after.policies == following.before.policies
