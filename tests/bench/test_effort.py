"""The table of effort: what larger clusters reach within so much time, beside the bound."""

from __future__ import annotations

import pytest

pytest.importorskip("highspy", reason="highspy is not installed: make install")

from bench.effort import Tried, best_within, efforts, row, tried
from bench.optima import within
from bench.random_clusters import Kind, large_cluster
from rescheduler.model.migration import MoveMode
from rescheduler.planning.plan import Move, PlanBound, PodRef, Question


def one(effort, seconds, reached, moves=10, bound=20.0):
    found = PlanBound(question=Question.NODES_EMPTIED, reached=reached, bound=bound)
    return Tried(effort, seconds, moves, found)


def test_the_best_plan_within_the_time_counts_not_the_last():
    found = [one(1, 0.5, 9), one(8, 1.5, 12), one(32, 1.9, 12), one(128, 8.0, 11), one(512, 50.0, 15)]
    assert best_within(found, 0.1) is None
    assert best_within(found, 2).effort == 8, "of equal ones that with the least effort"
    assert best_within(found, 10).effort == 8
    assert best_within(found, 60).effort == 512


def test_a_row_says_what_was_reached_with_which_effort_and_the_lowest_bound():
    found = [one(1, 3.0, 9, bound=None), one(8, 5.0, 12, bound=21.0), one(32, 9.0, 13, bound=20.0)]
    text = row(Kind.CONSOLIDATION, 5000, found, (2.0, 10.0))
    assert text == "| consolidation | 5,000 | - | 13 (10 moves, effort 32, 9.0 s) | 20 |"


def test_efforts_grow_fourfold():
    asked = list(efforts())
    assert asked[:4] == [1, 8, 32, 128]


@pytest.mark.parametrize("kind", [Kind.CONSOLIDATION, Kind.BALANCE])
def test_no_plan_of_a_larger_cluster_passes_its_bound(kind):
    cluster = large_cluster(kind, 3, 70)
    again = large_cluster(kind, 3, 70)
    assert cluster.snapshot.pods == again.snapshot.pods
    assert len(cluster.snapshot.nodes) == 70
    found = list(tried(cluster, 0.2, 50))
    assert found
    for plan in found:
        assert plan.moves <= 50
        assert 0 < plan.bound.reached <= plan.bound.bound + 1e-6


def move(name, reason="", after=()):
    pod = PodRef("default", name)
    return Move(
        pod=pod, controller=None, source="n0", target="n1", policy="P", reason=reason, message="", gain=0.0, disruption=0.0,
        mode=MoveMode.RESERVE_FIRST, after=tuple(PodRef("default", one) for one in after),
    )  # fmt: skip


def test_what_only_makes_room_for_a_stage_that_is_left_out_is_left_out_too():
    moves = [
        move("a"),
        move("b", "MakesRoom"),
        move("c", "MakesRoom"),
        move("d", "MakesRoom", after=["c"]),
        move("e", after=["b"]),
        move("f", after=["d"]),
    ]
    assert [m.pod.name for m in within(moves, 2)] == ["a", "b", "e"]
    assert within(moves, 3) == moves
    assert [m.pod.name for m in within(moves, 1)] == ["a"]
