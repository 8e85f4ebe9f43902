"""The Reservation machine from the claim to the landing: order, waits, Events, and claimants that go away."""

from __future__ import annotations

import pytest

from rescheduler.calls.pods import delete_placeholder, nominate
from rescheduler.model import names
from rescheduler.model.decode.wire_form import encode_toleration
from rescheduler.model.own_objects import condition
from rescheduler.model.records import PodPhase, Taint
from rescheduler.model.reservation import (
    ReservationPhase,
)
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.handover import hand_over_toleration
from rescheduler.reservations.waits import WAIT_MESSAGES, HandoverWait, Wait
from tests.records import changed
from tests.reservations.looks import (
    CLAIMED,
    NODE,
    NOW,
    kinds,
    look,
    placeholder,
    pod,
    replace,
    reservation,
    sent,
)


def test_claim_is_one_compare_and_swap_and_nothing_else():
    outcome = look(reservation(ReservationPhase.AVAILABLE), placeholder=placeholder(), assigned=(pod(),))
    assert kinds(outcome) == ["write_status"]
    assert outcome.status.current_owners == CLAIMED
    assert outcome.calls[0].seen.resource_version == "7"


def claimed(claimant, **fields):
    return look(reservation(ReservationPhase.AVAILABLE, current=CLAIMED), claimant=claimant, **fields)


def test_the_order_of_the_hand_over():
    does = ("nominate", "delete_placeholder", "remove_gate")
    first = claimed(pod(), placeholder=placeholder())
    second = claimed(pod(nominated="n2"), placeholder=placeholder())
    third = claimed(pod(nominated="n2"), placeholder=placeholder(deleting=True))
    fourth = claimed(pod(nominated="n2"), placeholder=None)
    last = claimed(pod(gated=False, node="n2").with_state(phase=PodPhase.RUNNING), placeholder=None)
    assert does[0] in kinds(first)
    assert "delete_placeholder" not in kinds(first)
    assert does[1] in kinds(second)
    assert not {*does} & {*kinds(third)}
    (deletion,) = (action for action in second.calls if action.does == "delete_placeholder")
    assert deletion == delete_placeholder(placeholder(), (pod(),), "n2")
    assert does[2] in kinds(fourth)
    assert last.status.phase is ReservationPhase.SUCCEEDED


def test_the_placeholder_follows_the_answered_nomination_in_one_step_if_nothing_else_lacks():
    """A call is sent only once the one before it was answered; the scheduler sees both in that order."""
    both = claimed(pod(), placeholder=placeholder(), passes_on=True)
    assert both.calls[1:] == (nominate(pod(), "n2"), delete_placeholder(placeholder()))
    for fields in ({"placeholder": None}, {"placeholder": placeholder(deleting=True)}):
        assert kinds(claimed(pod(), passes_on=True, **fields)) == ["write_status", "nominate"]


BOUND = pod(gated=False, node="n2").with_state(phase=PodPhase.PENDING)
LANDINGS = [
    ({}, {"phase": PodPhase.RUNNING}, "Succeeded", "landed on node/n2"),
    ({}, {"phase": PodPhase.SUCCEEDED}, "Succeeded", "landed on node/n2"),
    ({"landed_since_s": NOW - 0.9}, {}, "Available", "claimed by default/p"),
    ({"landed_since_s": NOW - 1}, {}, "Available", "it has not started yet"),
    ({"landed_since_s": NOW - 1.9}, {}, "Available", "it has not started yet"),
    ({"landed_since_s": NOW - 2}, {}, "Succeeded", "landed on node/n2"),
    ({}, {"phase": PodPhase.FAILED}, "Failed", "failed there before it had started"),
    ({}, {"deleting": True}, "Failed", "was deleted within seconds"),
    ({}, {"deleting": True, "phase": PodPhase.RUNNING, "disruption_reason": "PreemptionByScheduler"}, "Failed",
        "was deleted within seconds (PreemptionByScheduler)"),
    ({"threatened": "pod w is about to"}, {"phase": PodPhase.RUNNING}, "Available", "pod w is about to"),
    ({"threatened": "pod w is about to", "landed_since_s": NOW - 10}, {"phase": PodPhase.RUNNING}, "Succeeded", "landed on node/n2"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "of_pod", "phase", "words"), LANDINGS)
def test_only_an_owner_that_stays_is_a_success(fields, of_pod, phase, words):
    outcome = claimed(changed(BOUND, **of_pod), placeholder=None, **fields)
    assert outcome.status.phase == phase
    ready = condition(outcome.status.conditions, "Ready")
    assert words in ready.message
    assert ready.reason == {"Succeeded": "Succeeded", "Available": "Claimed", "Failed": "ClaimantLost"}[phase]
    assert (outcome.wake_at_s is not None) == (phase == "Available")


WITHDRAWN = (HandoverWait.SCHEDULER_BEHIND, HandoverWait.FOREIGN_GATE)


@pytest.mark.parametrize("reason", HandoverWait)
@pytest.mark.parametrize("nominated", ["", "n2"])
@pytest.mark.parametrize("holder", [None, placeholder()], ids=["emptied", "held"])
def test_while_a_claimant_waits_nothing_is_given_up_and_the_reason_is_told(reason, nominated, holder):
    waits = claimed(pod(nominated=nominated), placeholder=holder, wait=Wait(reason=reason, until_s=NOW + 9))
    back = {"take_back_nomination"} if reason in WITHDRAWN and nominated and holder else set()
    assert {*kinds(waits)} == {"write_status", *back}
    told = WAIT_MESSAGES[reason].format(node="n2")
    assert condition(waits.status.conditions, "Ready").message == f"claimed by default/p; waiting: {told}"
    assert waits.wake_at_s == NOW + 9


