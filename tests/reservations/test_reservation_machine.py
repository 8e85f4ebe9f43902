"""The Reservation machine: every transition of the table, and what one look leads to."""

import itertools

import msgspec
import pytest

from rescheduler.errors import TransitionError
from rescheduler.model import names, room_pod
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.own_objects import condition
from rescheduler.model.records import PodPhase, PodSpec
from rescheduler.model.reservation import (
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.expiry import end_of
from rescheduler.reservations.observed_reservation import Choice
from rescheduler.reservations.reservation_lifecycle import (
    FINISHED,
    TRANSITIONS,
    ReservationEvent,
    transition,
)
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import PlaceholderTurn
from tests.reservations.looks import (
    CLAIMED,
    NODE,
    NOW,
    ROOM,
    SETTINGS,
    kinds,
    look,
    observed,
    part,
    placeholder,
    pod,
    replace,
    reservation,
)


def test_a_room_whose_pods_are_not_held_is_not_silently_available():
    found = step(observed(reservation(), placeholder=placeholder(), ungated="no place"), NOW, SETTINGS)
    told = condition(found.status.conditions, "Gated")
    assert (found.status.phase, told.status, told.message) == (
        ReservationPhase.AVAILABLE,
        "False",
        "no place",
    )
    assert "GateFull" in [a.reason for a in found.calls if a.does == "record_event"]


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(ReservationPhase, ReservationEvent)))
def test_the_table_is_the_only_way(phase, event):
    status = ReservationStatus(phase=phase)
    row = TRANSITIONS[event]
    if phase in row.met_in:
        after = transition(status, event, "words", NOW)
        assert after.phase is (row.phase or phase)
        if after.phase is phase:
            assert transition(after, event, "words", NOW + 9) == after, "saying it again writes nothing"
    else:
        with pytest.raises(TransitionError):
            transition(status, event, "words", NOW)


def test_terminal_is_terminal():
    assert not any(FINISHED.intersection(row.met_in) for row in TRANSITIONS.values())


def test_pending_makes_a_placeholder_on_the_named_node():
    outcome = look(reservation(), choice=Choice(node="n2"))
    assert kinds(outcome) == ["write_status", "create_placeholder"]
    assert outcome.calls[1].holds_on == "n2"


def test_a_named_node_that_is_refused_gets_no_placeholder_and_keeps_none():
    refused = Choice(message="node n2: Insufficient cpu")
    outcome = look(reservation(), choice=refused)
    assert kinds(outcome) == ["write_status"]
    assert condition(outcome.status.conditions, "Scheduled").message == "node n2: Insufficient cpu"
    waiting = placeholder(node="", unschedulable_message="0/3 nodes: Insufficient cpu")
    assert kinds(look(reservation(), placeholder=waiting, choice=refused))[1:] == ["delete_placeholder"]
    assert kinds(look(reservation(), placeholder=waiting, choice=Choice(node="n2")))[1:] == []


@pytest.mark.parametrize("refused", ["", "0/3 nodes"])
def test_a_placeholder_that_is_not_bound_goes_when_another_room_on_its_node_is_handed_over(refused):
    waiting = placeholder("", unschedulable_message=refused)
    assert "delete_placeholder" in kinds(
        look(reservation(), placeholder=waiting, turn=PlaceholderTurn.GIVE_WAY)
    )
    assert "delete_placeholder" not in kinds(look(reservation(), placeholder=waiting))


def test_a_preallocation_that_was_admitted_and_refused_goes_for_a_hand_over_and_is_recreated_afterwards():
    let_in = placeholder("", unschedulable_message="0/3 nodes")
    preallocated = reservation(pre_allocation=True)
    gone = look(preallocated, placeholder=let_in, turn=PlaceholderTurn.GIVE_WAY)
    assert "delete_placeholder" in kinds(gone)
    waiting = msgspec.structs.replace(
        preallocated, status=msgspec.structs.replace(gone.status, node_name="n2", current_owners=())
    )
    assert "create_placeholder" not in kinds(look(waiting, turn=PlaceholderTurn.GIVE_WAY))
    again = look(waiting)
    assert again.status.phase is ReservationPhase.WAITING
    made = next(action for action in again.calls if action.does == "create_placeholder")
    assert (made.holds_on, part(made)[1]) == ("n2", True)
    ended = msgspec.structs.replace(let_in, created_at_s=NOW - SETTINGS.retarget_s).with_state(
        phase=PodPhase.FAILED
    )
    assert "delete_placeholder" in kinds(look(waiting, placeholder=ended))


