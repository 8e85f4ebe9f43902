"""Who gets which room: owners, sizes, the choice among several, and the pods that are let go."""

import msgspec
import pytest

from rescheduler.model import names
from rescheduler.model.records import OwnerRef, PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.reservations.assignment import Room, assign
from rescheduler.reservations.owners import empty_owner, owner_matches
from tests import records
from tests.records import pod_record

RS = OwnerRef("apps/v1", "ReplicaSet", "web-1", "rs")
SET = OwnerRef("apps/v1", "StatefulSet", "web", "rs")
JOB = OwnerRef("batch/v1", "Job", "sum", "rs")
DEPLOYMENT = OwnerRef("apps/v1", "Deployment", "web", "dep")


def pod(name, cpu=1000, created=10.0, **fields):
    spec = PodSpec(requests=Resources(cpu_milli=cpu), gates=(names.GATE,))
    fields = {"controller": RS, "labels": LabelSet({"app": "web"}), **fields}
    return pod_record(namespace="default", name=name, uid=name, created_at_s=created, spec=spec, **fields)


def room(name, cpu=1000, *, open=True, order="", **fields):  # noqa: A002  the field's name
    marks = {names.ANNOTATION_ORDER: order} if order else {}
    size, owner = Resources(cpu_milli=cpu), ReservationOwner(controller=ControllerRef(uid="rs"))
    reservation = records.room(
        name, ReservationPhase.AVAILABLE, owners=(owner,), annotations=marks, allocatable=size
    )
    return Room(reservation=reservation, size=size, open=open, **fields)


def outcome_of(pods, rooms):
    found = assign(pods, rooms, lambda p: (RS, DEPLOYMENT))
    parts = [
        {p.uid for pods in found.claims.values() for p in pods},
        set(found.held),
        {p.uid for p, _ in found.released},
    ]
    assert sorted(uid for part in parts for uid in part) == sorted(p.uid for p in pods), (
        "each pod in one part"
    )
    return {name: " ".join(p.name for p in pods) for name, pods in found.claims.items()}, parts[1], parts[2]


def test_each_room_goes_to_one_pod_and_the_surplus_is_released():
    assert outcome_of(
        [pod("a"), pod("b", created=11.0), pod("c", created=12.0)], [room("r1"), room("r2")]
    ) == (
        {"r1": "a", "r2": "b"},
        set(),
        {"c"},
    )


def test_a_pod_larger_than_the_room_is_not_given_it():
    assert outcome_of([pod("big", 1001)], [room("r")]) == ({}, set(), {"big"})


def test_while_an_eviction_is_undecided_nobody_claims_and_nobody_is_released():
    assert outcome_of([pod("a")], [room("r", open=False)]) == ({}, {"a"}, set())


def test_a_replacement_waits_for_its_own_room_while_another_room_of_the_owner_is_open():
    open_one, undecided = room("a"), room("b", open=False, since_s=5.0)
    assert outcome_of([pod("new")], [open_one, undecided]) == ({}, {"new"}, set())
    assert outcome_of([pod("old", created=1.0), pod("new")], [open_one, undecided]) == (
        {"a": "old"},
        {"new"},
        set(),
    )


def test_of_two_moves_a_replacement_waits_for_none_whose_eviction_has_no_answer():
    """Its key names the other room: siblings have one key, and that eviction may wait for minutes."""
    named = LabelSet({names.ANNOTATION_RESERVATION: "a"})
    rooms = [room("a", open=False, since_s=5.0), room("b", since_s=5.0)]
    assert outcome_of([pod("new", annotations=named)], rooms) == ({"b": "new"}, set(), set())
    assert outcome_of([pod("new"), pod("next")], rooms) == ({"b": "new"}, {"next"}, set())


def test_the_room_of_a_move_is_served_before_rooms_for_anybody():
    rooms = [room("a", order="-1"), room("b", since_s=5.0)]
    assert outcome_of([pod("new")], rooms)[0] == {"b": "new"}
    assert outcome_of([pod("first"), pod("second")], rooms)[0] == {"b": "first", "a": "second"}


def test_the_fullest_fit_is_chosen_and_the_order_label_goes_first():
    assert outcome_of([pod("a")], [room("large", 4000), room("snug", 1000)])[0] == {"snug": "a"}
    assert outcome_of([pod("a")], [room("large", 4000, order="1"), room("snug", 1000, order="2")])[0] == {
        "large": "a"
    }


def test_rooms_without_an_order_come_last():
    rooms = [room("a"), room("b", order="7"), room("c", order="0")]
    assert outcome_of([pod("1"), pod("2", created=11.0), pod("3", created=12.0)], rooms)[0] == {
        "b": "1",
        "a": "2",
        "c": "3",
    }


