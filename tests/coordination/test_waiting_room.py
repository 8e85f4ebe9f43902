"""Rooms that others make for a pending pod: what their moves wait for, and when they are given up."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.coordination.waiting_room import MOVES_SHOWN_S, REST_S, ROOM_FREE_S, WaitingRoom
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.names import (
    ANNOTATION_MAKES_ROOM,
    ANNOTATION_PENDING_POD,
    ANNOTATION_PENDING_POD_MOVES,
    CREATED_BY,
    LABEL_CREATED_BY,
)
from rescheduler.model.records import Node, ObjectKey, PodSpec
from rescheduler.model.reservation import (
    MakingRoom,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.observed_reservation import ObservedReservation
from tests import records
from tests.records import pod_record

NOW_S = 1000.0
BIG = pod_record(
    namespace="shop", name="big", uid="uid-big", spec=PodSpec(), unschedulable_message="0/1 nodes"
)
PHASE = MigrationPhase


def room(moves=2, **fields):
    marks = {ANNOTATION_PENDING_POD: "shop/big", ANNOTATION_PENDING_POD_MOVES: str(moves)}
    owner = ReservationOwner(object=ObjectRef("shop", "big", "uid-big"))
    known = {
        "owners": (owner,),
        "created_at_s": NOW_S,
        "template_node": "n1",
        "status": ReservationStatus(phase=ReservationPhase.WAITING),
    }
    return Reservation(**{"name": "big.room", "uid": "r", "annotations": LabelSet(marks), **known, **fields})


def move(name, phase=PHASE.EVICTING, reason="MakingRoom", *, mark="big.room", **fields):
    by_us = {"namespace": "shop", "policy": "PendingPods", "labels": {LABEL_CREATED_BY: CREATED_BY}}
    return records.move(
        name, phase, reason=reason, annotations={ANNOTATION_MAKES_ROOM: mark}, **by_us, **fields
    )


def cluster(*moves, reservation=None, pod=BIG):
    return dataclasses.replace(
        b.snapshot(),
        pods={pod.key: pod} if pod is not None else {},
        migrations={m.key: m for m in moves},
        reservations={r.name: r for r in ([reservation] if reservation else [])},
        nodes={"n1": Node(name="n1")},
    )


def observed(reservation, nominated="n1"):
    placeholder = pod_record(
        namespace="rescheduler", name="p", uid="p", spec=PodSpec(), nominated_node=nominated
    )
    return {
        reservation.name: ObservedReservation(
            reservation=reservation, node=Node(name="n1"), placeholders=(placeholder,)
        )
    }


def before(one, *others, reservation, nominated="n1"):
    snapshot = cluster(one, *others, reservation=reservation)
    return WaitingRoom(snapshot).of_move(one, observed(reservation, nominated))


def test_a_move_waits_until_the_others_may_evict():
    a, late = move("a"), move("b", PHASE.RESERVING, "Reserving")
    assert "1 other moves" in before(a, late, reservation=room()).evicts_after
    assert before(a, move("b"), reservation=room()).evicts_after == ""
    assert "1 other moves" in before(a, reservation=room()).evicts_after, "one was not created"


@pytest.mark.parametrize("other", [
    move("b", PHASE.EVICTING, "ProvingGate", eviction_requested_at_s=NOW_S),
    move("b", PHASE.HANDING_OVER, ""),
    move("b", PHASE.SUCCEEDED, ""),
    move("b", PHASE.PENDING, "EarlierMoves", after=(ObjectKey("shop", "a"),), mode=MoveMode.START_FIRST),
], ids=["intends", "evicted", "landed", "starts first, later"])  # fmt: skip
def test_who_is_on_the_way_or_has_no_room_to_reserve_yet_is_not_waited_for(other):
    assert before(move("a"), other, reservation=room()).evicts_after == ""


def later(**fields):
    """A move that begins after a."""
    fields = {"target_node": "n1", **fields}
    return msgspec.structs.replace(
        move("b", PHASE.PENDING, "EarlierMoves", after=(ObjectKey("shop", "a"),), reservation_name="b.move"),
        **fields,
    )


def test_the_place_of_a_later_move_is_kept_before_anybody_is_evicted():
    a, b, kept = move("a"), later(), {**observed(room()), **observed(room(name="b.move"))}
    rooms = WaitingRoom(cluster(a, b, reservation=room()))
    assert rooms.of_move(b, observed(room())).keeps_place
    assert "1 other moves" in rooms.of_move(a, observed(room())).evicts_after
    assert rooms.of_move(a, kept).evicts_after == ""


def test_a_place_is_not_kept_where_it_would_be_in_the_way_of_an_earlier_move():
    a, b = msgspec.structs.replace(move("a"), target_node="n1"), later()
    rooms = WaitingRoom(cluster(a, b, reservation=room()))
    assert not rooms.of_move(b, observed(room())).keeps_place
    assert rooms.of_move(a, observed(room())).evicts_after == ""


@pytest.mark.parametrize("reason", ["DisruptionBudget", "Forbidden"])
def test_who_may_not_evict_is_waited_for(reason):
    assert before(move("a"), move("b", reason=reason), reservation=room()).evicts_after


def test_nobody_is_evicted_before_the_node_is_kept():
    assert "keep its node" in before(move("a"), reservation=room(1), nominated="").evicts_after
    pending = room(1, status=ReservationStatus())
    assert "keep its node" in before(move("a"), reservation=pending).evicts_after


def test_without_the_reservation_the_moves_end():
    one = move("a")
    without = WaitingRoom(cluster(one)).of_move(one, {})
    assert without.in_vain
    assert without.unseen
    over = before(one, reservation=room(status=ReservationStatus(phase=ReservationPhase.FAILED)))
    assert over.in_vain
    assert not over.unseen


def test_what_people_write_makes_no_room():
    asked = msgspec.structs.replace(move("a"), labels=LabelSet({}))
    assert WaitingRoom(cluster(asked)).of_move(asked, {}) == WaitingRoom(cluster()).of_move(
        move("x", mark=""), {}
    )


def given_up(*moves, reservation=None, pod=BIG, now_s=NOW_S):
    found = WaitingRoom(cluster(*moves, reservation=reservation or room(), pod=pod)).given_up(now_s)
    return [why for _, why in found]


def test_a_room_is_given_up_with_the_first_move_that_fails():
    failed = move("b", PHASE.FAILED, "DecisionStale")
    (why,) = given_up(move("a"), failed)
    assert why.endswith("move shop/b failed (DecisionStale); nobody was evicted")
    elsewhere = room(template_node="n9")
    (why,) = given_up(move("a"), move("b"), reservation=elsewhere)
    assert why.endswith("node/n9 does not exist any more")


@pytest.mark.parametrize(
    "pod",
    [None, msgspec.structs.replace(BIG, node="n9"), msgspec.structs.replace(BIG, uid="other")],
    ids=["gone", "runs", "another"],
)
def test_a_room_is_given_up_when_its_pod_waits_no_more(pod):
    (why,) = given_up(move("a"), move("b"), pod=pod)
    assert why == "the room for pod shop/big is given up: it does not wait any more"


def test_moves_that_were_never_created_are_not_waited_for_for_ever():
    assert given_up(move("a")) == []
    assert given_up(move("a"), now_s=NOW_S + MOVES_SHOWN_S)
    assert given_up(move("a"), move("b"), now_s=NOW_S + MOVES_SHOWN_S) == []


def test_a_room_that_is_handed_over_is_left_alone():
    claimed = ReservationStatus(
        phase=ReservationPhase.AVAILABLE, current_owners=(ObjectRef("shop", "big", "uid-big"),)
    )
    assert given_up(move("b", PHASE.FAILED), reservation=room(status=claimed)) == []


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 40, "\u0663"])
def test_any_number_of_moves_can_be_read(text):
    odd = msgspec.structs.replace(
        room(), annotations=LabelSet({ANNOTATION_PENDING_POD: "shop/big", ANNOTATION_PENDING_POD_MOVES: text})
    )
    assert before(move("a"), reservation=odd).evicts_after == ""


MAKING = MakingRoom(node="n1", moves=2, attempt="x", since_s=NOW_S)


def asked(phase=ReservationPhase.WAITING, making=MAKING):
    """A Reservation of people for which others step aside."""
    return Reservation(name="peak", uid="r", status=ReservationStatus(phase=phase, making_room=making))


def in_cluster(*moves, reservation):
    return dataclasses.replace(cluster(*moves, reservation=reservation), nodes={"n1": Node(name="n1")})


def why(*moves, reservation=None, now_s=NOW_S):
    reservation = reservation or asked()
    return (
        WaitingRoom(in_cluster(*moves, reservation=reservation)).of_reservation(reservation, now_s).given_up
    )


def aside(name, *args, mark="peak/x", **status):
    return move(name, *args, mark=mark, **status)


def test_moves_for_a_reservation_of_people_wait_for_each_other_too():
    a, late = aside("a"), aside("b", PHASE.RESERVING, "Reserving")
    assert "1 other moves" in before(a, late, reservation=asked()).evicts_after
    assert before(a, aside("b"), reservation=asked()).evicts_after == ""
    assert "keep its node" in before(a, aside("b"), reservation=asked(ReservationPhase.PENDING)).evicts_after


@pytest.mark.parametrize("reservation", [
    asked(making=None),
    asked(ReservationPhase.AVAILABLE, making=None),
    asked(making=msgspec.structs.replace(MAKING, attempt="y")),
], ids=["given up", "there", "decided anew"])  # fmt: skip
def test_moves_end_once_the_reservation_needs_them_no_more(reservation):
    reason, why = before(aside("a"), reservation=reservation).in_vain
    assert (reason, why) == ("RoomGivenUp", "Reservation peak needs no room of it any more")


def test_moves_of_an_earlier_decision_count_no_more():
    failed = aside("old", PHASE.FAILED, "Expired", mark="peak/before")
    assert why(failed, aside("a"), aside("b")) == ""


def test_a_reservation_of_people_is_told_why_its_room_is_not_made():
    assert (
        why(aside("a"), aside("b", PHASE.FAILED, "Expired"))
        == "move shop/b failed (Expired); nobody was evicted"
    )
    assert why(aside("a"), now_s=NOW_S + MOVES_SHOWN_S) == "1 of 2 moves were created"
    elsewhere = asked(making=msgspec.structs.replace(MAKING, node="n9"))
    assert why(reservation=elsewhere) == "node/n9 does not exist any more"
    done = [aside(name, PHASE.SUCCEEDED, "", finished_at_s=NOW_S) for name in "ab"]
    assert why(*done) == ""
    assert (
        why(*done, now_s=NOW_S + ROOM_FREE_S)
        == "all 2 pods have left node/n1, but the room did not become free"
    )


def test_who_steps_aside_is_told_with_the_new_node():
    one = msgspec.structs.replace(aside("a"), target_node="n2")
    reservation = asked()
    assert WaitingRoom(in_cluster(one, reservation=reservation)).of_reservation(
        reservation, NOW_S
    ).step_aside == ("shop/a (to n2)",)


def others(*moves):
    return WaitingRoom(in_cluster(*moves, reservation=asked())).of_reservation(asked(), NOW_S).others_wanted


def test_after_an_eviction_others_are_looked_for_instead_of_giving_up():
    left, stays = aside("a", PHASE.SUCCEEDED, "", evicted_at_s=NOW_S), aside("b", PHASE.FAILED, "Expired")
    assert (
        others(left, stays)
        == "move shop/b failed (Expired); 1 of 2 pods were moved, they stay where they are"
    )
    assert why(left, stays) == ""
    assert others(aside("a"), stays) == "", "nobody was evicted: it is given up"


def test_a_move_that_fails_after_its_pod_has_left_stops_nothing():
    late = aside("b", PHASE.FAILED, "LandedElsewhere", evicted_at_s=NOW_S, finished_at_s=NOW_S)
    assert (others(aside("a"), late), why(aside("a"), late)) == ("", "")
    assert given_up(move("a"), msgspec.structs.replace(late, annotations=move("b").annotations)) == []


def test_others_are_looked_for_for_a_while():
    rest = asked(making=MakingRoom(node="n1", moves=0, attempt="", since_s=NOW_S))
    assert why(reservation=rest, now_s=NOW_S + REST_S - 1) == ""
    assert (
        why(reservation=rest, now_s=NOW_S + REST_S)
        == "no other pods could step aside for the rest of the room"
    )


def test_for_a_pending_pod_others_are_looked_for_as_for_a_reservation():
    left, stays = move("a", PHASE.SUCCEEDED, "", evicted_at_s=NOW_S), move("b", PHASE.FAILED, "Expired")
    rooms = WaitingRoom(cluster(left, stays, reservation=room()))
    words = "move shop/b failed (Expired); 1 of 2 pods were moved, they stay where they are"
    assert rooms.of_reservation(room(), NOW_S).others_wanted == words
    assert given_up(left, stays) == []
    rest = MakingRoom(node="n1", moves=0, attempt="", since_s=NOW_S)
    kept = room(status=ReservationStatus(phase=ReservationPhase.WAITING, making_room=rest))
    assert given_up(left, stays, reservation=kept, now_s=NOW_S + REST_S - 1) == []
    (why,) = given_up(left, stays, reservation=kept, now_s=NOW_S + REST_S)
    assert why.endswith("no other pods could step aside for the rest of the room")
    again = room(status=ReservationStatus(phase=ReservationPhase.WAITING, making_room=MAKING))
    assert given_up(left, stays, move("c", mark="big.room/x"), reservation=again) == []
    assert given_up(move("c", PHASE.FAILED, "Expired", mark="big.room/x"), reservation=again)
