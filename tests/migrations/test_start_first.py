"""Mode StartFirst as a pure machine: every transition, what it waits for, how it ends."""

import itertools

import msgspec
import pytest
from start_first_objects import (
    ADOPTED,
    LABELLED,
    LABELS,
    NOW,
    PASSED,
    PHASE,
    PROVEN,
    REF,
    RS,
    deployment,
    kinds,
    look,
    migration,
    pod,
    replacement,
    replica_set,
    said,
    seen,
)

from rescheduler.migrations.observed_migration import Calls, MigrationSettings, Permission
from rescheduler.model import names
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import DisruptionBudget, Node, PodPhase

# Beginning and starting


def test_it_begins_by_creating_the_replacement():
    outcome = look(migration())
    assert said(outcome) == (PHASE.RESERVING, "Starting")
    assert kinds(outcome) == ["write_status", "start_replacement"]
    made = outcome.calls[1]
    assert made.purpose == "POST its template as pod web-1-x on node/n2 if its uid is rs"
    owner = {"metadata": {"uid": "rs"}, "spec": {"template": {"spec": {}}}}
    metadata = msgspec.json.decode(made.then(msgspec.json.encode(owner)).body)["metadata"]
    assert metadata["annotations"][names.ANNOTATION_REPLACES] == "rs/old"
    assert metadata["labels"] == {"app": "web", names.LABEL_START_FIRST: "m"}


def test_a_budget_that_allows_nothing_does_not_keep_it_from_starting():
    closed = DisruptionBudget(namespace="default", name="b", expected_pods=3, desired_healthy=3)
    assert "start_replacement" in kinds(look(migration(), budgets=(closed,)))


@pytest.mark.parametrize(("fields", "extra", "expected"), [
    ({}, {"start_first": seen(busy="default/other")}, (PHASE.PENDING, "OwnerBusy")),
    ({}, {"start_first": seen(owned=2)}, (PHASE.PENDING, "OwnerBusy")),
    ({}, {"start_first": seen(deployment=deployment(rolling_out=True))}, (PHASE.PENDING, "OwnerBusy")),
    ({}, {"start_first": seen(deployment=deployment(replicas=4))}, (PHASE.PENDING, "OwnerBusy")),
    ({}, {"start_first": seen(deployment=deployment(revision="2"))}, (PHASE.FAILED, "OwnerChanged")),
    ({}, {"fits": Permission(ok=False, message="full")}, (PHASE.PENDING, "TargetUnschedulable")),
    ({"paused": True}, {}, (PHASE.PENDING, "Paused")),
    ({}, {"budgets": tuple(DisruptionBudget(namespace="default", name=n) for n in "ab")}, (PHASE.FAILED, "MultipleBudgets")),
])  # fmt: skip
def test_what_keeps_it_from_beginning(fields, extra, expected):
    outcome = look(migration(**fields), **extra)
    assert said(outcome) == expected
    assert "start_replacement" not in kinds(outcome)


def test_a_crash_before_the_replacement_was_made_makes_it_now():
    outcome = look(migration(PHASE.RESERVING, started=False))
    assert kinds(outcome) == ["start_replacement"]


def test_a_crash_after_it_was_made_finds_it_again():
    outcome = look(
        migration(PHASE.RESERVING, started=False), start_first=seen(replacement=replacement(ready=False))
    )
    assert outcome.status.replacement == REF
    assert "start_replacement" not in kinds(outcome)


