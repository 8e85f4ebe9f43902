"""A cluster that nobody else changes comes to rest, whatever policies are switched on; ``python -m harness.rest`` tries many."""

import pytest

from harness import builders as b
from harness.rest.clusters import random_cluster
from harness.rest.course import course_of
from harness.rest.sets import documents, pairs
from rescheduler.model.names import HOSTNAME
from rescheduler.planning.limits import PlanningInputs
from rescheduler.policies.registry import REGISTRY
from tests.seeds import NIGHTLY, seeds, some


@pytest.mark.parametrize("one", list(documents()), ids=lambda one: one.name)
def test_every_shipped_document_comes_to_rest(one):
    moves = 0
    for seed in seeds(400, 412, 1):
        course = course_of(random_cluster(seed), one.policies, one.inputs, hints=one.hints)
        assert course.faults == [], seed
        moves += course.moves
    assert moves > 0, "clusters that need no moves prove nothing"


def test_no_chain_ends_with_a_move_that_gains_nothing():
    """Seed 6: the pod that stepped aside did better, the one for which it did so came back in the next cycle."""
    one = next(one for one in documents() if one.name == "aggressive unlimited")
    course = course_of(random_cluster(6), one.policies, one.inputs, hints=one.hints)
    assert course.faults == []
    assert course.moves > 10


def test_pods_of_one_owner_do_not_swap_in_stages():
    """Seed 20001: one left for another node, and into the room that it was to leave there came one of its owner from that node."""
    one = next(one for one in pairs() if one.name == "rooms+score")
    course = course_of(random_cluster(20001), one.policies, one.inputs, hints=one.hints)
    assert course.faults == []
    assert course.moves >= 3


def test_any_two_policies_come_to_rest_in_any_order():
    moves = 0
    for number, one in some(enumerate(pairs()), 12):
        for seed in seeds(3 * number, 3 * number + 3, 1):
            course = course_of(random_cluster(seed), one.policies, one.inputs, hints=one.hints)
            assert course.faults == [], (one.name, seed)
            moves += course.moves
    assert moves > (20 if NIGHTLY else 2)


def test_soft_spread_and_a_soft_taint_do_not_fight_over_a_deployment():
    """Four pods, of which each taint wants two elsewhere and the spread wants two back: without end, one policy at a time."""
    nodes = [b.node(f"n{i}").label({HOSTNAME: f"n{i}"}) for i in range(4)]
    nodes[0], nodes[1] = (node.taint("old", effect="PreferNoSchedule") for node in nodes[:2])
    owner = b.replicaset("web").cpu("100m").spread(HOSTNAME, hard=False, app="web").replicas(4)
    cluster = b.snapshot(*nodes, owner, *(owner.pod(f"web-{i}").on(f"n{i}") for i in range(4)))
    for names in (("NodeTaints", "TopologySpread"), ("TopologySpread", "NodeTaints")):
        policies = [REGISTRY[name].build(REGISTRY[name].args(**WISHES[name])) for name in names]
        inputs = PlanningInputs(aggressiveness=1.0, unlimited=True)
        course = course_of(cluster, policies, inputs, hints=False)
        assert course.faults == []
        assert course.moves <= 2


WISHES = {
    "NodeTaints": {"include_prefer_no_schedule": True},
    "TopologySpread": {"constraints": ("DoNotSchedule", "ScheduleAnyway")},
}


def test_no_pod_leaves_with_a_group_that_the_others_would_better_leave_without_it():
    """One pod of a fragmented node met more wishes elsewhere, and that outweighed those that the other one gave up: it came back."""
    name = "workloads+rooms+pack+spread+apart+score+affinity+health+taints"
    one = next(chosen for chosen in pairs() if chosen.name == name)
    course = course_of(random_cluster(91010), one.policies, one.inputs, hints=one.hints)
    assert course.moves > 0
    assert not course.faults
