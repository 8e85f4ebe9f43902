"""What a plan shows of the objective adds up: before, what its moves change, and after, which is what the next plan begins with."""

import pytest

from harness import builders as b
from harness.rest.clusters import random_cluster
from harness.rest.cycles import badness_of, moved
from harness.rest.sets import documents, pairs
from rescheduler.planning.badness import Badness, MoveEffect, by_policy, sum_of
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import decide, plan
from rescheduler.planning.summary import badness_now
from rescheduler.policies.low_node_utilization import LowNodeUtilization, LowNodeUtilizationArgs
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import NIGHTLY, seeds

PAIRS = list(pairs())
SETS = [*documents(), *PAIRS[::5], *PAIRS[-4:]] if NIGHTLY else [*documents(), *PAIRS[:-10:8], PAIRS[-1]]
CYCLES, SIZE = (4, 8) if NIGHTLY else (1, 6)


def shown(summary):
    return by_policy(MoveEffect(policy.name, policy.badness) for policy in summary.policies)


def plans(cluster, policies, inputs, cycles=CYCLES):
    """Each plan with its cluster and the plan that follows it, if nothing else happens."""
    made = plan(cluster, policies, inputs, SchedulingState(cluster))
    for _ in range(cycles):
        left = moved(cluster, made)
        following = plan(left, policies, inputs, SchedulingState(left)) if made.moves else made
        yield cluster, made, following
        if not made.moves:
            return
        cluster, made = left, following


@pytest.mark.parametrize("one", SETS, ids=lambda one: one.name)
def test_before_and_all_effects_are_after_and_before_the_next(one):
    for seed in seeds(500, 504, 1):
        for cluster, made, following in plans(
            random_cluster(seed, nodes=SIZE, apps=SIZE), one.policies, one.inputs
        ):
            before, after, state = shown(made.before), shown(made.after), SchedulingState(cluster)
            assert before == badness_now(cluster, one.policies, state)
            change = by_policy(effect for move in made.moves for effect in move.effects)
            assert change.keys() <= before.keys()
            for name, badness in before.items():
                assert badness + change.get(name, Badness()) == after[name], (seed, name)
            assert sum_of(before.values()).tiers() == badness_of(cluster, one.policies, state), seed
            left = moved(cluster, made)
            assert sum_of(after.values()).tiers() == badness_of(left, one.policies, state)
            assert made.after.policies == following.before.policies, seed


@pytest.mark.crossed
@pytest.mark.parametrize("max_moves", [None, 5, 40])
@pytest.mark.parametrize("args", [
    LowNodeUtilizationArgs(thresholds={"cpu": 20.0}, target_thresholds={"cpu": 50.0}),
    LowNodeUtilizationArgs(thresholds={"cpu": 30.0}, target_thresholds={"cpu": 50.0}, number_of_nodes=3),
    LowNodeUtilizationArgs(use_deviation_thresholds=True, thresholds={"cpu": 5.0}, target_thresholds={"cpu": 5.0}),
], ids=["defaults", "few nodes", "deviation"])  # fmt: skip
def test_after_says_what_is_left_on_overloaded_nodes(args, max_moves, app):
    # More is to be moved than the nodes that are nearly empty may take: what is left must be told, not 0.
    nodes = [b.node(f"n{i}") for i in range(12)]
    full = [f"n{i}" for i in range(9) for _ in range(9)]
    cluster = b.snapshot(*nodes, app("web", full, lambda spec: spec.cpu("400m")))
    inputs = PlanningInputs(unlimited=True, max_moves=max_moves)
    seen = list(plans(cluster, (LowNodeUtilization(args),), inputs, cycles=4))
    first = seen[0][1]
    assert first.moves
    # Where the target follows the mean, nothing need be left.
    assert args.use_deviation_thresholds or first.after.policies[0].badness.balance > 0
    for _, made, following in seen:
        assert made.after.policies == following.before.policies


def test_targets_of_a_pool_follow_pods_that_leave_it(app):
    """A taint sends two pods out of a pool with full nodes: its nodes hold less together then."""
    nodes = [b.node(f"n{i}").label(pool="a" if i < 4 else "b") for i in range(6)]
    nodes[3] = nodes[3].taint("dedicated", "team")
    cluster = b.snapshot(
        *nodes,
        *(app(f"full-{i}", [f"n{i}"] * 9, lambda s: s.cpu("400m")) for i in (0, 1)),
        app("web", ["n3"] * 2, lambda s: s.cpu("700m").node_selector({"pool": "b"})),
        app("rest", ["n2"] * 2, lambda s: s.cpu("400m")),
    )
    low = LowNodeUtilizationArgs(node_selector={"pool": "a"})
    policies = NodeTaints(NodeTaintsArgs()), LowNodeUtilization(low)
    (_, made, following), *_ = plans(cluster, policies, PlanningInputs(unlimited=True))
    assert {move.pod.name for move in made.moves} >= {"web-0", "web-1"}
    before, after = shown(made.before), shown(made.after)
    change = by_policy(effect for move in made.moves for effect in move.effects)
    assert before["LowNodeUtilization"] + change["LowNodeUtilization"] == after["LowNodeUtilization"]
    assert made.after.policies == following.before.policies


def test_the_controller_decides_with_the_same_numbers():
    one = next(documents())
    cluster = random_cluster(500)
    whole = plan(cluster, one.policies, one.inputs, SchedulingState(cluster))
    state = SchedulingState(cluster)
    quick = decide(cluster, one.policies, one.inputs, state).moving
    assert [move.effects for move in quick.moves] == [move.effects for move in whole.moves]
    assert badness_now(cluster, one.policies, state) == shown(whole.before)