def test_a_placeholder_that_has_just_been_made_and_has_ended_stands_for_a_while():
    ended = replace(placeholder(phase=PodPhase.FAILED), created_at_s=NOW - 10.0)
    for phase in (ReservationPhase.PENDING, ReservationPhase.AVAILABLE):
        found = look(anywhere(phase), placeholder=ended)
        assert (found.status.phase, found.wake_at_s) == (
            ReservationPhase.PENDING,
            NOW - 10.0 + SETTINGS.retarget_s,
        )
        assert not {"delete_placeholder", "create_placeholder"} & set(kinds(found))


QUEUE = "queue.example.com/admission"


@pytest.mark.parametrize(("gates", "age_s", "said"), [
    ((QUEUE,), 0, f"by the scheduling gate {QUEUE}: it must leave out namespace default"),
    ((QUEUE, names.GATE_ROOM), 0, f"by the scheduling gate {QUEUE}: it must leave out"),
    ((), 30, "default-scheduler has neither bound nor refused its placeholder default/holder"),
])  # fmt: skip
@pytest.mark.parametrize("fields", [{}, {"make_room": True}])
def test_a_placeholder_that_no_scheduler_looks_at_is_told_with_the_reason(gates, age_s, said, fields):
    waiting = placeholder("", created=NOW - age_s)
    waiting = msgspec.structs.replace(waiting, spec=PodSpec(requests=ROOM, gates=gates))
    outcome = look(reservation(**fields), placeholder=waiting)
    told = condition(outcome.status.conditions, "Scheduled")
    assert (outcome.status.phase, told.status, told.reason) == (
        ReservationPhase.PENDING,
        "False",
        "NotScheduled",
    )
    assert said in told.message
    asked = msgspec.structs.replace(reservation(**fields), status=outcome.status)
    assert not room_pod.wants_room(asked), "nobody steps aside where that would not help"
    assert kinds(look(asked, placeholder=waiting)) == [], "told once"


def test_a_scheduler_is_given_time_to_answer_and_then_asked_for():
    waiting = placeholder("", created=NOW - 3)
    outcome = look(reservation(template_node="n2"), placeholder=waiting)
    assert condition(outcome.status.conditions, "Scheduled") is None
    assert outcome.wake_at_s == NOW - 3 + SETTINGS.retarget_s


def test_a_preallocation_whose_room_is_free_says_what_still_keeps_it():
    let_in = placeholder("")
    let_in = msgspec.structs.replace(let_in, spec=PodSpec(requests=ROOM, gates=(QUEUE,)))
    outcome = look(reservation(pre_allocation=True), placeholder=let_in)
    assert QUEUE in condition(outcome.status.conditions, "Ready").message


def test_pending_says_what_the_scheduler_says():
    outcome = look(
        reservation(), placeholder=placeholder(node="", unschedulable_message="0/3 nodes: Insufficient cpu")
    )
    assert outcome.status.phase is ReservationPhase.PENDING
    assert condition(outcome.status.conditions, "Scheduled").message == "0/3 nodes: Insufficient cpu"


def test_a_template_is_tried_before_anything_is_made_of_it():
    untried = observed(reservation(), template_refused=None, choice=Choice(node="n2"))
    kinds_tried = [a.does for a in step(untried, NOW, SETTINGS).calls]
    assert "try_template" in kinds_tried
    assert "create_placeholder" not in kinds_tried
    taken = observed(reservation(), template_refused="", choice=Choice(node="n2"))
    assert "create_placeholder" in [a.does for a in step(taken, NOW, SETTINGS).calls]
    refused = step(observed(reservation(), template_refused="spec.x: no"), NOW, SETTINGS).status
    assert refused.phase is ReservationPhase.FAILED
    ready = condition(refused.conditions, "Ready")
    assert (ready.reason, ready.message) == (
        "Invalid",
        "spec.template: the API server takes no such pod: spec.x: no",
    )


def test_no_node_is_said_and_nothing_made():
    outcome = look(reservation(template_node=""), choice=Choice(message="0/3 nodes"))
    assert kinds(outcome) == ["write_status"]
    assert condition(outcome.status.conditions, "Scheduled").message == "0/3 nodes"