@pytest.mark.parametrize(("extra", "expected", "words"), [
    ({"start_first": seen(replacement=replacement(node="", ready=False, unschedulable_message="0/3 nodes"))}, (PHASE.RESERVING, "Starting"), "0/3 nodes"),
    ({"start_first": seen(replacement=replacement(ready=False))}, (PHASE.RESERVING, "ReplacementNotReady"), "not Ready"),
    ({"start_first": seen(replacement=replacement())}, (PHASE.EVICTING, "Checking"), "is Ready on node/n2"),
    ({"start_first": seen(replacement=None)}, (PHASE.FAILED, "ReplacementGone"), "gone"),
    ({"start_first": seen(replacement=replacement(uid="other"))}, (PHASE.FAILED, "ReplacementGone"), "gone"),
    ({"start_first": seen(replacement=replacement(deleting=True))}, (PHASE.FAILED, "ReplacementGone"), "ended"),
    ({"start_first": seen(replacement=replacement(phase=PodPhase.FAILED))}, (PHASE.FAILED, "ReplacementGone"), "ended"),
    ({"start_first": seen(replacement=replacement(labels=LABELS))}, (PHASE.FAILED, "ReplacementGone"), "another pod"),
    ({"start_first": seen(replacement=replacement(controller=RS))}, (PHASE.FAILED, "OwnerChanged"), "before the old pod was evicted"),
    ({"start_first": seen(replacement=replacement(), deployment=deployment(revision="2"))}, (PHASE.FAILED, "OwnerChanged"), "rollout"),
    ({"start_first": seen(replacement=replacement(), replica_set=None)}, (PHASE.FAILED, "OwnerChanged"), "gone"),
    ({"start_first": seen(replacement=replacement(), deployment=None)}, (PHASE.FAILED, "OwnerChanged"), "Deployment is gone"),
    ({"start_first": seen(replacement=replacement()), "target_node": None}, (PHASE.FAILED, "TargetNotFound"), "n2 is gone"),
    ({"pod": None, "start_first": seen(replacement=replacement())}, (PHASE.FAILED, "PodGone"), "does not exist"),
    ({"now": NOW + 400, "start_first": seen(replacement=replacement(ready=False))}, (PHASE.FAILED, "Timeout"), "within the ttl"),
])  # fmt: skip
def test_starting(extra, expected, words):
    outcome = look(migration(PHASE.RESERVING), **extra)
    assert said(outcome) == expected
    assert words in outcome.status.message
    assert not {"evict", "delete_reservation"} & set(kinds(outcome))


REFUSED = {"calls": Calls(start_refused="pods is forbidden"), "start_first": seen()}
CLOSED = DisruptionBudget(
    namespace="default", name="web", desired_healthy=3, expected_pods=3, current_healthy=3,
    disruptions_allowed=0,
)  # fmt: skip


def test_refused_by_the_server_it_ends_where_the_mode_was_asked_for_by_name():
    outcome = look(migration(PHASE.RESERVING, started=False, mode=MoveMode.START_FIRST), **REFUSED)
    assert said(outcome) == (PHASE.FAILED, "Forbidden")
    assert "components/start-first" in outcome.status.message
    assert not {"evict", "create_reservation"} & set(kinds(outcome))


@pytest.mark.parametrize(("default", "mode"), [
    (MoveMode.RESERVE_FIRST, MoveMode.RESERVE_FIRST),
    (MoveMode.START_FIRST, MoveMode.RESERVE_FIRST),
    (MoveMode.SOFT, MoveMode.SOFT),
])  # fmt: skip
def test_refused_by_the_server_it_reserves_first_where_the_mode_was_left_open(default, mode):
    settings = MigrationSettings(mode=default)
    outcome = look(migration(PHASE.RESERVING, started=False), settings=settings, **REFUSED)
    assert said(outcome) == (PHASE.RESERVING, "Reserving")
    assert outcome.status.mode is mode
    assert outcome.status.reservation_name == "r.move"
    (noted,) = [c for c in outcome.status.conditions if c.type == "StartFirst"]
    assert (noted.status, noted.reason) == ("False", "Forbidden")
    assert "components/start-first" in noted.message
    assert "pods is forbidden" in noted.message
    later = look(msgspec.structs.replace(migration(), status=outcome.status), start_first=None)
    (room,) = [a for a in later.calls if a.does == "create_reservation"]
    made = msgspec.json.decode(room.body)
    assert (room.key.name, made["spec"]["template"]["spec"]["nodeName"]) == ("r.move", "n2")
    assert (names.ANNOTATION_MODE in made["metadata"]["annotations"]) is (mode is MoveMode.SOFT)


