"""The PodMigration machine: what it waits for, how it ends, and that it never evicts too early."""

from __future__ import annotations

import dataclasses
import itertools

import msgspec
import pytest

from rescheduler.coordination.memory import Answers
from rescheduler.errors import TransitionError
from rescheduler.migrations.migration_lifecycle import TRANSITIONS, MigrationReason, enter
from rescheduler.migrations.migration_machine import step
from rescheduler.migrations.observed_migration import (
    Calls,
    MigrationSettings,
    ObservedMigration,
    ObservedWait,
    Permission,
    Recorded,
)
from rescheduler.model.event import ObjectReference
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode
from rescheduler.model.names import ANNOTATION_ASKED_SINCE
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import DisruptionBudget, Node, ObjectKey, OwnerRef, PodPhase, PodSpec
from rescheduler.model.reservation import ControllerRef, ReservationOwner, ReservationPhase
from rescheduler.model.selectors import LabelSet
from rescheduler.model.times import format_seconds
from rescheduler.planning.availability import Availability
from tests import records
from tests.records import pod_record

NOW = 1_000.0
SETTINGS = MigrationSettings()
TARGET = Node(name="n2")
PHASE = MigrationPhase


def pod(**fields):
    base = {"uid": "u1", "node": "n1", "ready": True, "phase": PodPhase.RUNNING}
    return pod_record(
        namespace="default",
        name="web-0",
        spec=PodSpec(),
        controller=OwnerRef("apps/v1", "ReplicaSet", "web", "rs"),
        **{**base, **fields},
    )


def migration(phase=PHASE.PENDING, *, requested=0.0, evicted=0.0, mode=MoveMode.AUTO, **fields):
    base = {
        "resource_version": "3", "pod_name": "web-0", "pod_uid": "u1", "target_node": "n2",
        "created_at_s": NOW - 10,
    }  # fmt: skip
    base |= {"reservation_name": "r", "source_node": "n1", "node_name": "n2"}
    return records.move(
        "m",
        phase,
        spec={"mode": mode},
        **base | {"eviction_requested_at_s": requested, "evicted_at_s": evicted} | fields,
    )


def reservation(phase=ReservationPhase.AVAILABLE, owners=()):
    owner = ReservationOwner(controller=ControllerRef(uid="rs"))
    return records.room(
        "r", phase, resource_version="9", owners=(owner,), node_name="n2", current_owners=owners
    )


def look(m, *, now=NOW, settings=SETTINGS, **fields):
    base = {"pod": pod(), "target": "n2", "target_node": TARGET}
    return step(ObservedMigration(migration=m, reservation_name="r", **{**base, **fields}), now, settings)


def kinds(outcome):
    return [a.does for a in outcome.calls if a.does != "record_event"]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(PHASE, PHASE)))
def test_the_table_is_the_only_way(old, new):
    status = MigrationStatus(phase=old)
    if new in TRANSITIONS[old]:
        assert enter(status, new, MigrationReason.CHECKING, "", NOW).phase is new
    else:
        with pytest.raises(TransitionError):
            enter(status, new, MigrationReason.CHECKING, "", NOW)


@pytest.mark.parametrize(
    ("phase", "requested"),
    [(PHASE.PENDING, 0.0), (PHASE.RESERVING, 0.0), (PHASE.EVICTING, 0.0), (PHASE.EVICTING, NOW)],
)
def test_nobody_is_evicted_from_a_node_whose_kubelet_does_not_answer(phase, requested):
    """The pod would be terminating for ever, and its room be held."""
    outcome = look(migration(phase, requested=requested), stands_on=Node(name="n1", ready=False))
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "NotMovable")
    assert outcome.status.message.startswith("node/n1 is not Ready or unreachable")
    assert "evict" not in kinds(outcome)


def test_a_move_waits_for_a_rollout_of_its_workload_until_its_ttl():
    rolling_out = Permission(ok=False, message="its Deployment web is rolling out a change", passes=True)
    outcome = look(migration(), movable=rolling_out)
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.PENDING, "OwnerBusy")
    assert "rolling out" in outcome.status.message
    assert "create_reservation" not in kinds(outcome)
    late = look(migration(created_at_s=NOW - 301), movable=rolling_out)
    assert (late.status.phase, late.status.reason) == (PHASE.FAILED, "Timeout")


def test_a_move_whose_status_is_refused_until_its_time_is_over_says_so():
    """Its status cannot tell what it waits for: that is what is refused."""
    move = migration(PHASE.RESERVING, message="room is being reserved")
    late = look(move, reservation=reservation(), refused="a policy denies it", now=move.created_at_s + 301)
    assert late.status.reason == "Timeout"
    assert "room is being reserved; the API server refuses: a policy denies it" in late.status.message


