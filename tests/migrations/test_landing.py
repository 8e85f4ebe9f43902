"""After the eviction, and at the end: the room stays with its claimant, landing and readiness are recorded, what fails is stated."""

import msgspec
import pytest
from test_migration_machine import NOW, PHASE, kinds, look, migration, pod, reservation

from rescheduler.migrations.observed_migration import Calls
from rescheduler.model.records import OwnerRef, PodPhase
from rescheduler.model.reservation import ObjectRef, ReservationPhase

CLAIMED = (ObjectRef("default", "web-9", "u9"),)


def test_the_room_is_never_taken_from_a_pending_claimant():
    for phase in (PHASE.EVICTING, PHASE.HANDING_OVER):
        for now in (NOW, NOW + 10_000):
            m = migration(phase, requested=NOW - 5, evicted=NOW - 4 if phase is PHASE.HANDING_OVER else 0.0)
            outcome = look(m, now=now, reservation=reservation(owners=CLAIMED), pod=None)
            assert "delete_reservation" not in kinds(outcome)


def test_only_a_move_that_fails_has_an_event_at_its_end():
    """That it has succeeded its status says, for as long as an Event would be kept."""
    m = migration(PHASE.HANDING_OVER, requested=NOW - 5, evicted=NOW - 4)
    landed = look(m, reservation=reservation(ReservationPhase.SUCCEEDED, CLAIMED), pod=None)
    lost = look(m, reservation=reservation(ReservationPhase.FAILED, CLAIMED), pod=None)
    told = [[(a.reason, a.warning) for a in o.calls if a.does == "record_event"] for o in (landed, lost)]
    assert (landed.status.phase, lost.status.phase) == (PHASE.SUCCEEDED, PHASE.FAILED)
    assert told == [[], [(lost.status.reason, True)]]


def test_landing_and_readiness_are_recorded():
    m = migration(PHASE.HANDING_OVER, requested=NOW - 5, evicted=NOW - 4)
    outcome = look(m, reservation=reservation(ReservationPhase.SUCCEEDED, CLAIMED), pod=None)
    assert outcome.status.phase is PHASE.SUCCEEDED
    assert outcome.status.replacement == CLAIMED[0]
    later = msgspec.structs.replace(m, status=outcome.status)
    assert look(later, now=NOW + 5, claimant=pod(uid="u9")).status.ready_at_s == NOW + 5
    never = look(later, now=NOW + 601, claimant=pod(uid="u9", ready=False))
    assert never.status.conditions[-1].reason == "ReplacementNeverReady"


@pytest.mark.parametrize(("claimant", "words"), [
    (None, "was deleted before"),
    (pod(uid="u9", ready=False, deleting=True), "was deleted before"),
    (pod(uid="u9", ready=False).with_state(phase=PodPhase.FAILED), "failed before"),
])  # fmt: skip
def test_a_replacement_that_ends_before_it_is_ready_is_told_once(claimant, words):
    m = migration(PHASE.HANDING_OVER, requested=NOW - 5, evicted=NOW - 4)
    status = look(m, reservation=reservation(ReservationPhase.SUCCEEDED, CLAIMED), pod=None).status
    later = msgspec.structs.replace(m, status=status)
    outcome = look(later, now=NOW + 5, claimant=claimant)
    assert outcome.status.conditions[-1].reason == "ReplacementGone"
    assert words in outcome.status.conditions[-1].message
    assert [a.reason for a in outcome.calls if a.does == "record_event"] == ["ReplacementGone"]
    again = look(msgspec.structs.replace(m, status=outcome.status), now=NOW + 6, claimant=claimant)
    assert not [a for a in again.calls if a.does == "record_event"]


def test_where_the_reason_is_told_is_said_of_a_replacement_that_was_not_created():
    m = migration(PHASE.HANDING_OVER, requested=NOW - 95, evicted=NOW - 90)
    owner = OwnerRef("apps/v1", "StatefulSet", "db", "u")
    missing = {"reservation": reservation(), "pod": None, "calls": Calls(pod_gone_at_s=NOW - 61)}
    words = "no replacement claimed the room within 60 s"
    assert look(m, **missing).status.message == words
    where = "; why none was created: kubectl describe statefulset db -n default"
    assert look(m, controller=owner, **missing).status.message == words + where


@pytest.mark.parametrize(("since", "phase"), [(NOW - 4, PHASE.HANDING_OVER), (NOW - 6, PHASE.FAILED)])
def test_a_controller_with_all_its_pods_is_waited_for_as_long_as_it_may_be_scaled_up_again(since, phase):
    m = migration(PHASE.HANDING_OVER, requested=NOW - 95, evicted=since)
    calls, why = Calls(pod_gone_at_s=since), "ReplicaSet default/web is scaled to 2 and has 2 pods"
    outcome = look(m, reservation=reservation(), pod=None, calls=calls, complete=why)
    assert outcome.status.phase is phase
    if phase is PHASE.FAILED:
        assert (outcome.status.reason, outcome.status.message) == ("ReplacementMissing", why)
    else:
        assert outcome.wake_at_s == since + 5


@pytest.mark.parametrize(("gone", "ungated", "reason"), [
    (NOW - 61, None, "ReplacementMissing"),
    (NOW - 6, pod(uid="u9"), "ReplacementUngated"),
    (NOW - 1, None, ""),
])  # fmt: skip
def test_a_replacement_that_does_not_come_is_a_stated_end(gone, ungated, reason):
    m = migration(PHASE.HANDING_OVER, requested=NOW - 95, evicted=NOW - 90)
    calls = Calls(pod_gone_at_s=gone)
    outcome = look(m, reservation=reservation(), pod=None, calls=calls, ungated=ungated)
    assert (outcome.status.phase is PHASE.FAILED) == bool(reason)
    if reason:
        assert outcome.status.reason == reason
        assert "delete_reservation" in kinds(outcome)