def test_refused_by_the_server_no_room_is_taken_where_the_budget_never_allows_it():
    outcome = look(migration(PHASE.RESERVING, started=False), budgets=(CLOSED,), **REFUSED)
    assert said(outcome) == (PHASE.FAILED, "Forbidden")
    assert "pods is forbidden; PDB default/web allows 0 of 3" in outcome.status.message
    assert "create_reservation" not in kinds(outcome)


def test_a_bare_replica_set_waits_for_its_budget_before_anything_is_started():
    """Its replacement would not be counted, so the eviction could not pass."""
    bare = {"replica_set": replica_set(controller=None), "deployment": None}
    outcome = look(migration(), start_first=seen(**bare), budgets=(CLOSED,))
    assert said(outcome) == (PHASE.PENDING, "DisruptionBudget")
    assert not kinds(outcome)[1:], "only the words are written"
    open_one = msgspec.structs.replace(CLOSED, desired_healthy=2, disruptions_allowed=1)
    assert "start_replacement" in kinds(look(migration(), start_first=seen(**bare), budgets=(open_one,)))
    assert "start_replacement" in kinds(look(migration(), budgets=(CLOSED,)))


def test_it_must_be_ready_for_min_ready_seconds():
    slow = seen(deployment=deployment(min_ready_s=30), replacement=replacement(ready_since_s=NOW - 20))
    outcome = look(migration(PHASE.RESERVING), start_first=slow)
    assert said(outcome) == (PHASE.RESERVING, "ReplacementNotReady")
    assert outcome.wake_at_s == NOW + 11
    assert look(migration(PHASE.RESERVING), start_first=slow, now=NOW + 11).status.phase is PHASE.EVICTING


# Evicting


def test_nothing_is_evicted_before_ready_intent_and_proof():
    evicts = set()
    found = (None, replacement(), replacement(ready=False), replacement(node=""), replacement(deleting=True))
    for phase, requested, there, calls in itertools.product(PHASE, (0.0, NOW - 3), found, (PASSED, PROVEN)):
        if phase is PHASE.HANDING_OVER and not requested:
            continue
        outcome = look(
            migration(phase, requested=requested), start_first=seen(replacement=there), calls=calls
        )
        if "evict" in kinds(outcome):
            evicts.add((phase, requested > 0, found.index(there), calls is PROVEN))
    assert evicts == {(PHASE.EVICTING, True, 1, True)}


def test_the_order_of_the_eviction():
    ready = {"start_first": seen(replacement=replacement())}
    assert kinds(look(migration(PHASE.EVICTING), **ready))[-1] == "rehearse_eviction"
    intent = look(migration(PHASE.EVICTING), calls=PASSED, **ready)
    assert intent.status.eviction_requested_at_s == NOW
    assert "prove_gate" in kinds(look(migration(PHASE.EVICTING, requested=NOW), **ready))


@pytest.mark.parametrize(("observed", "expected"), [
    (seen(replacement=replacement(ready=False)), (PHASE.RESERVING, "ReplacementNotReady")),
    (seen(replacement=None), (PHASE.FAILED, "ReplacementGone")),
    (seen(replacement=replacement(), owned=4), (PHASE.EVICTING, "OwnerBusy")),
    (seen(replacement=replacement(), busy="default/other"), (PHASE.EVICTING, "OwnerBusy")),
    (seen(replacement=replacement(), deployment=deployment(rolling_out=True)), (PHASE.EVICTING, "OwnerBusy")),
    (seen(replacement=replacement(), deployment=deployment(revision="2")), (PHASE.FAILED, "OwnerChanged")),
])  # fmt: skip
@pytest.mark.parametrize("requested", [0.0, NOW - 3])
def test_what_is_seen_right_before_the_eviction_stops_it(observed, expected, requested):
    outcome = look(migration(PHASE.EVICTING, requested=requested), start_first=observed, calls=PROVEN)
    assert said(outcome) == expected
    assert outcome.status.eviction_requested_at_s == 0.0, "the gate goes off"
    assert "evict" not in kinds(outcome)