@pytest.mark.parametrize(("node", "phase"), [
    (NODE, ReservationPhase.AVAILABLE),
    (replace(NODE, unschedulable=True), ReservationPhase.WAITING),
    (replace(NODE, ready=False), ReservationPhase.WAITING),
    (None, ReservationPhase.FAILED),
])  # fmt: skip
def test_available_only_on_a_usable_node(node, phase):
    outcome = look(reservation(), placeholder=placeholder(), node=node)
    assert outcome.status.phase is phase
    assert outcome.status.allocatable == (ROOM)


@pytest.mark.parametrize(("fields", "words"), [
    ({"owners": ()}, "spec.owners is empty"),
    ({"owners": (ReservationOwner(),)}, "names no pod"),
    ({"ttl_s": 5.0, "expires_at_s": NOW + 5}, "exclude each other"),
    ({"template": None}, "spec.template"),
])  # fmt: skip
def test_what_cannot_be_served_is_refused_with_words(fields, words):
    outcome = look(reservation(**fields))
    assert outcome.status.phase is ReservationPhase.FAILED
    assert words in condition(outcome.status.conditions, "Ready").message
    assert "create_placeholder" not in kinds(outcome)


@pytest.mark.parametrize(
    "phase", [ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE]
)
def test_each_living_phase_expires_and_gives_the_room_back(phase):
    outcome = look(reservation(phase, ttl_s=5.0), placeholder=placeholder())
    assert outcome.status.phase is ReservationPhase.FAILED
    assert condition(outcome.status.conditions, "Ready").reason == "Expired"
    assert "delete_placeholder" in kinds(outcome)


@pytest.mark.parametrize("named", [{"ttl_s": 0.0}, {"ttl_s": 9e9}, {"expires_at_s": 9e9}])
def test_no_life_is_longer_than_is_configured(named):
    settings = ReservationSettings(max_lifetime_s=3600.0)
    assert end_of(reservation(**named, created=100.0), settings) == 3700.0
    assert end_of(reservation(ttl_s=60.0, created=100.0), settings) == 160.0


def test_ttl_zero_never_expires():
    outcome = look(reservation(ReservationPhase.AVAILABLE, ttl_s=0.0, created=0.0), placeholder=placeholder())
    assert outcome.status.phase is ReservationPhase.AVAILABLE
    assert outcome.status.expires_at_s is None


def test_an_evicted_pod_keeps_its_reservation_alive():
    link = PodMigration(
        name="m",
        uid="m",
        namespace="default",
        pod_name="",
        status=MigrationStatus(
            phase=MigrationPhase.HANDING_OVER, eviction_requested_at_s=1.0, evicted_at_s=2.0
        ),
    )
    r = reservation(
        ReservationPhase.AVAILABLE, ttl_s=5.0, annotations=LabelSet({names.ANNOTATION_MIGRATION: "default/m"})
    )
    assert look(r, placeholder=placeholder(), migration=link).status.phase is ReservationPhase.AVAILABLE


@pytest.mark.parametrize(
    "lost",
    [None, placeholder(deleting=True), placeholder(phase=PodPhase.FAILED)],
    ids=["gone", "deleting", "failed"],
)
def test_a_lost_placeholder_fails_an_unclaimed_room(lost):
    outcome = look(reservation(ReservationPhase.AVAILABLE), placeholder=lost)
    assert condition(outcome.status.conditions, "Ready").reason == "PlaceholderLost"


def anywhere(phase=ReservationPhase.AVAILABLE, **fields):
    return reservation(phase, template_node="", **fields)


