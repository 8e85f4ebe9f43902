"""Several hand-overs at once on one node: nobody is let go while a neighbour's room counts twice, and none waits for ever."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.controller.neighbours import with_neighbours
from rescheduler.model import names
from rescheduler.model.records import Node, Pod, PodSpec
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations import actions as act
from rescheduler.reservations.machine import step
from rescheduler.reservations.observed import ObservedReservation, ReservationSettings

NOW = 1_000_000.0
SIZE = Resources(cpu_milli=1000)
replace = msgspec.structs.replace

CLAIMED, NOMINATED, GOING, EMPTY, LET_GO, REFUSED, BOUND = (
    "claimed",
    "nominated",
    "going",
    "empty",
    "let go",
    "refused",
    "bound",
)


def room(name, state, node="n1", **fields):
    """A Reservation of which one pod holds the claim, at one step of the hand-over."""
    gated = state in (CLAIMED, NOMINATED, GOING, EMPTY)
    pod = Pod(
        namespace="default",
        name=f"pod-{name}",
        uid=f"pod-{name}",
        node=node if state == BOUND else "",
        created_at_s=NOW - 5,
        nominated_node="" if state in (CLAIMED, REFUSED) else node,
        unschedulable_message="0/9 nodes" if state == REFUSED else "",
        spec=PodSpec(requests=SIZE, gates=(names.GATE,) if gated else ()),
    )
    holder = None
    if state in (CLAIMED, NOMINATED, GOING):
        holder = Pod(
            namespace="rescheduler",
            name=f"holder-{name}",
            uid=f"holder-{name}",
            node=node,
            deleting=state == GOING,
            spec=PodSpec(requests=SIZE),
        )
    status = ReservationStatus(
        phase=ReservationPhase.AVAILABLE,
        node_name=node,
        allocatable=SIZE,
        current_owners=(ObjectRef(pod.namespace, pod.name, pod.uid),),
    )
    values = {"template": PodSpec(requests=SIZE), "owners": (), "created_at_s": NOW - 60, "status": status}
    reservation = Reservation(name=name, uid=name, resource_version="1", **{**values, **fields})
    return ObservedReservation(
        reservation=reservation, placeholder=holder, node=Node(name=node, uid=node), claimant=pod
    )


def seen(*rooms, blind=()):
    """(after_landing, before_landing) of each room."""
    given = {r.reservation.name: r for r in rooms}
    found = with_neighbours(given, lambda name: name in blind)
    return {name: (r.after_landing, r.before_landing) for name, r in found.items()}


@pytest.mark.parametrize("state", [CLAIMED, NOMINATED, GOING, EMPTY, LET_GO, REFUSED, BOUND])
def test_who_is_alone_on_a_node_waits_for_nobody(state):
    assert seen(room("a", state), room("b", NOMINATED, node="n2")) == {
        "a": (False, False),
        "b": (False, False),
    }


TURNS = [
    (CLAIMED, False, False),
    (NOMINATED, False, True),
    (GOING, False, True),
    (EMPTY, True, False),
    (LET_GO, True, False),
]
"""(state of the neighbour, it goes first, it waits) as a claimed room sees it."""


@pytest.mark.parametrize(
    ("neighbour", "after", "before"), [*TURNS, (REFUSED, False, False), (BOUND, False, False)]
)
def test_what_a_neighbour_at_each_step_asks_of_the_other(neighbour, after, before):
    assert seen(room("a", CLAIMED), room("b", neighbour))["a"] == (after, before)


def test_a_claim_whose_last_write_is_not_seen_yet_counts_as_nominated():
    rooms = room("a", EMPTY), room("b", CLAIMED)
    assert seen(*rooms)["a"] == (False, False)
    assert seen(*rooms, blind=("b",))["a"] == (False, True)


@pytest.mark.parametrize(
    "fields",
    [
        {"deleting": True},
        {"annotations": LabelSet({names.ANNOTATION_MODE: "Soft"})},
        {"status": ReservationStatus(phase=ReservationPhase.FAILED, node_name="n1")},
    ],
    ids=["deleting", "soft", "finished"],
)
def test_rooms_that_are_not_handed_over_this_way_are_no_neighbours(fields):
    assert seen(room("a", CLAIMED), room("b", NOMINATED, **fields)) == {
        "a": (False, False),
        "b": (False, False),
    }


def several(name, state, node="n1"):
    """A room for several, split: one pod of 1 CPU takes its part of 3, a placeholder for the rest is on its way."""
    observed = room(name, state, node, allocate_once=False)
    claimant, nominated = observed.claimant, state in (NOMINATED, GOING, EMPTY, LET_GO)
    whole = observed.placeholder
    holders = (replace(whole, spec=PodSpec(requests=Resources(cpu_milli=3000))),) if whole else ()
    rest = Pod(
        namespace="rescheduler",
        name=f"rest-{name}",
        uid=f"rest-{name}",
        nominated_node=node if nominated else "",
        spec=PodSpec(requests=Resources(cpu_milli=2000), gates=() if state == LET_GO else (names.GATE_ROOM,)),
    )
    status = replace(
        observed.reservation.status, allocatable=Resources(cpu_milli=3000), allocated=claimant.spec.requests
    )
    return dataclasses.replace(
        observed,
        reservation=replace(observed.reservation, status=status),
        owners=(claimant,),
        holders=(*holders, rest),
        placeholder=holders[0] if holders else rest,
    )


@pytest.mark.parametrize("kinds", [(several, several), (room, several), (several, room)])
@pytest.mark.parametrize(("neighbour", "after", "before"), TURNS)
def test_rooms_for_several_go_together_with_their_neighbours(kinds, neighbour, after, before):
    mine, other = kinds
    assert seen(mine("a", CLAIMED), other("b", neighbour))["a"] == (after, before)


def test_a_room_for_several_waits_for_its_neighbours_too():
    def decide(*rooms):
        return decided({r.reservation.name: r for r in rooms})["a"] - {act.WriteReservationStatus}

    assert decide(several("a", CLAIMED), room("b", EMPTY)) == set()
    assert act.Nominate in decide(several("a", CLAIMED), room("b", NOMINATED))
    half = several("a", NOMINATED)
    half = dataclasses.replace(half, owners=(replace(half.owners[0], nominated_node=""),))
    assert decide(half, room("b", EMPTY)) == {act.Nominate}, "who has begun goes on: the others wait for it"
    assert decide(several("a", EMPTY), room("b", GOING)) == set()
    assert decide(several("a", EMPTY), room("b", EMPTY)) == {act.AdmitPlaceholder, act.Ungate}


def decided(rooms):
    """The actions of the machine on each room, in one round."""
    found = with_neighbours(rooms, lambda _: False)
    return {
        name: {type(a) for a in step(observed, NOW, ReservationSettings()).actions}
        for name, observed in found.items()
    }


@given(st.lists(st.sampled_from([CLAIMED, NOMINATED, GOING, EMPTY, LET_GO, REFUSED]), min_size=1, max_size=5))
def test_in_one_round_nobody_is_let_go_beside_a_room_that_counts_twice_and_somebody_goes_on(states):
    rooms = {str(i): room(str(i), state) for i, state in enumerate(states)}
    actions = decided(rooms)
    doubled = {str(i) for i, state in enumerate(states) if state in (NOMINATED, GOING)}
    landing = {str(i) for i, state in enumerate(states) if state in (EMPTY, LET_GO)}
    for name, done in actions.items():
        if act.Ungate in done:
            assert not doubled - {name}
        if act.Nominate in done:
            assert not landing - {name}
    held_up = [
        name for name, done in actions.items() if not done & {act.Ungate, act.Nominate, act.DeletePlaceholder}
    ]
    waits_outside = {str(i) for i, state in enumerate(states) if state in (GOING, LET_GO, REFUSED)}
    assert set(held_up) != set(rooms) or waits_outside


NEXT = {act.Nominate: NOMINATED, act.DeletePlaceholder: GOING, act.Ungate: LET_GO}


@given(st.integers(1, 5), st.data())
def test_all_of_a_node_land_in_the_end_whatever_is_quicker(count, data):
    """Round by round; in between the kubelet and the scheduler do one of the things they could do."""
    states = {str(i): CLAIMED for i in range(count)}
    for _ in range(12 * count):
        rooms = {name: room(name, state) for name, state in states.items() if state != BOUND}
        for name, done in decided(rooms).items():
            if states[name] in (CLAIMED, NOMINATED, EMPTY):
                steps = [NEXT[kind] for kind in NEXT if kind in done]
                states[name] = steps[0] if steps else states[name]
        doubled = [n for n, state in states.items() if state in (NOMINATED, GOING)]
        let_go = [n for n, state in states.items() if state == LET_GO]
        assert not (let_go and doubled), states
        free = [n for n, state in states.items() if state in (GOING, LET_GO)]
        if free:
            name = data.draw(st.sampled_from(free))
            states[name] = EMPTY if states[name] == GOING else BOUND
    assert set(states.values()) == {BOUND}, states