@pytest.mark.parametrize("phase", [PHASE.RESERVING, PHASE.EVICTING])
@pytest.mark.parametrize("requested", [0.0, NOW - 1])
def test_of_two_moves_that_have_begun_one_gives_its_room_back_before_anybody_is_evicted(phase, requested):
    m = migration(phase, requested=requested)
    outcome = look(m, reservation=reservation(), another="default/other")
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "AnotherMove")
    assert not outcome.status.eviction_requested_at_s
    assert "delete_reservation" in kinds(outcome)
    assert "evict" not in kinds(outcome)


def budget(allowed, expected=3, desired=2, name="web"):
    return DisruptionBudget(
        namespace="default",
        name=name,
        disruptions_allowed=allowed,
        expected_pods=expected,
        desired_healthy=desired,
    )


@pytest.mark.parametrize(("fields", "extra", "reason"), [
    ({}, {"pod": None}, "PodGone"),
    ({}, {"pod": pod(uid="other")}, "PodReplaced"),
    ({}, {"pod": pod(deleting=True)}, "PodGone"),
    ({}, {"movable": Permission(ok=False, message="DaemonSet")}, "NotMovable"),
    ({}, {"target_node": None}, "TargetNotFound"),
    ({}, {"target": "n1", "target_node": Node(name="n1")}, "AlreadyOnTarget"),
    ({}, {"budgets": (budget(1), budget(1, name="b"))}, "MultipleBudgets"),
    ({"mode": MoveMode.START_FIRST}, {}, "ModeNotSupported"),
    ({"mode": MoveMode.SOFT}, {}, "ModeNotSupported"),
    ({"created_at_s": NOW - 301}, {}, "Timeout"),
    ({"reservation_ref": "r"}, {}, "ReservationFailed"),
    ({"reservation_ref": "r"}, {"reservation": reservation(), "owner_of_reservation": False}, "ReservationUnfit"),
])  # fmt: skip
def test_hopeless_moves_end_at_once_and_nothing_is_reserved(fields, extra, reason):
    outcome = look(migration(**fields), **extra)
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, reason)
    assert "create_reservation" not in kinds(outcome)


@pytest.mark.parametrize(("fields", "extra", "reason"), [
    ({}, {"pod": None}, "PodGone"),
    ({}, {"target_node": None}, "TargetNotFound"),
    ({"reservation_ref": "r"}, {}, "ReservationFailed"),
])  # fmt: skip
def test_a_new_move_waits_for_what_the_watch_of_another_kind_may_show_later(fields, extra, reason):
    new = look(migration(created_at_s=NOW - 2, **fields), **extra)
    assert (new.status.phase, new.status.reason, new.wake_at_s) == (PHASE.PENDING, reason, NOW + 3)
    older = look(migration(created_at_s=NOW - 5, **fields), **extra)
    assert (older.status.phase, older.status.reason) == (PHASE.FAILED, reason)


@pytest.mark.parametrize(("fields", "extra", "reason", "words"), [
    ({"paused": True}, {}, "Paused", "paused"),
    ({}, {"another": "default/other"}, "AnotherMove", "default/other"),
    ({}, {"target": "", "target_message": "0/3 nodes"}, "NoTarget", "0/3 nodes"),
    ({}, {"fits": Permission(ok=False, message="Insufficient cpu")}, "TargetUnschedulable", "Insufficient cpu"),
    ({}, {"budgets": (budget(0, desired=3),)}, "DisruptionBudget", "web allows 0 of 3 disruptions"),
])  # fmt: skip
def test_what_it_waits_for_is_said(fields, extra, reason, words):
    outcome = look(migration(**fields), **extra)
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.PENDING, reason)
    assert words in outcome.status.message
    assert kinds(outcome) == ["write_status"]


def test_a_move_begins_after_those_that_it_names_and_asks_for_nothing_before():
    waits = ObservedWait(begins_after=(ObjectKey("shop", "a"), ObjectKey("db", "b")))
    outcome = look(migration(pod_uid=""), waits=waits, recorded=Recorded(begun=False))
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.PENDING, "EarlierMoves")
    assert "shop/a, db/b" in outcome.status.message
    assert (kinds(outcome), outcome.begins) == (["write_status"], False)
    assert outcome.wake_at_s == look(migration(paused=True)).wake_at_s, "its ttl counts"
    late = look(migration(created_at_s=NOW - 301), waits=waits)
    assert (late.status.phase, late.status.reason) == (PHASE.FAILED, "Timeout")
    assert "create_reservation" in kinds(look(migration(), waits=ObservedWait()))


