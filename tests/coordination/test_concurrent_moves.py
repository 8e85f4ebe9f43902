"""Of several moves of one pod, or into one Reservation, exactly one goes first, whatever the order in which they are looked at."""

import itertools
from functools import partial

import msgspec
import pytest

from rescheduler.coordination.move_order import ConcurrentMoves
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.records import PodSpec
from tests import records
from tests.records import pod_record

PHASE = MigrationPhase
POD = pod_record(namespace="default", name="web", uid="u1", node="n1", spec=PodSpec())


move = partial(records.move, pod_name="web", pod_uid="u1")


def never(_):
    return False


def goes_before(mine, *others, begun=()):
    return ConcurrentMoves.of([*others, mine], set(begun).__contains__).before(mine, POD)


def test_who_is_alone_waits_for_nobody():
    assert goes_before(move("a")) == ""
    assert goes_before(move("a"), move("b")) == "", "neither has begun: the first one that is looked at does"


def test_who_has_begun_goes_first_and_memory_counts():
    assert (
        goes_before(move("a"), move("b", PHASE.RESERVING, started_at_s=5.0))
        == "move default/b of the same pod"
    )
    assert goes_before(move("a"), move("b"), begun=[move("b").key]) == "move default/b of the same pod"
    assert goes_before(move("b", PHASE.RESERVING, started_at_s=5.0), move("a")) == ""


@pytest.mark.parametrize("other", [
    move("b", PHASE.SUCCEEDED),
    move("b", PHASE.FAILED),
    move("b", PHASE.RESERVING, deleting=True),
    move("b", PHASE.HANDING_OVER, pod_uid="an earlier pod of that name"),
    move("b", PHASE.RESERVING, pod_name="another"),
], ids=["succeeded", "failed", "deleting", "earlier pod", "other pod"])  # fmt: skip
def test_moves_that_are_over_or_of_other_pods_do_not_count(other):
    assert goes_before(move("a"), other) == ""


def test_of_those_that_have_begun_exactly_one_goes_first():
    begun = [
        move("a", PHASE.RESERVING, started_at_s=1.0),
        move("b", PHASE.EVICTING, started_at_s=2.0),
        move("c", PHASE.EVICTING, started_at_s=3.0, eviction_requested_at_s=9.0),
        move("d", PHASE.EVICTING, started_at_s=2.0),
    ]
    for order in itertools.permutations(begun):
        concurrent_moves = ConcurrentMoves.of(order, never)
        last = "move default/c of the same pod"
        assert {m.name: concurrent_moves.before(m, POD) for m in order} == {
            "a": last,
            "b": last,
            "c": "",
            "d": last,
        }
    without = [msgspec.structs.replace(m) for m in begun if m.name != "c"]
    concurrent_moves = ConcurrentMoves.of(without, never)
    assert [concurrent_moves.before(m, POD) for m in without] == [
        "",
        *["move default/a of the same pod"] * 2,
    ]


def test_of_several_moves_into_one_reservation_one_goes_first_whatever_their_pods():
    mine = move("a", PHASE.RESERVING, started_at_s=2.0, reservation_ref="room")
    strangers = move(
        "b", PHASE.RESERVING, started_at_s=1.0, reservation_ref="room", pod_name="other", pod_uid="u2"
    )
    assert goes_before(mine, strangers) == "move default/b into the same Reservation"
    waits = msgspec.structs.replace(strangers, status=MigrationStatus())
    assert goes_before(mine, waits) == "", "who only names the room blocks nobody"
    assert goes_before(move("a", reservation_ref="room"), waits, begun=[waits.key]) == (
        "move default/b into the same Reservation"
    )
    assert goes_before(mine, msgspec.structs.replace(strangers, reservation_ref="another")) == ""