@pytest.mark.parametrize(("node", "expected"), [
    (None, (PHASE.FAILED, "TargetNotFound")),
    (Node(name="n2", deleting=True), (PHASE.FAILED, "TargetNotFound")),
    (Node(name="n2", ready=False), (PHASE.RESERVING, "ReplacementNotReady")),
])  # fmt: skip
@pytest.mark.parametrize("phase", [PHASE.RESERVING, PHASE.EVICTING])
def test_a_target_that_dies_before_the_eviction_stops_it(phase, node, expected):
    outcome = look(
        migration(phase, requested=NOW - 3),
        start_first=seen(replacement=replacement()),
        calls=PROVEN,
        target_node=node,
    )
    assert said(outcome) == expected
    assert "evict" not in kinds(outcome)


def test_a_paused_deployment_is_moved():
    still = seen(replacement=replacement(), deployment=deployment(paused=True))
    assert "evict" in kinds(
        look(migration(PHASE.EVICTING, requested=NOW - 3), start_first=still, calls=PROVEN)
    )


@pytest.mark.parametrize(
    "old", [None, pod(uid="other"), pod(deleting=True)], ids=["gone", "replaced", "ending"]
)
def test_a_crash_after_the_eviction_goes_on_with_the_adoption(old):
    outcome = look(
        migration(PHASE.EVICTING, requested=NOW - 3), pod=old, start_first=seen(replacement=replacement())
    )
    assert outcome.status.phase is PHASE.HANDING_OVER


# Adopting


@pytest.mark.parametrize(("observed", "now", "expected"), [
    (seen(replacement=LABELLED), NOW, (PHASE.HANDING_OVER, "Adopting")),
    (seen(replacement=LABELLED), NOW + 60, (PHASE.FAILED, "ReplacementPending")),
    (seen(replacement=ADOPTED, owned=4), NOW, (PHASE.HANDING_OVER, "Adopting")),
    (seen(replacement=ADOPTED, owned=4), NOW + 60, (PHASE.SUCCEEDED, "Landed")),
    (seen(replacement=ADOPTED), NOW, (PHASE.SUCCEEDED, "Landed")),
    (seen(replacement=None), NOW, (PHASE.FAILED, "ReplacementGone")),
    (seen(replacement=replacement(deleting=True)), NOW, (PHASE.FAILED, "ReplacementGone")),
    (seen(replacement=replacement(), replica_set=None), NOW, (PHASE.FAILED, "OwnerChanged")),
    (seen(replacement=replacement(), replica_set=replica_set(deleting=True)), NOW, (PHASE.FAILED, "OwnerChanged")),
])  # fmt: skip
def test_adopting(observed, now, expected):
    outcome = look(migration(PHASE.HANDING_OVER, requested=NOW - 3), pod=None, start_first=observed, now=now)
    assert said(outcome) == expected


def test_the_missing_labels_are_put_on_even_while_the_owner_moves_on():
    later = seen(replacement=replacement(ready=False), deployment=deployment(revision="2"))
    outcome = look(migration(PHASE.HANDING_OVER, requested=NOW - 3), pod=None, start_first=later)
    (patch,) = [a for a in outcome.calls if a.does == "label_replacement"]
    sent = {"metadata": {"uid": "replacement", "labels": {"pod-template-hash": "1"}}}
    assert msgspec.json.decode(patch.body) == sent


def test_the_end_tells_where_the_replacement_is():
    outcome = look(
        migration(PHASE.HANDING_OVER, requested=NOW - 3), pod=None, start_first=seen(replacement=ADOPTED)
    )
    assert (outcome.status.node_name, outcome.status.replacement, outcome.status.landed_at_s) == (
        "n2",
        REF,
        NOW,
    )


def test_hints_keep_the_workload_from_going_back():
    outcome = look(
        migration(PHASE.HANDING_OVER, requested=NOW - 3),
        pod=None,
        start_first=seen(replacement=replacement()),
        source=Node(name="n1"),
    )
    assert outcome.hint.controller_uid == "rs"
