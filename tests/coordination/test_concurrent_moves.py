"""Of several moves of one pod exactly one goes first, whatever the order in which they are looked at."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from rescheduler.coordination.concurrent_moves import ConcurrentMoves
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import Pod, PodSpec

PHASE = MigrationPhase
POD = Pod(namespace="default", name="web", uid="u1", node="n1", spec=PodSpec())


def move(name, phase=PHASE.PENDING, *, started=0.0, requested=0.0, **fields):
    status = MigrationStatus(phase=phase, started_at_s=started, eviction_requested_at_s=requested)
    named = {"pod_name": "web", "pod_uid": "u1", **fields}
    return PodMigration(
        namespace="default", name=name, uid=name, resource_version="1", status=status, **named
    )


def goes_before(mine, *others, begun=()):
    return ConcurrentMoves.of([*others, mine], set(begun)).before(mine, POD)


def test_who_is_alone_waits_for_nobody():
    assert goes_before(move("a")) == ""
    assert goes_before(move("a"), move("b")) == "", "neither has begun: the first one that is looked at does"


def test_who_has_begun_goes_first_and_memory_counts():
    assert goes_before(move("a"), move("b", PHASE.RESERVING, started=5.0)) == "default/b"
    assert goes_before(move("a"), move("b"), begun=[move("b").key]) == "default/b"
    assert goes_before(move("b", PHASE.RESERVING, started=5.0), move("a")) == ""


@pytest.mark.parametrize(
    "other",
    [
        move("b", PHASE.SUCCEEDED),
        move("b", PHASE.FAILED),
        move("b", PHASE.RESERVING, deleting=True),
        move("b", PHASE.HANDING_OVER, pod_uid="an earlier pod of that name"),
        move("b", PHASE.RESERVING, pod_name="another"),
    ],
    ids=["succeeded", "failed", "deleting", "earlier pod", "other pod"],
)
def test_moves_that_are_over_or_of_other_pods_do_not_count(other):
    assert goes_before(move("a"), other) == ""


def test_of_those_that_have_begun_exactly_one_goes_first():
    begun = [
        move("a", PHASE.RESERVING, started=1.0),
        move("b", PHASE.EVICTING, started=2.0),
        move("c", PHASE.EVICTING, started=3.0, requested=9.0),
        move("d", PHASE.EVICTING, started=2.0),
    ]
    for order in itertools.permutations(begun):
        concurrent_moves = ConcurrentMoves.of(order, ())
        assert {m.name: concurrent_moves.before(m, POD) for m in order} == {
            "a": "default/c",
            "b": "default/c",
            "c": "",
            "d": "default/c",
        }
    without = [msgspec.structs.replace(m) for m in begun if m.name != "c"]
    concurrent_moves = ConcurrentMoves.of(without, ())
    assert [concurrent_moves.before(m, POD) for m in without] == ["", "default/a", "default/a"]