def test_what_earlier_moves_leave_is_kept_for_a_move_that_makes_room():
    waits = ObservedWait(begins_after=(ObjectKey("shop", "a"),), keeps_place=True)
    outcome = look(migration(target_node="n2"), waits=waits)
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.PENDING, "EarlierMoves")
    (made,) = [action for action in outcome.calls if action.does == "create_reservation"]
    spec = msgspec.json.decode(made.body)["spec"]
    assert (spec["template"]["spec"]["nodeName"], spec["preAllocation"]) == ("n2", True)
    assert made.key.name == outcome.status.reservation_name


def test_a_move_ends_if_one_that_it_begins_after_did_not_succeed():
    in_vain = (MigrationReason.EARLIER_MOVE_FAILED, "move shop/a failed")
    for seen in ({}, {"another": "move shop/b of the same pod"}):
        for paused in (False, True):
            outcome = look(migration(paused=paused), waits=ObservedWait(in_vain=in_vain), **seen)
            assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "EarlierMoveFailed")
            assert kinds(outcome) == ["write_status"]


@pytest.mark.parametrize(("age_s", "phase"), [(4.0, PHASE.PENDING), (6.0, PHASE.FAILED)])
def test_a_new_move_waits_for_the_watch_of_the_reservation_that_it_makes_room_for(age_s, phase):
    given_up = (MigrationReason.ROOM_GIVEN_UP, "Reservation r is gone")
    waits = ObservedWait(in_vain=given_up, unseen=True)
    outcome = look(migration(created_at_s=NOW - age_s), waits=waits)
    assert (outcome.status.phase, outcome.status.reason) == (phase, "RoomGivenUp")
    assert kinds(outcome) == ["write_status"]


def test_a_finished_move_is_kept_while_another_one_begins_after_it():
    over = migration(PHASE.FAILED)
    over = msgspec.structs.replace(
        over, status=msgspec.structs.replace(over.status, finished_at_s=NOW - 9999)
    )
    assert "delete_migration" in kinds(look(over))
    assert "delete_migration" not in kinds(look(over, waits=ObservedWait(awaited=True)))


def test_a_name_without_uid_is_taken_over_first():
    assert "adopt_pod" in kinds(look(migration(pod_uid="")))


def test_room_is_reserved_while_the_budget_is_used_up_for_the_moment():
    outcome = look(migration(), budgets=(budget(0),))
    assert kinds(outcome) == ["write_status", "create_reservation"]


@pytest.mark.parametrize(("budgets", "at_once"), [
    ((budget(1),), set()),
    ((), {(PHASE.RESERVING, False), (PHASE.RESERVING, True)}),
], ids=["after a rehearsal", "not rehearsed: intent and eviction are one step, as soon as room is held"])  # fmt: skip
def test_nothing_is_evicted_before_available_intent_and_proof(budgets, at_once):
    free = EvictionResult(EvictionOutcome.EVICTED)
    passed = Calls(dry_run=free, dry_run_at_s=NOW)
    proven = Calls(gate_proven_at_s=NOW - 2)
    evicts = set()
    for phase, requested, room, calls in itertools.product(
        PHASE, (0.0, NOW - 3), (None, *ReservationPhase), (Calls(), passed, proven)
    ):
        held = None if room is None else reservation(room)
        outcome = look(migration(phase, requested=requested), reservation=held, calls=calls, budgets=budgets)
        if "evict" in kinds(outcome):
            assert (outcome.status.phase, outcome.calls[0].does) == (PHASE.EVICTING, "write_status")
            assert outcome.calls[0].status.eviction_requested_at_s
            evicts.add((phase, requested > 0, room, calls is proven))
    begun = {(PHASE.EVICTING, True), *at_once}
    assert evicts == {(*each, ReservationPhase.AVAILABLE, True) for each in begun}


def test_nothing_is_evicted_while_the_history_cannot_be_kept():
    """Although the intent was recorded before, as when an API server whose clock differs by hours answers since then."""
    proven, unknown = (
        Calls(gate_proven_at_s=NOW - 2),
        Recorded(problem="the clocks of the API servers differ"),
    )
    outcome = look(
        migration(PHASE.EVICTING, requested=NOW - 3),
        reservation=reservation(),
        calls=proven,
        recorded=unknown,
    )
    assert (kinds(outcome), outcome.status.reason) == (["write_status"], "Recording")


def test_the_gate_settles_before_the_eviction():
    just = Calls(gate_proven_at_s=NOW - 0.5)
    outcome = look(migration(PHASE.EVICTING, requested=NOW - 3), reservation=reservation(), calls=just)
    assert "evict" not in kinds(outcome)
    assert outcome.wake_at_s == NOW + 0.5


