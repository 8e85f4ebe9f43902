"""How much may be reserved for the pods of one namespace: who is let in, and what is said to who must wait."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import Resources
from rescheduler.reservations.quota import Quota, beyond_quota, quota_of

PENDING, AVAILABLE, FAILED = ReservationPhase.PENDING, ReservationPhase.AVAILABLE, ReservationPhase.FAILED
CPU_4 = {"*": Quota(amounts=(("cpu", 4000),))}
replace = msgspec.structs.replace


def room(name, cpu=1000, phase=PENDING, namespace="shop", created=0.0, **fields):
    owner = ReservationOwner(controller=ControllerRef(name="web", namespace=namespace))
    status = ReservationStatus(phase=phase, allocatable=Resources(cpu_milli=cpu))
    base = {"template": PodSpec(requests=Resources(cpu_milli=cpu)), "owners": (owner,), "status": status}
    return Reservation(name=name, uid=name, created_at_s=created, **{**base, **fields})


def beyond(*rooms, quotas=CPU_4, exempt=()):
    return beyond_quota(rooms, quotas, exempt)


def test_the_oldest_go_first_and_who_does_not_fit_lets_smaller_ones_pass():
    rooms = [room("a", 3000, created=1.0), room("b", 2000, created=2.0), room("c", 1000, created=3.0)]
    assert beyond(*rooms) == {"b": "namespace shop may have cpu 4 reserved and has 3; this asks for 2 more"}


def test_what_is_held_counts_before_what_is_older_and_is_never_taken_back():
    held = [room("x", 3000, AVAILABLE, created=9.0), room("y", 3000, AVAILABLE, created=9.0)]
    assert list(beyond(room("a", created=1.0), *held)) == ["a"]
    assert list(beyond(room("a", 0, created=1.0), *held)) == [], "it asks for nothing that is limited"


def test_their_number_is_limited():
    quotas = {"*": Quota(reservations=1)}
    assert beyond(room("a"), room("b"), quotas=quotas) == {
        "b": "namespace shop may have 1 Reservations, and has 1"
    }
    assert list(beyond(room("a"), quotas={"shop": Quota(reservations=0)})) == ["a"]


@pytest.mark.parametrize(
    "other",
    [
        room("z", 4000, FAILED),
        room("z", 4000, AVAILABLE, deleting=True),
        room("z", 4000, AVAILABLE, namespace="another"),
        room("z", 4000, AVAILABLE, namespace=""),
        room("move", 4000, AVAILABLE),
    ],
)
def test_what_does_not_count(other):
    assert beyond(room("a"), other, exempt={"move"}) == {}


def test_a_room_for_several_counts_with_what_is_left():
    several = room("s", 4000, AVAILABLE, allocate_once=False)
    used = replace(several.status, allocated=Resources(cpu_milli=3000))
    assert list(beyond(room("a", 3000), several)) == ["a"]
    assert list(beyond(room("a", 3000), replace(several, status=used))) == []


def test_limits_of_a_namespace_go_before_those_of_all():
    quotas = {
        "*": Quota(reservations=9, amounts=(("cpu", 1000), ("memory", 5))),
        "shop": Quota(amounts=(("cpu", 2000),)),
    }
    assert quota_of("shop", quotas) == Quota(reservations=9, amounts=(("cpu", 2000), ("memory", 5)))
    assert quota_of("else", quotas) == quotas["*"]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), max_size=12))
def test_what_is_let_in_never_exceeds_the_share_unless_it_was_held_before(drawn):
    rooms = [
        room(f"r{i}", cpu * 1000, AVAILABLE if held else PENDING, created=float(age))
        for i, (cpu, held, age) in enumerate(drawn)
    ]
    waiting = beyond(*rooms)
    held = sum(r.template.requests.cpu_milli for r in rooms if r.status.phase is AVAILABLE)
    let_in = sum(r.template.requests.cpu_milli for r in rooms if r.name not in waiting)
    assert let_in <= max(4000, held)
    assert all(r.status.phase is PENDING for r in rooms if r.name in waiting)
