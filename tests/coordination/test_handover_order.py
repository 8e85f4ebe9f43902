"""What the hand-overs and preallocations of one node wait for: no room is lost to a neighbour, and none waits for ever."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_rooms import (
    BOUND,
    CLAIMED,
    EMPTY,
    GOING,
    LET_GO,
    NOMINATED,
    NOW,
    REFUSED,
    SETTINGS,
    SIZE,
    TAINT,
    Rules,
    on_node,
    ordered,
    replace,
    room,
    several,
    waits,
)
from test_unbound_placeholders import preallocation

from rescheduler.coordination.handover_order import NO_LAG, SchedulerLag
from rescheduler.coordination.memory import Sightings
from rescheduler.model import names
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.handover import hand_over_toleration
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.waits import HandoverWait
from tests.records import pod_record

ALONE = {
    CLAIMED: None,
    NOMINATED: None,
    GOING: HandoverWait.PLACEHOLDER_TERMINATING,
    EMPTY: None,
    LET_GO: HandoverWait.BINDING,
    REFUSED: HandoverWait.BINDING,
    BOUND: None,
}


@pytest.mark.parametrize("state", ALONE)
def test_a_room_that_is_alone_on_its_node_waits_for_no_other(state):
    assert waits(room("a", state), room("b", NOMINATED, node="n2")) == {"a": ALONE[state], "b": None}


OTHER = [
    (CLAIMED, None, None),
    (NOMINATED, None, HandoverWait.OTHER_ROOM_OCCUPIED),
    (GOING, None, HandoverWait.OTHER_ROOM_OCCUPIED),
    (EMPTY, HandoverWait.OTHER_LANDING, None),
    (LET_GO, HandoverWait.OTHER_LANDING, None),
]
"""(state of the neighbour, what a room waits for that is only claimed, what one waits for that is empty)."""


@pytest.mark.parametrize(
    ("neighbour", "claimed", "emptied"), [*OTHER, (REFUSED, None, None), (BOUND, None, None)]
)
def test_what_a_neighbour_at_each_step_asks_of_the_other(neighbour, claimed, emptied):
    assert waits(room("a", CLAIMED), room("b", neighbour))["a"] is claimed
    assert waits(room("a", EMPTY), room("b", neighbour))["a"] is emptied


def test_a_claim_whose_last_write_is_not_seen_yet_counts_as_nominated():
    rooms = room("a", EMPTY), room("b", CLAIMED)
    assert waits(*rooms)["a"] is None
    assert waits(*rooms, unseen=("b",))["a"] is HandoverWait.OTHER_ROOM_OCCUPIED


@pytest.mark.parametrize("fields", [
    {"deleting": True},
    {"annotations": LabelSet({names.ANNOTATION_MODE: "Soft"})},
    {"status": ReservationStatus(phase=ReservationPhase.FAILED, node_name="n1")},
], ids=["deleting", "soft", "finished"])  # fmt: skip
def test_rooms_that_are_not_handed_over_this_way_are_no_neighbours(fields):
    assert waits(room("a", EMPTY), room("b", NOMINATED, **fields))["a"] is None


@pytest.mark.parametrize("kinds", [(several, several), (room, several), (several, room)])
@pytest.mark.parametrize(("neighbour", "claimed", "emptied"), OTHER)
def test_rooms_for_several_go_together_with_their_neighbours(kinds, neighbour, claimed, emptied):
    mine, other = kinds
    assert waits(mine("a", CLAIMED), other("b", neighbour))["a"] is claimed
    assert waits(mine("a", EMPTY), other("b", neighbour))["a"] is emptied


def test_a_room_for_several_waits_for_its_neighbours_too():
    def decide(*rooms):
        return decided({r.reservation.name: r for r in rooms})["a"] - {"write_status"}

    assert decide(several("a", CLAIMED), room("b", EMPTY)) == set()
    assert "nominate" in decide(several("a", CLAIMED), room("b", NOMINATED))
    half = several("a", NOMINATED)
    half = dataclasses.replace(half, owners=(replace(half.owners[0], nominated_node=""),))
    assert decide(half, room("b", EMPTY)) == {"nominate"}, (
        "one that has begun goes on: the others wait for it"
    )
    assert decide(several("a", EMPTY), room("b", GOING)) == set()
    assert decide(several("a", EMPTY), room("b", EMPTY)) == {"admit_placeholder", "remove_gate"}


def decided(rooms):
    """The actions of the machine on each room, in one round."""
    return {
        name: {a.does for a in step(observed, NOW, SETTINGS).calls}
        for name, observed in ordered(*rooms.values()).items()
    }


@given(st.lists(st.sampled_from([CLAIMED, NOMINATED, GOING, EMPTY, LET_GO, REFUSED]), min_size=1, max_size=5))
def test_in_one_round_none_is_released_beside_a_room_that_counts_twice_and_one_goes_on(states):
    rooms = {str(i): room(str(i), state) for i, state in enumerate(states)}
    actions = decided(rooms)
    doubled = {str(i) for i, state in enumerate(states) if state in (NOMINATED, GOING)}
    landing = {str(i) for i, state in enumerate(states) if state in (EMPTY, LET_GO)}
    for name, done in actions.items():
        if "remove_gate" in done:
            assert not doubled - {name}
        if "nominate" in done:
            assert not landing - {name}
    held_up = [
        name for name, done in actions.items() if not done & {"remove_gate", "nominate", "delete_placeholder"}
    ]
    waits_outside = {str(i) for i, state in enumerate(states) if state in (GOING, LET_GO, REFUSED)}
    assert set(held_up) != set(rooms) or waits_outside


NEXT = {"nominate": NOMINATED, "delete_placeholder": GOING, "remove_gate": LET_GO}


@given(st.integers(1, 5), st.data())
def test_all_of_a_node_land_in_the_end_whatever_is_quicker(count, data):
    """Round by round; in between the kubelet and the scheduler do one of the things they could do.

    Of a step with two calls the second one may fail.
    """
    states = {str(i): CLAIMED for i in range(count)}
    for _ in range(12 * count):
        rooms = {name: room(name, state) for name, state in states.items() if state != BOUND}
        for name, done in decided(rooms).items():
            if states[name] in (CLAIMED, NOMINATED, EMPTY):
                steps = [NEXT[kind] for kind in NEXT if kind in done]
                states[name] = data.draw(st.sampled_from(steps)) if steps else states[name]
        doubled = [n for n, state in states.items() if state in (NOMINATED, GOING)]
        let_go = [n for n, state in states.items() if state == LET_GO]
        assert not (let_go and doubled), states
        free = [n for n, state in states.items() if state in (GOING, LET_GO)]
        if free:
            name = data.draw(st.sampled_from(free))
            states[name] = EMPTY if states[name] == GOING else BOUND
    assert set(states.values()) == {BOUND}, states


@given(
    st.permutations([CLAIMED, NOMINATED, GOING, EMPTY, LET_GO, REFUSED]), st.randoms(use_true_random=False)
)
def test_the_order_of_the_objects_does_not_matter(states, rng):
    rooms = [room(str(i), state) for i, state in enumerate(states)]
    shuffled = rng.sample(rooms, len(rooms))
    assert waits(*rooms) == waits(*shuffled)


# What else a claimant waits for ----------------------------------------------------------------------


@pytest.mark.parametrize("bad", [{"ready": False}, {"unschedulable": True}, {"deleting": True}])
@pytest.mark.parametrize("kind", [room, several])
def test_a_bad_node_stops_the_hand_over_before_anything_is_given_up(kind, bad):
    for state in (CLAIMED, NOMINATED, GOING, EMPTY):
        assert waits(on_node(kind("a", state), **bad))["a"] is HandoverWait.NODE_NOT_USABLE
    assert waits(on_node(room("a", LET_GO), **bad))["a"] is HandoverWait.BINDING


def contender(priority=1, **fields):
    spec = PodSpec(requests=SIZE, priority=priority)
    return pod_record(namespace="default", name="contender", uid="contender", spec=spec, **fields)


def test_contended_rooms_need_the_taint_and_are_given_up_once_it_is_settled():
    seen, claimed = Sightings(), room("a", NOMINATED)
    roomy = on_node(claimed, allocatable=Resources(cpu_milli=4000))

    def look(observed, now, *waiting):
        return ordered(observed, waiting=waiting, now=now, sightings=seen)["a"]

    first = look(roomy, NOW, contender())
    assert (first.needs_taint, first.wait.reason) == (True, HandoverWait.TAINT_SETTLING)
    assert first.wait.until_s == NOW + SETTINGS.taint_settle_s
    shut = on_node(roomy, taints=(TAINT,))
    assert look(shut, NOW + 5, contender()).wait.until_s == NOW + 5 + SETTINGS.taint_settle_s
    assert look(shut, NOW + 5.9).wait.reason is HandoverWait.TAINT_SETTLING, "it stays, whoever goes"
    settled = look(shut, NOW + 6)
    assert (settled.wait, settled.needs_taint) == (None, True)
    for harmless in (contender(0), contender(nominated_node="n1")):
        assert not look(roomy, NOW, harmless).needs_taint
    assert not look(claimed, NOW, contender()).needs_taint, "it is too large for the node"


@pytest.mark.parametrize(
    "around", ["nothing", "contender", "taint", "unbound placeholder", "lag", "second holder"]
)
def test_a_room_passes_on_with_the_nomination_exactly_if_it_would_wait_for_nothing_after_it(around):
    """The neighbour is nominated: it keeps nobody from being nominated."""

    def look(state):
        mine = on_node(room("a", state), allocatable=Resources(cpu_milli=4000))
        mine = on_node(mine, taints=(TAINT,)) if around == "taint" else mine
        if around == "second holder":
            mine = dataclasses.replace(
                mine, placeholders=(*mine.placeholders, *room("c", GOING).placeholders)
            )
        rooms = [mine, room("b", NOMINATED)]
        rooms += [preallocation("p", gated=False)] if around == "unbound placeholder" else []
        lag = SchedulerLag(known={"default-scheduler": NOW + 9}) if around == "lag" else NO_LAG
        return ordered(*rooms, waiting=(contender(),) if around == "contender" else (), lag=lag)["a"]

    claimed, nominated = look(CLAIMED), look(NOMINATED)
    assert (claimed.wait is None and claimed.passes_on) is (nominated.wait is None)
    assert (nominated.wait is None) is (around == "nothing")


def test_the_taint_never_stays_against_a_released_claimant_that_does_not_tolerate_it():
    released = on_node(room("a", LET_GO), taints=(TAINT,))
    assert not ordered(released)["a"].needs_taint
    pod = released.owners[0]
    tolerant = replace(pod, spec=replace(pod.spec, tolerations=(hand_over_toleration("n1"),)))
    assert ordered(dataclasses.replace(released, owners=(tolerant,)))["a"].needs_taint
    assert not ordered(on_node(room("a", BOUND), taints=(TAINT,)))["a"].needs_taint


def test_the_rest_of_a_split_does_not_keep_the_taint_against_a_claimant_that_does_not_tolerate_it():
    split = on_node(several("a", LET_GO), taints=(TAINT,))
    refused = replace(split.placeholders[0], nominated_node="").with_state(unschedulable_message="0/9 nodes")
    assert not ordered(dataclasses.replace(split, placeholders=(refused,)))["a"].needs_taint


@pytest.mark.parametrize("state", [CLAIMED, NOMINATED])
def test_the_room_is_not_given_up_before_the_scheduler_has_heard_of_the_nomination(state):
    lag = SchedulerLag(known={"default-scheduler": NOW + 9})
    found = ordered(room("a", state), lag=lag)["a"].wait
    assert (found.reason, found.until_s) == (HandoverWait.SCHEDULER_BEHIND, NOW + 9)
    assert found.schedulers == {"default-scheduler"}
    assert waits(room("a", state), lag=lag, now=NOW + 9)["a"] is None
    assert waits(room("a", EMPTY), lag=lag)["a"] is None, "it is given up already"


def test_the_split_waits_for_the_schedulers_of_the_claimants_and_of_the_rest():
    split = several("a", NOMINATED)
    holder, rest = split.placeholders
    rest = replace(rest, spec=replace(rest.spec, scheduler_name="other"))
    split = dataclasses.replace(split, placeholders=(holder, rest))

    def awaited(**known):
        found = ordered(split, lag=SchedulerLag(known=known, others_s=math.inf))["a"].wait
        return found and found.schedulers

    assert awaited(other=0.0) == {"default-scheduler"}
    assert awaited(**{"default-scheduler": 0.0}) == {"other"}
    assert awaited(**{"default-scheduler": 0.0, "other": 0.0}) is None


def test_a_scheduler_is_waited_for_by_its_name_and_never_until_it_is_too_late_for_the_pod():
    lag = SchedulerLag(known={"heard": 0.0, "asked": NOW + 9}, others_s=math.inf)

    def awaited(*schedulers, now_s=NOW, limit_s=NOW + 60):
        pods = [replace(contender(), spec=PodSpec(scheduler_name=name)) for name in schedulers]
        found = lag.awaited(pods, now_s, limit_s=limit_s, held_s=60.0)
        return found and (found.schedulers, found.until_s)

    assert awaited("heard") is None
    assert awaited("heard", "asked") == ({"asked"}, NOW + 9)
    assert awaited("asked", now_s=NOW + 9) is None
    assert awaited("heard", "asked", "new") == ({"asked", "new"}, NOW + 45)
    assert awaited("new", now_s=NOW + 45) is None
    assert NO_LAG.awaited([contender()], NOW, limit_s=NOW + 60, held_s=60.0) is None


def test_a_claimant_stays_at_the_gate_while_it_would_be_refused_for_a_nominated_pod_but_not_for_ever():
    refused = Rules(refused=("pod-a",))
    found = ordered(room("a", EMPTY), rules=refused)["a"].wait
    assert (found.reason, found.until_s) == (HandoverWait.NOMINATED_POD_COUNTED, NOW - 5 + 45)
    assert waits(room("a", EMPTY), rules=refused, now=NOW + 40)["a"] is None


def test_how_long_a_reason_has_lasted_is_told_with_it():
    seen = Sightings()
    look = lambda state, now: ordered(room("a", state), now=now, sightings=seen)["a"].wait  # noqa: E731
    assert look(GOING, NOW).since_s == NOW
    assert look(GOING, NOW + 2).since_s == NOW
    assert look(LET_GO, NOW + 3).since_s == NOW + 3, "another reason"
    assert look(BOUND, NOW + 4) is None
    assert look(LET_GO, NOW + 5).since_s == NOW + 5, "it was over in between"


def barred(observed):
    """Its claimant also has the gate of another program."""
    (pod,) = observed.owners
    spec = replace(pod.spec, gates=(*pod.spec.gates, "queue.example.com/admission"))
    return dataclasses.replace(observed, owners=(replace(pod, spec=spec),))


@pytest.mark.parametrize("state", [EMPTY, LET_GO])
def test_nobody_waits_for_a_claimant_that_another_program_holds(state):
    assert waits(room("a", CLAIMED), barred(room("b", state)))["a"] is None
    assert waits(room("a", CLAIMED), room("b", state))["a"] is HandoverWait.OTHER_LANDING


@pytest.mark.parametrize("state", [CLAIMED, NOMINATED])
def test_a_claimant_that_another_program_holds_keeps_its_room_and_is_not_nominated(state):
    (observed,) = ordered(barred(room("a", state))).values()
    assert observed.wait.reason is HandoverWait.FOREIGN_GATE
    done = {action.does for action in step(observed, NOW, SETTINGS).calls} - {"write_status"}
    assert done == ({"take_back_nomination"} if state == NOMINATED else set())
