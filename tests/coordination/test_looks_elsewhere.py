"""When a preallocation that waits goes to another node that has room."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.coordination.room_turns import AT_ONCE, STANDS_FOR_S, LooksElsewhere, may_go
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import ObjectKey, PodSpec
from rescheduler.model.reservation import (
    MakingRoom,
    ObjectRef,
    Reservation,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.reservations.preallocation import LOOK_EVERY_S

replace = msgspec.structs.replace


def waits(name="r", **status):
    ready = Condition("Ready", "False", "WaitingForRoom", "")
    fields = {"phase": ReservationPhase.WAITING, "node_name": "n1", "conditions": (ready,), **status}
    return Reservation(
        name=name, uid=name, template=PodSpec(), pre_allocation=True, status=ReservationStatus(**fields)
    )


@pytest.mark.parametrize("stays", [
    replace(waits(), template_node="n1"),
    replace(waits(), deleting=True),
    waits(current_owners=(ObjectRef("default", "a", "a"),)),
    waits(making_room=MakingRoom(node="n1", moves=1, attempt="x", since_s=0.0)),
    waits(conditions=(Condition("Ready", "False", "NodeNotReady", ""),)),
    waits(phase=ReservationPhase.AVAILABLE),
], ids=["named", "deleting", "used", "others step aside", "node bad", "held"])  # fmt: skip
def test_one_that_is_bound_to_its_node_is_not_looked_at(stays):
    assert may_go(waits())
    assert not may_go(stays)


def test_a_round_looks_at_few_of_them_and_all_have_their_turn():
    looks, rooms, seen = LooksElsewhere(), [waits(f"r{n}") for n in range(3 * AT_ONCE)], set()
    for number in range(4):
        looks.begin(rooms, float(number))
        now = {r.name for r in rooms if looks.due(ObjectKey("", r.name))}
        assert len(now) <= AT_ONCE
        for name in now:
            looks.seen(ObjectKey("", name), "", float(number))
        seen |= now
    assert seen == {r.name for r in rooms}


@given(st.lists(st.tuples(st.floats(0.1, 8.0), st.sampled_from(["", "n2", "n3"])), max_size=25))
@settings(max_examples=60)
def test_it_goes_only_where_every_look_for_a_while_found_room(history):
    looks, key, now_s, since = LooksElsewhere(), ObjectKey("", "r"), 0.0, ("", 0.0)
    last_s = -LOOK_EVERY_S
    for pause_s, node in history:
        now_s += pause_s
        looks.begin([waits()], now_s)
        if not looks.due(key):
            assert now_s < last_s + LOOK_EVERY_S
            continue
        last_s = now_s
        since = since if since[0] == node else (node, now_s)
        stood = bool(node) and now_s >= since[1] + STANDS_FOR_S
        assert looks.seen(key, node, now_s) == (node if stood else "")
