"""What a plan shows of the objective adds up: before, what its moves change, and after."""

import pytest

from harness.rest.clusters import random_cluster
from harness.rest.cycles import badness_of, moved
from harness.rest.sets import documents, pairs
from rescheduler.planning.badness import Badness, MoveEffect, by_policy, sum_of
from rescheduler.planning.planner import decide, plan
from rescheduler.planning.summary import badness_now
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import seeds


def shown(summary):
    return by_policy(MoveEffect(policy.name, policy.badness) for policy in summary.policies)


SETS = [*documents(), *list(pairs())[::5], *list(pairs())[-4:]]


@pytest.mark.parametrize("one", SETS, ids=lambda one: one.name)
def test_before_and_all_effects_are_after(one):
    for seed in seeds(500, 504, 1):
        cluster = random_cluster(seed)
        state = SchedulingState(cluster)
        made = plan(cluster, one.policies, one.inputs, state)
        before, after = shown(made.before), shown(made.after)
        assert before == badness_now(cluster, one.policies, state)
        change = by_policy(effect for move in made.moves for effect in move.effects)
        assert change.keys() <= before.keys()
        for name, badness in before.items():
            assert badness + change.get(name, Badness()) == after[name], (seed, name)
        assert sum_of(before.values()).tiers() == badness_of(cluster, one.policies, state), seed
        assert sum_of(after.values()).tiers() == badness_of(moved(cluster, made), one.policies, state), seed


def test_the_controller_decides_with_the_same_numbers():
    one = next(documents())
    cluster = random_cluster(500)
    whole = plan(cluster, one.policies, one.inputs, SchedulingState(cluster))
    state = SchedulingState(cluster)
    quick = decide(cluster, one.policies, one.inputs, state).moving
    assert [move.effects for move in quick.moves] == [move.effects for move in whole.moves]
    assert badness_now(cluster, one.policies, state) == shown(whole.before)