def test_a_gate_that_is_not_in_force_ends_the_move_and_frees_the_room():
    asked = Calls(gate_failed_at_s=NOW - 1)
    outcome = look(migration(PHASE.EVICTING, requested=NOW - 16), reservation=reservation(), calls=asked)
    assert outcome.status.reason == "GateNotInForce"
    assert "delete_reservation" in kinds(outcome)


@pytest.mark.parametrize("outcome_of", list(EvictionOutcome))
def test_every_answer_of_the_eviction(outcome_of):
    calls = Calls(
        eviction=EvictionResult(outcome_of, "words"),
        eviction_at_s=NOW - 0.1,
        tries=1,
        gate_proven_at_s=NOW - 2,
    )
    outcome = look(migration(PHASE.EVICTING, requested=NOW - 3), reservation=reservation(), calls=calls)
    status = outcome.status
    if outcome_of in (EvictionOutcome.EVICTED, EvictionOutcome.GONE, EvictionOutcome.REPLACED):
        answered_s = NOW - 0.1 if outcome_of is EvictionOutcome.EVICTED else NOW
        assert (status.phase, status.evicted_at_s) == (PHASE.HANDING_OVER, answered_s)
    elif outcome_of in (EvictionOutcome.UNKNOWN, EvictionOutcome.AWAITED):
        assert status.eviction_requested_at_s, "it may have happened: look at the pod first"
        assert "evict" not in kinds(outcome)
    elif outcome_of in (EvictionOutcome.MULTIPLE_BUDGETS, EvictionOutcome.FORBIDDEN):
        assert status.phase is PHASE.FAILED
        assert "delete_reservation" in kinds(outcome)
    else:
        assert (status.phase, status.eviction_requested_at_s) == (PHASE.EVICTING, 0.0)
        assert "delete_reservation" not in kinds(outcome)


@pytest.mark.parametrize(("since_s", "over"), [(NOW - 9, False), (NOW - 11, True)])
def test_a_server_that_may_only_be_starting_is_asked_again_before_the_move_ends(since_s, over):
    no = EvictionResult(EvictionOutcome.FORBIDDEN, "no roles yet")
    rehearsed = Calls(dry_run=no, dry_run_at_s=NOW, tries=9, forbidden_since_s=since_s)
    real = Calls(eviction=no, eviction_at_s=NOW, tries=9, gate_proven_at_s=NOW - 2, forbidden_since_s=since_s)
    for calls, requested in ((rehearsed, 0.0), (real, NOW - 3)):
        outcome = look(migration(PHASE.EVICTING, requested=requested), reservation=reservation(), calls=calls)
        assert outcome.status.phase is (PHASE.FAILED if over else PHASE.EVICTING)
        assert (outcome.status.reason, outcome.status.eviction_requested_at_s) == ("Forbidden", 0.0)
        assert over or outcome.wake_at_s == NOW + 1


def test_answers_that_forbid_count_from_the_first_one_in_a_row():
    answers, key = Answers(), migration(PHASE.EVICTING).key
    no, yes = EvictionResult(EvictionOutcome.FORBIDDEN), EvictionResult(EvictionOutcome.EVICTED)
    answers.dry_run(key, no, 100.0)
    answers.eviction(key, no, 105.0)
    assert answers.of(key).forbidden_since_s == 100.0
    answers.dry_run(key, yes, 106.0)
    assert answers.of(key).forbidden_since_s == 0.0
    answers.eviction(key, no, 107.0)
    assert answers.of(key).forbidden_since_s == 107.0


@pytest.mark.parametrize("owner", [
    OwnerRef("apps/v1", "ReplicaSet", "web", "rs"),
    OwnerRef("apps.kruise.io/v1alpha1", "CloneSet", "web", "rs"),
])  # fmt: skip
def test_the_eviction_is_told_once_of_the_owner_that_outlives_the_pod(owner):
    calls = Calls(eviction=EvictionResult(EvictionOutcome.EVICTED), eviction_at_s=NOW - 0.1)
    evicted = msgspec.structs.replace(pod(), controller=owner)
    begun = migration(PHASE.EVICTING, requested=NOW - 3)
    outcome = look(begun, reservation=reservation(), calls=calls, pod=evicted)
    (told,) = [a for a in outcome.calls if a.does == "record_event"]
    assert told.reason == "PodRescheduled"
    assert told.regarding == ObjectReference(owner.kind, "web", "default", "rs", owner.api_version)
    assert told.related == ObjectReference("Pod", "web-0", "default", "u1")