@pytest.mark.parametrize(("lost", "deleted"), [
    (None, []),
    (placeholder(deleting=True), []),
    (replace(placeholder(phase=PodPhase.FAILED), created_at_s=NOW - 60.0), ["delete_placeholder"]),
], ids=["gone", "deleting", "failed"])  # fmt: skip
def test_a_room_that_may_be_anywhere_is_placed_anew_when_its_placeholder_is_lost(lost, deleted):
    outcome = look(anywhere(), placeholder=lost)
    assert outcome.status.phase is ReservationPhase.PENDING
    assert (outcome.status.node_name, outcome.status.allocatable) == ("", NO_RESOURCES)
    scheduled = condition(outcome.status.conditions, "Scheduled")
    assert (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    assert condition(outcome.status.conditions, "Ready").reason == "NodeLost"
    assert [kind for kind in kinds(outcome) if kind not in ("write_status", "record_event")] == deleted


def test_a_node_has_its_grace_before_its_room_goes_elsewhere():
    bad = msgspec.structs.replace(NODE, unschedulable=True)
    first = look(anywhere(), placeholder=placeholder(), node=bad)
    assert first.status.phase is ReservationPhase.WAITING
    later = replace(anywhere(), status=first.status)
    still = step(
        observed(later, placeholder=placeholder(), node=bad), NOW + SETTINGS.node_grace_s - 1, SETTINGS
    )
    assert still.status.phase is ReservationPhase.WAITING
    over = step(observed(later, placeholder=placeholder(), node=bad), NOW + SETTINGS.node_grace_s, SETTINGS)
    assert over.status.phase is ReservationPhase.PENDING
    assert "delete_placeholder" in kinds(over)


def test_after_a_crash_between_status_and_deletion_the_bad_node_is_left_in_the_end():
    """The status says Pending, and the placeholder still stands on the node that was given up."""
    bad = msgspec.structs.replace(NODE, unschedulable=True)
    now_s, room = NOW, anywhere(ReservationPhase.PENDING)
    for _ in range(2):
        outcome = step(observed(room, placeholder=placeholder(), node=bad), now_s, SETTINGS)
        room, now_s = replace(room, status=outcome.status), now_s + SETTINGS.node_grace_s
    assert room.status.phase is ReservationPhase.PENDING
    assert "delete_placeholder" in kinds(outcome)


@pytest.mark.parametrize("counted_on", [
    {"annotations": LabelSet({names.ANNOTATION_MIGRATION: "default/m"})},
    {"template_node": "n2"},
    {"current": CLAIMED},
], ids=["made for a move", "its node is named", "claimed"])  # fmt: skip
def test_a_room_that_somebody_counts_on_fails_where_it_is(counted_on):
    room = reservation(ReservationPhase.AVAILABLE, **{"template_node": "", **counted_on})
    assert look(room, placeholder=None).status.phase is not ReservationPhase.PENDING


def test_a_room_that_a_move_refers_to_fails_where_it_is():
    link = PodMigration(
        name="m",
        uid="m",
        namespace="default",
        pod_name="",
        reservation_ref="r",
        status=MigrationStatus(phase=MigrationPhase.RESERVING),
    )
    outcome = look(anywhere(), placeholder=None, migration=link)
    assert condition(outcome.status.conditions, "Ready").reason == "PlaceholderLost"


def finished(claimant):
    gone = reservation(ReservationPhase.AVAILABLE, current=CLAIMED)
    status = transition(gone.status, ReservationEvent.EXPIRED, "", NOW - 4000)
    return look(replace(gone, status=status), claimant=claimant)


def test_a_finished_one_is_collected_but_never_while_its_claimant_is_pending():
    assert kinds(finished(None)) == ["delete_reservation"]
    assert kinds(finished(pod(gated=False))) == []
    assert kinds(finished(pod())) == ["release"]


def test_a_finished_one_is_kept_from_its_end_on_not_from_the_trouble_that_led_to_it():
    status = reservation(ReservationPhase.AVAILABLE).status
    message = "node/n2 is not Ready or not schedulable"
    cordoned = transition(status, ReservationEvent.NODE_BAD, message, NOW)
    lost = transition(cordoned, ReservationEvent.NODE_NOT_READY, message, NOW + SETTINGS.node_grace_s)
    gone = reservation(ReservationPhase.AVAILABLE)
    at_s = NOW + SETTINGS.finished_ttl_s
    kept = step(observed(replace(gone, status=lost)), at_s, SETTINGS)
    assert kinds(kept) == []
    assert kept.wake_at_s == at_s + SETTINGS.node_grace_s


def test_a_room_made_for_a_move_that_is_gone_is_given_up():
    r = reservation(
        ReservationPhase.AVAILABLE,
        created=NOW - 60,
        annotations=LabelSet({names.ANNOTATION_MIGRATION: "default/m"}),
    )
    assert condition(look(r, placeholder=placeholder()).status.conditions, "Ready").reason == "Abandoned"
