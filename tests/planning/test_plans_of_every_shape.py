"""Clusters with every kind of object, rule and state: plans are exact, true of what follows, and at rest; ``python -m harness.shapes`` tries many."""

import msgspec
import pytest

from harness.differential.plans.dumps import Form, read
from harness.rest.course import course_of
from harness.rest.settling import settled
from harness.shapes.checks import inexact_changes, order_of_reading, planned
from harness.shapes.clusters import random_shapes

SEEDS = (1200, 1290, 3002, 3012, 3025, 3049, 12096)
"""Clusters whose plans have stages, rooms for pending pods, pools beside each other, prices, and pods that others require near."""


@pytest.mark.parametrize("seed", SEEDS)
def test_they_come_to_rest_and_say_what_is_true(seed):
    case = random_shapes(seed)
    profile = case.profile
    cluster = settled(read(case.objects, Form.OBJECTS), profile)
    course = course_of(cluster, case.policies, case.inputs, profile)
    assert course.faults == []
    assert course.moves > 0


def test_only_pods_that_exist_are_moved():
    """Seed 12096: one that a policy had moved already was to step aside for a pending pod, as the replacement that it will be."""
    case = random_shapes(12096)
    cluster = settled(read(case.objects, Form.OBJECTS), case.profile)
    made = planned(case, cluster)
    uids = [move.pod.uid for move in made.moves]
    assert set(uids) <= {pod.uid for pod in cluster.pods.values()}
    assert len(uids) == len(set(uids))


@pytest.mark.parametrize("seed", [*range(20, 25), 12081])
def test_changes_are_exact_and_the_order_of_reading_does_not_matter(seed):
    case = random_shapes(seed)
    cluster = read(case.objects, Form.OBJECTS)
    assert list(inexact_changes(case, cluster, seed)) == []
    assert list(order_of_reading(case, planned(case, cluster), seed)) == []


@pytest.mark.parametrize("kind", [{}, {"aged": True}, {"aged": True, "rare": True}])
def test_a_seed_gives_the_same_cluster(kind):
    one, again = random_shapes(7, **kind), random_shapes(7, **kind)
    assert msgspec.json.encode(one.objects) == msgspec.json.encode(again.objects)
    assert one.inputs == again.inputs
