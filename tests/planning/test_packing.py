"""One attempt to empty nodes together: pods that were put on a node make room for others that can go nowhere else."""

from __future__ import annotations

import numpy as np

from rescheduler.planning.consolidation_problem import ConsolidationProblem, Occupant, Source
from rescheduler.planning.packing import Packing
from rescheduler.planning.placement_conflicts import Bound, Mark


def item(need, nodes, **more):
    """A pod that these of four nodes take where there is room."""
    mask = np.isin(np.arange(4), nodes)
    return Occupant(needs=((0, need),), size=float(need), allowed=lambda: mask, **more)


def packing(free, *pods):
    """Nodes 0 and 1, each with one of the pods, beside 2 and 3, which have so much room."""
    rows = np.array([[0, 0, *free]], dtype=np.int64)
    return Packing(
        ConsolidationProblem(
            free=rows,
            shares=rows / 100.0,
            receives=np.array([False, False, True, True]),
            sources=tuple(Source(node, (pod,), 1) for node, pod in enumerate(pods)),
        ),
        np.zeros(4),
        np.zeros(4),
    )


def test_of_sources_that_claim_the_same_one_is_emptied():
    whole, part = item(1, [2]), item(1, [3])
    sources = (Source(0, (whole,), 1, takes=(), claims=(0, 1)), Source(0, (part,), 1, takes=(), claims=(1,)))
    other = Source(0, (item(1, [3]),), 1, takes=(), claims=(2,))
    cluster = ConsolidationProblem(
        free=np.array([[0, 0, 3, 3]], dtype=np.int64),
        shares=np.full((1, 4), 0.03),
        receives=np.array([False, False, True, True]),
        sources=(*sources, other),
    )
    found = Packing(cluster, np.zeros(4), np.zeros(4))
    assert [found.empty(number) for number in range(3)] == [True, False, True]
    assert not found.empty_making_room((0, 1), 4)


def targets(found):
    return {one.source: one.targets for one in found.result()}


def test_a_pod_goes_elsewhere_for_one_that_fits_only_where_it_is():
    found = packing([5, 6], item(3, [2, 3]), item(5, [2]))
    assert found.empty(0)
    assert targets(found) == {0: (2,)}
    assert not found.empty(1)
    assert found.empty_making_room((1,), 1)
    assert targets(found) == {0: (3,), 1: (2,)}


def test_a_pod_that_may_not_meet_another_takes_its_place():
    mark = Mark(1, np.arange(4))
    apart = {"bears": (mark,), "minds": (mark,)}
    found = packing([8, 9], item(1, [2, 3], **apart), item(1, [2], **apart))
    assert found.empty(0)
    assert targets(found) == {0: (2,)}
    assert found.empty_making_room((1,), 1)
    assert targets(found) == {0: (3,), 1: (2,)}


def test_the_pod_of_a_spread_that_can_stay_in_its_domain_does_so_for_one_that_cannot():
    bound = Bound(1, np.array([0, 0, 1, 0]), 0)
    found = packing([8, 9], item(1, [2, 3], spreads=(bound,)), item(1, [2], spreads=(bound,)))
    assert found.empty(0)
    assert targets(found) == {0: (2,)}
    assert found.empty_making_room((1,), 1)
    assert targets(found) == {0: (3,), 1: (2,)}


def test_no_more_attempts_than_asked_for():
    found = packing([5, 6], item(3, [2, 3]), item(5, [2]))
    assert found.empty(0)
    assert not found.empty_making_room((1,), 0)


def test_what_has_no_room_at_all_is_given_up():
    found = packing([5, 2], item(3, [2]), item(4, [2]))
    assert found.empty(0)
    assert not found.empty_making_room((1,), 100)
