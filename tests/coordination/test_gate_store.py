"""The gate's store is shared fairly: whoever wants how much, and who is left out is told."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.coordination.key_stores import MOST_HOME_BYTES, MOST_KEY_BYTES, stored
from rescheduler.model.names import ANNOTATION_MIGRATION
from rescheduler.model.own_objects import condition
from rescheduler.model.reservation import (
    ControllerRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.standing_conditions import CONDITION_GATED, gate_events, with_gated

NOW_S = 1_800_000_000.0


def wish(name, size, home="shop", *, move=False):
    """A Reservation for pods of ``home`` and a key, together of so many bytes."""
    owner = ReservationOwner(controller=ControllerRef(name="web", namespace=home))
    status = ReservationStatus(phase=ReservationPhase.AVAILABLE, node_name="n")
    marks = LabelSet({ANNOTATION_MIGRATION: f"{home}/m"}) if move else LabelSet({})
    reservation = Reservation(name=name, uid=name, owners=(owner,), status=status, annotations=marks)
    key = name.ljust(size - len(name), "-")
    return ObservedReservation(reservation=reservation), (key,)


def sizes(store):
    return {name: len(key) + len(name) for key, name in store.keys.items()}


def test_one_namespace_has_a_share_and_no_more():
    crowd = [wish(f"crowd-{i:03}", 1024, "crowd") for i in range(200)]
    store = stored([*crowd, wish("z-other", 1024)])
    assert sum(sizes(store).values()) <= MOST_HOME_BYTES + 1024
    assert "z-other" in sizes(store)
    assert len(store.left_out) == 200 - MOST_HOME_BYTES // 1024


def test_however_many_namespaces_want_more_than_there_is_one_with_little_finds_place():
    crowds = [wish(f"a-{n:03}-{i:02}", 2048, f"crowd-{n}") for n in range(100) for i in range(40)]
    store = stored([*crowds, wish("z-other", 100)])
    assert sum(sizes(store).values()) <= MOST_KEY_BYTES
    assert "z-other" in sizes(store)
    homes = {name[:5] for name in sizes(store)}
    assert len(homes) > 100, "each has its part"


def test_moves_go_first_and_small_ones_before_large_ones():
    rooms = [wish(f"a-{i:02}", 6_000) for i in range(20)]
    store = stored([*rooms, wish("small", 100), wish("z-move", 6_000, move=True)])
    assert {"small", "z-move"} <= set(sizes(store))


def test_rooms_that_are_confined_to_no_namespace_have_the_whole_store():
    store = stored([wish(f"wide-{i:03}", 1024, "") for i in range(200)])
    assert not store.left_out


@given(st.lists(st.tuples(st.integers(40, 70_000), st.sampled_from("abcd"), st.booleans()), max_size=40))
@settings(max_examples=100, deadline=None)
def test_each_is_stored_or_told_and_the_bounds_hold(asked):
    wanted = [wish(f"r{i:02}", size, home, move=move) for i, (size, home, move) in enumerate(asked)]
    store = stored(wanted)
    names = {observed.reservation.name for observed, _ in wanted}
    assert set(store.keys.values()) | set(store.left_out) == names
    assert not set(store.keys.values()) & set(store.left_out)
    for home in "abcd":
        mine = [o.reservation.name for o, _ in wanted if home == o.reservation.owners[0].controller.namespace]
        assert sum(sizes(store).get(name, 0) for name in mine) <= MOST_HOME_BYTES
    assert all("new pods of its owners are not held" in o.ungated for o in store.left_out.values())


@pytest.mark.parametrize("again", ["", "no place"])
def test_who_is_left_out_is_told_once_by_a_condition_and_an_event(again):
    reservation = wish("r", 100)[0].reservation
    told = with_gated((), "no place", NOW_S)
    status = msgspec.structs.replace(reservation.status, conditions=told)
    (event,) = gate_events(reservation, status)
    assert event.does == "record_event"
    assert (event.reason, event.message, event.warning) == ("GateFull", "no place", True)
    later = msgspec.structs.replace(reservation, status=status)
    now = with_gated(told, again, NOW_S + 9)
    assert gate_events(later, msgspec.structs.replace(status, conditions=now)) == ()
    assert condition(now, CONDITION_GATED).status == ("False" if again else "True")
    assert (now is told) == bool(again)


def test_one_that_always_found_place_has_no_such_condition():
    assert with_gated((), "", NOW_S) == ()
