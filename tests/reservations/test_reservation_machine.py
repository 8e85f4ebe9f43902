"""The Reservation machine: every transition of the table, and what one look leads to."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from rescheduler.errors import TransitionError
from rescheduler.model import made_room, names
from rescheduler.model.conditions import condition
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import Node, OwnerRef, Pod, PodPhase, PodSpec, Taint
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations import actions as act
from rescheduler.reservations.expiry import end_of
from rescheduler.reservations.handover import hand_over_toleration
from rescheduler.reservations.lifecycle import (
    FINISHED,
    TRANSITIONS,
    ReservationEvent,
    transition,
)
from rescheduler.reservations.machine import step
from rescheduler.reservations.observed import (
    Choice,
    LinkedMigration,
    ObservedReservation,
    ReservationSettings,
)
from rescheduler.reservations.waits import WAIT_MESSAGES, HandoverWait, PlaceholderTurn, Wait

replace = msgspec.structs.replace
NOW = 1_000_000.0
SETTINGS = ReservationSettings()
ROOM = Resources(cpu_milli=1000)
OWNER = ReservationOwner(controller=ControllerRef(uid="rs"))
NODE = Node(name="n2", uid="n2")


def reservation(phase=ReservationPhase.PENDING, *, current=(), created=NOW - 10, **fields):
    status = ReservationStatus(
        phase=phase,
        node_name="" if phase is ReservationPhase.PENDING else "n2",
        allocatable=ROOM,
        current_owners=current,
    )
    base = {"template": PodSpec(requests=ROOM), "owners": (OWNER,), "template_node": "n2"}
    return Reservation(
        name="r", uid="r", resource_version="7", created_at_s=created, status=status, **{**base, **fields}
    )


def pod(name="p", *, gated=True, node="", nominated="", deleting=False, created=NOW - 5, **fields):
    gates = (names.GATE,) if gated else ()
    return Pod(
        namespace="default",
        name=name,
        uid=f"{name}-uid",
        node=node,
        nominated_node=nominated,
        deleting=deleting,
        created_at_s=created,
        spec=PodSpec(requests=ROOM, gates=gates),
        controller=OwnerRef("apps/v1", "ReplicaSet", "web", "rs"),
        **fields,
    )


def test_a_room_whose_pods_are_not_held_is_not_silently_available():
    found = step(observed(reservation(), placeholder=placeholder(), ungated="no place"), NOW, SETTINGS)
    told = condition(found.status.conditions, "Gated")
    assert (found.status.phase, told.status, told.message) == (
        ReservationPhase.AVAILABLE,
        "False",
        "no place",
    )
    assert "GateFull" in [a.reason for a in found.actions if isinstance(a, act.RecordEvent)]


def placeholder(node="n2", **fields):
    return pod("holder", gated=False, node=node, **fields)


def observed(r, *, placeholder=None, claimant=None, **fields):
    return ObservedReservation(
        reservation=r,
        placeholders=(placeholder,) if placeholder else (),
        owners=(claimant,) if claimant else (),
        **{"node": NODE, **fields},
    )


def look(r, **fields):
    return step(observed(r, **fields), NOW, SETTINGS)


def kinds(outcome):
    return [type(a).__name__ for a in outcome.actions if not isinstance(a, act.RecordEvent)]


CLAIMED = (ObjectRef(namespace="default", name="p", uid="p-uid"),)


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(ReservationPhase, ReservationEvent)))
def test_the_table_is_the_only_way(phase, event):
    status = ReservationStatus(phase=phase)
    if (phase, event) in TRANSITIONS:
        after = transition(status, event, "words", NOW)
        assert after.phase is TRANSITIONS[phase, event].phase
        if (after.phase, event) in TRANSITIONS and after.phase is phase:
            assert transition(after, event, "words", NOW + 9) == after, "saying it again writes nothing"
    else:
        with pytest.raises(TransitionError):
            transition(status, event, "words", NOW)


def test_terminal_is_terminal():
    assert not any(phase in FINISHED for phase, _ in TRANSITIONS)


def test_pending_makes_a_placeholder_on_the_named_node():
    outcome = look(reservation(), choice=Choice(node="n2"))
    assert kinds(outcome) == ["WriteReservationStatus", "CreatePlaceholder"]
    assert outcome.actions[1].node == "n2"


def test_a_named_node_that_is_refused_gets_no_placeholder_and_keeps_none():
    refused = Choice(message="node n2: Insufficient cpu")
    outcome = look(reservation(), choice=refused)
    assert kinds(outcome) == ["WriteReservationStatus"]
    assert condition(outcome.status.conditions, "Scheduled").message == "node n2: Insufficient cpu"
    waiting = placeholder(node="", unschedulable_message="0/3 nodes: Insufficient cpu")
    assert kinds(look(reservation(), placeholder=waiting, choice=refused))[1:] == ["DeletePlaceholder"]
    assert kinds(look(reservation(), placeholder=waiting, choice=Choice(node="n2")))[1:] == []


@pytest.mark.parametrize("refused", ["", "0/3 nodes"])
def test_a_placeholder_that_is_not_bound_goes_when_another_room_on_its_node_is_handed_over(refused):
    waiting = placeholder("", unschedulable_message=refused)
    assert "DeletePlaceholder" in kinds(
        look(reservation(), placeholder=waiting, turn=PlaceholderTurn.GIVE_WAY)
    )
    assert "DeletePlaceholder" not in kinds(look(reservation(), placeholder=waiting))


def test_a_preallocation_that_was_admitted_and_refused_goes_for_a_hand_over_and_is_recreated_afterwards():
    let_in = placeholder("", unschedulable_message="0/3 nodes")
    preallocated = reservation(pre_allocation=True)
    gone = look(preallocated, placeholder=let_in, turn=PlaceholderTurn.GIVE_WAY)
    assert "DeletePlaceholder" in kinds(gone)
    waiting = msgspec.structs.replace(
        preallocated, status=msgspec.structs.replace(gone.status, node_name="n2", current_owners=())
    )
    assert "CreatePlaceholder" not in kinds(look(waiting, turn=PlaceholderTurn.GIVE_WAY))
    again = look(waiting)
    assert again.status.phase is ReservationPhase.WAITING
    made = next(action for action in again.actions if isinstance(action, act.CreatePlaceholder))
    assert (made.node, made.part.waits) == ("n2", True)
    ended = msgspec.structs.replace(let_in, phase=PodPhase.FAILED)
    assert "DeletePlaceholder" in kinds(look(waiting, placeholder=ended))


QUEUE = "queue.example.com/admission"


@pytest.mark.parametrize(
    ("gates", "age_s", "said"),
    [
        ((QUEUE,), 0, f"by the scheduling gate {QUEUE}: it must leave out namespace default"),
        ((QUEUE, names.GATE_ROOM), 0, f"by the scheduling gate {QUEUE}: it must leave out"),
        ((), 30, "default-scheduler has neither bound nor refused its placeholder default/holder"),
    ],
)
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
    assert not made_room.wants_room(asked), "nobody steps aside where that would not help"
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
    kinds_tried = [type(a) for a in step(untried, NOW, SETTINGS).actions]
    assert act.TryTemplate in kinds_tried
    assert act.CreatePlaceholder not in kinds_tried
    taken = observed(reservation(), template_refused="", choice=Choice(node="n2"))
    assert act.CreatePlaceholder in [type(a) for a in step(taken, NOW, SETTINGS).actions]
    refused = step(observed(reservation(), template_refused="spec.x: no"), NOW, SETTINGS).status
    assert refused.phase is ReservationPhase.FAILED
    ready = condition(refused.conditions, "Ready")
    assert (ready.reason, ready.message) == (
        "Invalid",
        "spec.template: the API server takes no such pod: spec.x: no",
    )


def test_no_node_is_said_and_nothing_made():
    outcome = look(reservation(template_node=""), choice=Choice(message="0/3 nodes"))
    assert kinds(outcome) == ["WriteReservationStatus"]
    assert condition(outcome.status.conditions, "Scheduled").message == "0/3 nodes"


@pytest.mark.parametrize(
    ("node", "phase"),
    [
        (NODE, ReservationPhase.AVAILABLE),
        (replace(NODE, unschedulable=True), ReservationPhase.WAITING),
        (replace(NODE, ready=False), ReservationPhase.WAITING),
        (None, ReservationPhase.FAILED),
    ],
)
def test_available_only_on_a_usable_node(node, phase):
    outcome = look(reservation(), placeholder=placeholder(), node=node)
    assert outcome.status.phase is phase
    assert outcome.status.allocatable == (ROOM)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"owners": ()}, "spec.owners is empty"),
        ({"owners": (ReservationOwner(),)}, "names no pod"),
        ({"ttl_s": 5.0, "expires_at_s": NOW + 5}, "exclude each other"),
        ({"template": None}, "spec.template"),
    ],
)
def test_what_cannot_be_served_is_refused_with_words(fields, words):
    outcome = look(reservation(**fields))
    assert outcome.status.phase is ReservationPhase.FAILED
    assert words in condition(outcome.status.conditions, "Ready").message
    assert "CreatePlaceholder" not in kinds(outcome)


@pytest.mark.parametrize(
    "phase", [ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE]
)
def test_each_living_phase_expires_and_gives_the_room_back(phase):
    outcome = look(reservation(phase, ttl_s=5.0), placeholder=placeholder())
    assert outcome.status.phase is ReservationPhase.FAILED
    assert condition(outcome.status.conditions, "Ready").reason == "Expired"
    assert "DeletePlaceholder" in kinds(outcome)


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
    link = LinkedMigration(
        key="default/m",
        phase=MigrationPhase.HANDING_OVER,
        created=True,
        eviction_requested_at_s=1.0,
        evicted_at_s=2.0,
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


@pytest.mark.parametrize(
    ("lost", "deleted"),
    [
        (None, []),
        (placeholder(deleting=True), []),
        (placeholder(phase=PodPhase.FAILED), ["DeletePlaceholder"]),
    ],
    ids=["gone", "deleting", "failed"],
)
def test_a_room_that_may_be_anywhere_is_placed_anew_when_its_placeholder_is_lost(lost, deleted):
    outcome = look(anywhere(), placeholder=lost)
    assert outcome.status.phase is ReservationPhase.PENDING
    assert (outcome.status.node_name, outcome.status.allocatable) == ("", NO_RESOURCES)
    scheduled = condition(outcome.status.conditions, "Scheduled")
    assert (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    assert condition(outcome.status.conditions, "Ready").reason == "NodeLost"
    assert [
        kind for kind in kinds(outcome) if kind not in ("WriteReservationStatus", "RecordEvent")
    ] == deleted


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
    assert "DeletePlaceholder" in kinds(over)


def test_after_a_crash_between_status_and_deletion_the_bad_node_is_left_in_the_end():
    """The status says Pending, and the placeholder still stands on the node that was given up."""
    bad = msgspec.structs.replace(NODE, unschedulable=True)
    now_s, room = NOW, anywhere(ReservationPhase.PENDING)
    for _ in range(2):
        outcome = step(observed(room, placeholder=placeholder(), node=bad), now_s, SETTINGS)
        room, now_s = replace(room, status=outcome.status), now_s + SETTINGS.node_grace_s
    assert room.status.phase is ReservationPhase.PENDING
    assert "DeletePlaceholder" in kinds(outcome)


@pytest.mark.parametrize(
    "counted_on",
    [
        {"annotations": LabelSet({names.ANNOTATION_MIGRATION: "default/m"})},
        {"template_node": "n2"},
        {"current": CLAIMED},
    ],
    ids=["made for a move", "its node is named", "claimed"],
)
def test_a_room_that_somebody_counts_on_fails_where_it_is(counted_on):
    room = reservation(ReservationPhase.AVAILABLE, **{"template_node": "", **counted_on})
    assert look(room, placeholder=None).status.phase is not ReservationPhase.PENDING


def test_a_room_that_a_move_refers_to_fails_where_it_is():
    link = LinkedMigration(key="default/m", phase=MigrationPhase.RESERVING, created=False)
    outcome = look(anywhere(), placeholder=None, migration=link)
    assert condition(outcome.status.conditions, "Ready").reason == "PlaceholderLost"


def test_claim_is_one_compare_and_swap_and_nothing_else():
    outcome = look(reservation(ReservationPhase.AVAILABLE), placeholder=placeholder(), assigned=(pod(),))
    assert kinds(outcome) == ["WriteReservationStatus"]
    assert outcome.status.current_owners == CLAIMED
    assert outcome.actions[0].seen.resource_version == "7"


def claimed(claimant, **fields):
    return look(reservation(ReservationPhase.AVAILABLE, current=CLAIMED), claimant=claimant, **fields)


def test_the_order_of_the_hand_over():
    does = ("Nominate", "DeletePlaceholder", "Ungate")
    first = claimed(pod(), placeholder=placeholder())
    second = claimed(pod(nominated="n2"), placeholder=placeholder())
    third = claimed(pod(nominated="n2"), placeholder=placeholder(deleting=True))
    fourth = claimed(pod(nominated="n2"), placeholder=None)
    last = claimed(replace(pod(gated=False, node="n2"), phase=PodPhase.RUNNING), placeholder=None)
    assert does[0] in kinds(first)
    assert "DeletePlaceholder" not in kinds(first)
    assert does[1] in kinds(second)
    assert not {*does} & {*kinds(third)}
    (deletion,) = (action for action in second.actions if isinstance(action, act.DeletePlaceholder))
    assert [(each.pod.name, each.node) for each in deletion.nominated] == [(pod().name, "n2")]
    assert does[2] in kinds(fourth)
    assert last.status.phase is ReservationPhase.SUCCEEDED


BOUND = replace(pod(gated=False, node="n2"), phase=PodPhase.PENDING)
LANDINGS = [
    ({}, {"phase": PodPhase.RUNNING}, "Succeeded", "landed on node n2"),
    ({}, {"phase": PodPhase.SUCCEEDED}, "Succeeded", "landed on node n2"),
    ({"landed_since_s": NOW - 0.9}, {}, "Available", "claimed by default/p"),
    ({"landed_since_s": NOW - 1}, {}, "Available", "it has not started yet"),
    ({"landed_since_s": NOW - 1.9}, {}, "Available", "it has not started yet"),
    ({"landed_since_s": NOW - 2}, {}, "Succeeded", "landed on node n2"),
    ({}, {"phase": PodPhase.FAILED}, "Failed", "failed there before it had started"),
    ({}, {"deleting": True}, "Failed", "was deleted within seconds"),
    (
        {},
        {"deleting": True, "phase": PodPhase.RUNNING, "disruption_reason": "PreemptionByScheduler"},
        "Failed",
        "was deleted within seconds (PreemptionByScheduler)",
    ),
    ({"threatened": "pod w is about to"}, {"phase": PodPhase.RUNNING}, "Available", "pod w is about to"),
    (
        {"threatened": "pod w is about to", "landed_since_s": NOW - 10},
        {"phase": PodPhase.RUNNING},
        "Succeeded",
        "landed on node n2",
    ),
]


@pytest.mark.parametrize(("fields", "of_pod", "phase", "words"), LANDINGS)
def test_only_an_owner_that_stays_is_a_success(fields, of_pod, phase, words):
    outcome = claimed(replace(BOUND, **of_pod), placeholder=None, **fields)
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
    back = {"TakeBackNomination"} if reason in WITHDRAWN and nominated and holder else set()
    assert {*kinds(waits)} == {"WriteReservationStatus", *back}
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
    assert kinds(told) == ["WriteReservationStatus"]
    message = "claimed by default/p; waiting: another replacement on node n2 has not landed yet"
    assert condition(told.status.conditions, "Ready").message == message
    room = replace(room, status=told.status)
    assert kinds(waited(5.0)) == [], "it is said once"
    after = look(room, claimant=pod(), placeholder=placeholder())
    assert kinds(after) == ["WriteReservationStatus", "Nominate"]
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
        {"claimant": replace(BOUND, phase=PodPhase.RUNNING)},
    )
    written = [claims, *(look(room, **fields) for fields in seen)]
    writes = ["WriteReservationStatus" in kinds(outcome) for outcome in written]
    assert writes == [True, *[False] * 7, True]


OF_A_MOVE = LabelSet({names.ANNOTATION_MIGRATION: "default/m"})


@pytest.mark.parametrize("made_for", [LabelSet(), OF_A_MOVE], ids=["of people", "of a move"])
def test_events_tell_phases_of_a_room_of_people_and_of_a_move_only_the_failure(made_for):
    def told(outcome):
        return [(a.reason, a.warning) for a in outcome.actions if isinstance(a, act.RecordEvent)]

    held = look(reservation(annotations=made_for), placeholder=placeholder())
    claimed_room = reservation(ReservationPhase.AVAILABLE, current=CLAIMED, annotations=made_for)
    used = look(claimed_room, claimant=replace(BOUND, phase=PodPhase.RUNNING))
    lost = look(claimed_room, claimant=replace(BOUND, phase=PodPhase.FAILED))
    assert [held.status.phase, used.status.phase, lost.status.phase] == ["Available", "Succeeded", "Failed"]
    of_move = made_for is OF_A_MOVE
    assert told(held) == ([] if of_move else [("Available", False)])
    assert told(used) == ([] if of_move else [("Succeeded", False)])
    assert told(lost) == [("ClaimantLost", True)]


def test_nobody_is_held_longer_than_the_limit():
    outcome = claimed(pod(created=NOW - 61), placeholder=placeholder(), node=replace(NODE, ready=False))
    assert condition(outcome.status.conditions, "Ready").reason == "GateTimeout"
    assert {"ReleasePod", "DeletePlaceholder"} <= {*kinds(outcome)}


def test_a_released_claimant_tolerates_the_taint_that_is_there_or_about_to_come():
    tainted = replace(NODE, taints=(Taint(names.ANNOTATION_HANDOVER_TAINT, "r"),))
    for fields in ({"node": tainted}, {"needs_taint": True}):
        ungated = claimed(pod(nominated="n2"), **fields)
        (action,) = (a for a in ungated.actions if isinstance(a, act.Ungate))
        assert action.tolerations == (hand_over_toleration("n2"),)
    (action,) = (a for a in claimed(pod(nominated="n2")).actions if isinstance(a, act.Ungate))
    assert action.tolerations is None, "others' pods are changed no more than needed"


def test_a_claimant_that_goes_away_opens_the_room_again():
    dropped = claimed(None, placeholder=placeholder())
    assert dropped.status.current_owners == ()
    assert dropped.status.phase is ReservationPhase.AVAILABLE
    assert claimed(None).status.phase is ReservationPhase.FAILED


def test_landing_elsewhere_is_said():
    outcome = claimed(pod(gated=False, node="n9"))
    assert condition(outcome.status.conditions, "Ready").reason == "LandedElsewhere"


def finished(claimant):
    gone = reservation(ReservationPhase.AVAILABLE, current=CLAIMED)
    status = transition(gone.status, ReservationEvent.EXPIRED, "", NOW - 4000)
    return look(replace(gone, status=status), claimant=claimant)


def test_a_finished_one_is_collected_but_never_while_its_claimant_is_pending():
    assert kinds(finished(None)) == ["DeleteReservation"]
    assert kinds(finished(pod(gated=False))) == []
    assert kinds(finished(pod())) == ["ReleasePod"]


def test_a_finished_one_is_kept_from_its_end_on_not_from_the_trouble_that_led_to_it():
    status = reservation(ReservationPhase.AVAILABLE).status
    message = "node n2 is not Ready or not schedulable"
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