def test_a_wait_is_told_only_after_a_second_and_taken_back_when_it_is_over():
    """A hand-over without trouble takes less than that, and must not cost a further write."""
    room = claimed(pod(nominated="n2"), placeholder=placeholder(deleting=True)).status
    room = replace(reservation(ReservationPhase.AVAILABLE, current=CLAIMED), status=room)

    def waited(seconds):
        wait = Wait(reason=HandoverWait.OTHER_LANDING, since_s=NOW - seconds)
        return look(room, claimant=pod(), placeholder=placeholder(), wait=wait)

    assert kinds(waited(0.0)) == kinds(waited(0.9)) == []
    assert waited(0.4).wake_at_s == pytest.approx(NOW + 0.6)
    told = waited(1.0)
    assert kinds(told) == ["write_status"]
    message = "claimed by default/p; waiting: another replacement on node/n2 has not landed yet"
    assert condition(told.status.conditions, "Ready").message == message
    room = replace(room, status=told.status)
    assert kinds(waited(5.0)) == [], "it is said once"
    after = look(room, claimant=pod(), placeholder=placeholder())
    assert kinds(after) == ["write_status", "nominate"]
    assert condition(after.status.conditions, "Ready").message == "claimed by default/p"


def test_a_hand_over_without_trouble_writes_the_status_twice_claimed_and_landed():
    held, room = placeholder(), reservation(ReservationPhase.AVAILABLE)
    claims = look(room, placeholder=held, assigned=(pod(),))
    room = replace(room, status=claims.status)
    wait = Wait(reason=HandoverWait.PLACEHOLDER_TERMINATING, since_s=NOW - 0.5)
    binding = Wait(reason=HandoverWait.BINDING, since_s=NOW - 0.5)
    seen = (
        {"claimant": pod(), "placeholder": held},
        {"claimant": pod(nominated="n2"), "placeholder": held},
        {"claimant": pod(nominated="n2"), "placeholder": placeholder(deleting=True), "wait": wait},
        {"claimant": pod(nominated="n2")},
        {"claimant": pod(gated=False, nominated="n2"), "wait": binding},
        {"claimant": BOUND},
        {"claimant": BOUND, "landed_since_s": NOW - 0.9},
        {"claimant": BOUND.with_state(phase=PodPhase.RUNNING)},
    )
    written = [claims, *(look(room, **fields) for fields in seen)]
    writes = ["write_status" in kinds(outcome) for outcome in written]
    assert writes == [True, *[False] * 7, True]


OF_A_MOVE = LabelSet({names.ANNOTATION_MIGRATION: "default/m"})


@pytest.mark.parametrize("made_for", [LabelSet(), OF_A_MOVE], ids=["of people", "of a move"])
def test_events_tell_phases_of_a_room_of_people_and_of_a_move_only_the_failure(made_for):
    def told(outcome):
        return [(a.reason, a.warning) for a in outcome.calls if a.does == "record_event"]

    held = look(reservation(annotations=made_for), placeholder=placeholder())
    claimed_room = reservation(ReservationPhase.AVAILABLE, current=CLAIMED, annotations=made_for)
    used = look(claimed_room, claimant=BOUND.with_state(phase=PodPhase.RUNNING))
    lost = look(claimed_room, claimant=BOUND.with_state(phase=PodPhase.FAILED))
    assert [held.status.phase, used.status.phase, lost.status.phase] == ["Available", "Succeeded", "Failed"]
    of_move = made_for is OF_A_MOVE
    assert told(held) == ([] if of_move else [("Available", False)])
    assert told(used) == ([] if of_move else [("Succeeded", False)])
    assert told(lost) == [("ClaimantLost", True)]


def test_nobody_is_held_longer_than_the_limit():
    outcome = claimed(pod(created=NOW - 61), placeholder=placeholder(), node=replace(NODE, ready=False))
    assert condition(outcome.status.conditions, "Ready").reason == "GateTimeout"
    assert {"release", "delete_placeholder"} <= {*kinds(outcome)}


def test_a_released_claimant_tolerates_the_taint_that_is_there_or_about_to_come():
    tainted = replace(NODE, taints=(Taint(names.ANNOTATION_HANDOVER_TAINT, "r"),))
    for fields in ({"node": tainted}, {"needs_taint": True}):
        ungated = claimed(pod(nominated="n2"), **fields)
        (action,) = (a for a in ungated.calls if a.does == "remove_gate")
        assert sent(action)["spec"]["tolerations"] == [encode_toleration(hand_over_toleration("n2"))]
    (action,) = (a for a in claimed(pod(nominated="n2")).calls if a.does == "remove_gate")
    assert "tolerations" not in sent(action)["spec"], "others' pods are changed no more than needed"


def test_a_claimant_that_goes_away_opens_the_room_again():
    dropped = claimed(None, placeholder=placeholder())
    assert dropped.status.current_owners == ()
    assert dropped.status.phase is ReservationPhase.AVAILABLE
    assert claimed(None).status.phase is ReservationPhase.FAILED


def test_landing_elsewhere_is_said():
    outcome = claimed(pod(gated=False, node="n9"))
    assert condition(outcome.status.conditions, "Ready").reason == "LandedElsewhere"