@pytest.mark.parametrize(
    "seen", [None, pod(uid="other"), pod(deleting=True)], ids=["gone", "replaced", "ending"]
)
def test_a_crash_after_the_eviction_is_recognised_from_the_objects(seen):
    outcome = look(migration(PHASE.EVICTING, requested=NOW - 3), reservation=reservation(), pod=seen)
    assert outcome.status.phase is PHASE.HANDING_OVER


def too_few(settles_at_s=None):
    """Two of three pods are available, the one to be moved among them."""
    return Availability(
        workload="Deployment default/web",
        wanted=3,
        available=frozenset({pod().uid, "other"}),
        settles_at_s=settles_at_s,
    )


PROVEN = Calls(dry_run=EvictionResult(EvictionOutcome.EVICTED), dry_run_at_s=NOW, gate_proven_at_s=NOW - 3)


@pytest.mark.parametrize("requested", [0.0, NOW - 3])
def test_without_a_budget_the_eviction_waits_for_the_other_pods_of_the_workload(requested):
    def step(availability):
        m = migration(PHASE.EVICTING, requested=requested)
        return look(m, reservation=reservation(), calls=PROVEN, availability=availability)

    waiting = step(too_few(settles_at_s=NOW + 7))
    assert (waiting.status.phase, waiting.status.reason) == (PHASE.EVICTING, "TooFewAvailable")
    assert "2 of 3 pods of Deployment default/web are available" in waiting.status.message
    assert not waiting.status.eviction_requested_at_s, "without the intent no new pod is gated"
    assert "evict" not in kinds(waiting)
    assert waiting.wake_at_s == NOW + 7, "no event tells when minReadySeconds are over"
    enough = dataclasses.replace(too_few(), available=frozenset({pod().uid, "other", "third"}))
    going = step(enough)
    assert going.status.eviction_requested_at_s
    assert ("evict" in kinds(going)) is bool(requested)


def test_shortly_before_its_caller_evicts_it_without_room_a_move_goes_however_few_are_available():
    """Another pod of its workload may never become Ready."""

    def step(waited_s, settings, **fields):
        asked = {"annotations": LabelSet({ANNOTATION_ASKED_SINCE: format_seconds(NOW - waited_s)})}
        m = migration(
            PHASE.EVICTING,
            requested=NOW - 3,
            **{"requested_by": "admin", "created_at_s": NOW, **asked, **fields},
        )
        calls = {"calls": PROVEN, "availability": too_few()}
        return look(m, reservation=reservation(), settings=settings, **calls)

    limited = dataclasses.replace(SETTINGS, asked_limit_s=300.0)
    early = step(215, limited)
    assert early.status.reason == "TooFewAvailable"
    assert early.wake_at_s == NOW + 10
    assert "evict" in kinds(step(225, limited))
    assert "evict" not in kinds(step(300, SETTINGS)), "the guard refuses it without room"
    assert "evict" not in kinds(step(300, limited, requested_by="")), "nobody evicts it"


def test_an_eviction_that_may_have_happened_keeps_its_intent_while_too_few_are_available():
    lost = dataclasses.replace(
        PROVEN, eviction=EvictionResult(EvictionOutcome.UNKNOWN), eviction_at_s=NOW - 2
    )
    m = migration(PHASE.EVICTING, requested=NOW - 3)
    outcome = look(m, reservation=reservation(), calls=lost, availability=too_few())
    assert outcome.status.eviction_requested_at_s, "its replacement must be gated"
    assert "evict" not in kinds(outcome)
    again = look(m, reservation=reservation(), calls=lost)
    assert "evict" in kinds(again)


@pytest.mark.parametrize("requested", [0.0, NOW - 3])
def test_a_room_that_is_lost_before_its_status_tells_so_stops_the_eviction(requested):
    seen = {"reservation": reservation(), "room_held": False, "calls": Calls(gate_proven_at_s=NOW - 2)}
    outcome = look(migration(PHASE.EVICTING, requested=requested), **seen)
    assert outcome.status.phase is PHASE.RESERVING
    assert outcome.status.eviction_requested_at_s == 0.0
    assert "evict" not in kinds(outcome)
    waiting = look(migration(PHASE.RESERVING), **seen)
    assert waiting.status.phase is PHASE.RESERVING, "until the status tells: nobody has claimed it"


def test_a_stale_decision_disturbs_nobody():
    stale = Permission(ok=False, message="Insufficient cpu")
    outcome = look(migration(PHASE.EVICTING), reservation=reservation(), fits=stale)
    assert outcome.status.reason == "DecisionStale"
    assert "delete_reservation" in kinds(outcome)