def test_rooms_for_exactly_this_controller_come_before_those_by_name():
    of_web = ReservationOwner(controller=ControllerRef(kind="Deployment", name="web"))
    by_name = room("a")
    by_name = Room(
        reservation=msgspec.structs.replace(by_name.reservation, owners=(of_web,)),
        size=by_name.size,
        open=True,
    )
    assert outcome_of([pod("1"), pod("2", created=11.0)], [by_name, room("b")])[0] == {"b": "1", "a": "2"}


def test_the_pod_created_after_the_eviction_is_preferred():
    assert outcome_of([pod("old", created=5.0), pod("new", created=20.0)], [room("r", since_s=20.4)])[0] == {
        "r": "new"
    }


@pytest.mark.parametrize("open_now", [True, False])
def test_a_sibling_of_a_statefulset_gets_no_room_of_a_move_and_is_not_held_for_it(open_now):
    pods = [pod("web-0", created=6.0, controller=SET), pod("web-1", created=5.0, controller=SET)]
    moved = room("r", replaces="web-0", since_s=5.0, open=open_now)
    expected = {"r": "web-0"} if open_now else {}
    assert outcome_of(pods, [moved]) == (expected, set() if open_now else {"web-0"}, {"web-1"})
    assert outcome_of(pods[1:], [moved]) == ({}, set(), {"web-1"})
    assert outcome_of(pods[1:], [room("r")])[0] == {"r": "web-1"}, (
        "a room of users is for any pod of the owner"
    )


def test_a_pod_of_an_indexed_job_takes_the_room_of_its_index_only():
    index = LabelSet({"batch.kubernetes.io/job-completion-index": "0"})
    pods = [pod(name, controller=JOB, labels=index) for name in ("sum-1-abcde", "sum-0-fghij")]
    assert outcome_of(pods, [room("r", replaces="sum-1-zzzzz", since_s=5.0)])[0] == {"r": "sum-1-abcde"}


def test_any_pod_of_a_replicaset_takes_the_room_of_a_move():
    assert outcome_of([pod("web-1-new")], [room("r", replaces="web-1-old", since_s=5.0)])[0] == {
        "r": "web-1-new"
    }


SELECTOR = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


@pytest.mark.parametrize(("owner", "matches"), [
    (ReservationOwner(), False),
    (ReservationOwner(object=ObjectRef()), False),
    (ReservationOwner(label_selector=LabelSelector()), False),
    (ReservationOwner(object=ObjectRef(namespace="default", name="a")), True),
    (ReservationOwner(object=ObjectRef(name="a", uid="other")), False),
    (ReservationOwner(controller=ControllerRef(uid="rs")), True),
    (ReservationOwner(controller=ControllerRef(kind="Deployment", name="web")), True),
    (ReservationOwner(controller=ControllerRef(name="web-1", namespace="elsewhere")), False),
    (ReservationOwner(label_selector=SELECTOR), True),
    (ReservationOwner(label_selector=SELECTOR, controller=ControllerRef(uid="other")), False),
    (ReservationOwner(label_selector=SELECTOR, object=ObjectRef(name="a")), True),
])  # fmt: skip
def test_fields_of_one_owner_are_anded_and_an_empty_owner_matches_nobody(owner, matches):
    assert owner_matches(owner, pod("a"), (RS, DEPLOYMENT)) is matches
    assert not (empty_owner(owner) and matches)


@pytest.mark.parametrize("order", ["--5", "9" * 5000, "5", "+", "1.5", "٣", "0", "2"])
def test_any_text_may_stand_as_an_order(order):
    """Whoever may patch a Reservation's metadata writes it; what is no 64-bit number counts as none."""
    first, second = room("a", order=order), room("b", order="3")
    expected = "a" if order == "2" else "b"
    assert list(outcome_of([pod("p")], [first, second])[0]) == [expected]


@pytest.mark.parametrize("open", [True, False])
def test_a_pod_that_another_program_holds_takes_no_room_and_keeps_waiting_for_it(open):  # noqa: A002
    def barred(name, cpu=1000):
        one = pod(name, cpu)
        return msgspec.structs.replace(
            one, spec=msgspec.structs.replace(one.spec, gates=(names.GATE, "queue.example.com/admission"))
        )

    claims, held, released = outcome_of([barred("a"), pod("b"), barred("big", 2000)], [room("r", open=open)])
    assert claims == ({"r": "b"} if open else {})
    assert held == ({"a"} if open else {"a", "b"})
    assert released == {"big"}, "no room fits it, so it is not kept"
