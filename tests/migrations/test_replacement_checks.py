"""What a move does about its replacement: asks for it, notes what it knows, and never evicts for a room that is too small."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from test_migration_machine import NOW, PHASE, kinds, look, migration, pod, reservation

from rescheduler.migrations.observed_migration import Calls, ObservedCreation, Permission
from rescheduler.model.migration import MoveMode
from rescheduler.model.outcomes import CreationOutcome as Outcome
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.own_objects import condition
from rescheduler.model.records import HostPort, PodSpec
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.resources import Resources
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.replacement import Replacement
from rescheduler.replacements.templates import ReplacementSource

KEY = TemplateKey("rs", "")
PASSED = Calls(dry_run=EvictionResult(EvictionOutcome.EVICTED), dry_run_at_s=NOW)
PROVEN = Calls(gate_proven_at_s=NOW - 2)


def creation(outcome=None, *, at=NOW, **fields):
    return ObservedCreation(template=KEY, outcome=outcome, asked_at_s=at, **fields)


def spec(cpu_milli, ports=()):
    host_ports = tuple(HostPort("TCP", "0.0.0.0", port) for port in ports)  # noqa: S104 - all addresses
    return PodSpec(requests=Resources(cpu_milli=cpu_milli), host_ports=host_ports)


def coming(cpu_milli, source=ReplacementSource.DRY_RUN, **fields):
    new = msgspec.structs.replace(pod(), spec=spec(cpu_milli, **fields), node="")
    return Replacement(pod=new, source=source, origin="a dry-run creation")


def room(cpu_milli, **fields):
    return msgspec.structs.replace(reservation(**fields), template=spec(cpu_milli))


def admitted(outcome):
    return condition(outcome.status.conditions, "ReplacementAdmitted")


def test_the_replacement_is_asked_for_before_room_is_reserved():
    first = look(migration(), creation=creation(), replacement=coming(500))
    assert kinds(first) == ["try_creation"]
    (asked,) = first.calls
    assert (asked.pod, asked.template) == (pod(), KEY)
    assert "if its uid is rs" in asked.line
    then = look(migration(), creation=creation(Outcome.ADMITTED), replacement=coming(700))
    (create,) = [a for a in then.calls if a.does == "create_reservation"]
    (container,) = msgspec.json.decode(create.body)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "700m"


def test_the_changes_of_its_hand_over_are_tried_with_it_unless_they_were_a_moment_ago():
    (asked,) = look(migration(), creation=creation()).calls
    assert [call.does for call in asked.changes] == ["nominate", "remove_gate"]
    assert all(call.dry_run for call in asked.changes)
    (asked,) = look(migration(), creation=creation(changes_tried=True)).calls
    assert asked.changes == ()


@pytest.mark.parametrize(("age_s", "expected"), [(59.0, "create_reservation"), (61.0, "try_creation")])
def test_an_old_answer_is_asked_again_before_room_is_reserved(age_s, expected):
    seen = creation(Outcome.ADMITTED, at=NOW - age_s)
    assert expected in kinds(look(migration(), creation=seen, replacement=coming(500)))


@pytest.mark.parametrize(("age_s", "asks"), [(4.0, False), (6.0, True)])
@pytest.mark.parametrize("answer", [Outcome.REFUSED, Outcome.ADMITTED])
def test_no_move_ends_by_an_answer_of_before_what_refused_it_was_mended(answer, age_s, asks):
    """The API server refuses the new pod, or gives it gates of another program."""
    seen = creation(answer, at=NOW - age_s)
    outcome = look(migration(), creation=seen, movable=Permission(ok=False, message="the pod would wait"))
    assert ("try_creation" in kinds(outcome), outcome.status.phase is PHASE.FAILED) == (asks, not asks)


def test_an_answer_of_this_round_is_read_in_the_next_one():
    outcome = look(migration(), creation=ObservedCreation(template=KEY, unread=True), replacement=coming(500))
    assert (kinds(outcome), outcome.wake_at_s) == ([], NOW)


@pytest.mark.parametrize(("age_s", "asks"), [(4.0, False), (6.0, True)])
def test_the_intent_is_not_written_on_an_old_look(age_s, asks):
    seen = creation(Outcome.ADMITTED, at=NOW - age_s)
    outcome = look(
        migration(PHASE.EVICTING), creation=seen, calls=PASSED, reservation=room(500), replacement=coming(500)
    )
    assert ("try_creation" in kinds(outcome)) is asks
    assert bool(outcome.status.eviction_requested_at_s) is not asks


def evicting(requested_s):
    move = migration(PHASE.EVICTING, requested=requested_s)
    return msgspec.structs.replace(move, status=msgspec.structs.replace(move.status, reserved_at_s=NOW - 1))


@pytest.mark.parametrize(("age_s", "took_s", "proven_s", "expected"), [
    (0.4, 0.1, 1.4, "evict"),
    (0.4, 0.1, 1.0, "try_creation"),
    (0.4, 0.1, 8.0, "evict"),
    (0.6, 0.1, 8.0, "try_creation"),
    (4.0, 1.5, 8.0, "evict"),
    (6.0, 3.0, 8.0, "try_creation"),
], ids=["after the gate", "before the gate", "fresh", "old", "slow answers", "too old"])  # fmt: skip
@pytest.mark.parametrize("requested_s", [0.0, NOW - 9], ids=["with the intent", "after the intent"])
def test_nothing_is_evicted_on_a_look_that_is_older_than_gate_and_answers_make_it(
    age_s, took_s, proven_s, expected, requested_s
):
    outcome = look(
        evicting(requested_s),
        creation=creation(Outcome.ADMITTED, at=NOW - age_s, took_s=took_s),
        calls=Calls(
            gate_proven_at_s=NOW - proven_s,
            dry_run=EvictionResult(EvictionOutcome.EVICTED),
            dry_run_at_s=NOW - 1.0,
        ),
        reservation=room(500),
        replacement=coming(500),
    )
    assert [k for k in kinds(outcome) if k in ("evict", "try_creation")] == [expected]


@pytest.mark.parametrize("requested", [0.0, NOW - 3], ids=["before the intent", "after it"])
@pytest.mark.parametrize("seen", [creation(Outcome.ADMITTED), creation(Outcome.NO_RIGHT), ObservedCreation()])
def test_a_replacement_that_has_grown_ends_the_move(requested, seen):
    outcome = look(
        migration(PHASE.EVICTING, requested=requested),
        creation=seen,
        calls=PROVEN if requested else PASSED,
        reservation=room(500),
        replacement=coming(700),
    )
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "ReplacementChanged")
    assert "cpu: 500m held, 700m needed" in outcome.status.message
    assert not outcome.status.eviction_requested_at_s
    assert "evict" not in kinds(outcome)
    assert "delete_reservation" in kinds(outcome)


@pytest.mark.parametrize("requested", [0.0, NOW - 3], ids=["before the intent", "after it"])
@pytest.mark.parametrize(("reason", "state"), [
    (NoReplacement.MAY_BE_REMOVED, (PHASE.EVICTING, "OwnerBusy")),
    (NoReplacement.SURPLUS, (PHASE.FAILED, "ReplacementChanged")),
])  # fmt: skip
def test_room_is_held_while_the_controller_removes_pods_of_which_this_may_be_none(requested, reason, state):
    outcome = look(
        migration(PHASE.EVICTING, requested=requested),
        calls=PROVEN if requested else PASSED,
        reservation=room(500),
        replacement=Replacement(reason=reason, message="would not be replaced"),
    )
    assert (outcome.status.phase, outcome.status.reason) == state
    assert "evict" not in kinds(outcome)


def test_a_host_port_that_is_not_held_ends_the_move():
    outcome = look(migration(PHASE.EVICTING), reservation=room(500), replacement=coming(500, ports=(80,)))
    assert (outcome.status.reason, "host port 80/TCP" in outcome.status.message) == (
        "ReplacementChanged",
        True,
    )


def test_a_smaller_replacement_takes_its_room():
    seen = creation(Outcome.ADMITTED)
    outcome = look(
        migration(PHASE.EVICTING), creation=seen, calls=PASSED, reservation=room(500), replacement=coming(300)
    )
    assert outcome.status.eviction_requested_at_s == NOW


@pytest.mark.parametrize("phase", [PHASE.PENDING, PHASE.EVICTING])
def test_a_reservation_of_others_that_is_too_small_is_not_used(phase):
    move = migration(phase, reservation_ref="r")
    outcome = look(move, reservation=room(500), replacement=coming(700))
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "ReservationUnfit")
    assert "delete_reservation" not in kinds(outcome)


def test_mode_soft_holds_no_room_that_could_be_too_small():
    move = migration(PHASE.EVICTING)
    move = msgspec.structs.replace(move, status=msgspec.structs.replace(move.status, mode=MoveMode.SOFT))
    outcome = look(move, calls=PASSED, reservation=room(500), replacement=coming(700))
    assert outcome.status.eviction_requested_at_s == NOW


def test_a_pod_that_would_not_be_replaced_any_more_is_not_evicted():
    gone = Replacement(reason=NoReplacement.TEMPLATE_NAMES_NODE, message="would return to node/n1")
    outcome = look(migration(PHASE.EVICTING), calls=PASSED, reservation=room(500), replacement=gone)
    assert (outcome.status.reason, outcome.status.message) == (
        "ReplacementChanged",
        "pod web-0 would return to node/n1",
    )


@pytest.mark.parametrize(("phase", "requested"), [(PHASE.PENDING, 0.0), (PHASE.EVICTING, NOW - 3)])
def test_a_pod_that_admission_refuses_is_not_evicted(phase, requested):
    seen = creation(Outcome.REFUSED, message="violates PodSecurity")
    move = migration(phase, requested=requested)
    outcome = look(move, creation=seen, calls=PROVEN, reservation=room(500), replacement=coming(500))
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "NotAdmitted")
    assert "violates PodSecurity" in outcome.status.message
    assert "evict" not in kinds(outcome)
    assert (admitted(outcome).status, admitted(outcome).reason) == ("False", "NotAdmitted")


@pytest.mark.parametrize(("tries", "age_s", "asks"), [(1, 0.5, False), (1, 1.5, True), (4, 7.0, False)])
def test_nothing_is_evicted_while_the_answer_is_unknown(tries, age_s, asks):
    seen = creation(Outcome.UNANSWERED, at=NOW - age_s, message="failed calling webhook", tries=tries)
    move = migration(PHASE.EVICTING, requested=NOW - 3)
    outcome = look(move, creation=seen, calls=PROVEN, reservation=room(500), replacement=coming(500))
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.EVICTING, "ReplacementUnknown")
    assert "failed calling webhook" in outcome.status.message
    assert not outcome.status.eviction_requested_at_s, "the gate key is withdrawn"
    assert "evict" not in kinds(outcome)
    assert ("try_creation" in kinds(outcome)) is asks
    if not asks:
        assert outcome.wake_at_s == pytest.approx(seen.asked_at_s + 2.0 ** (tries - 1))


@pytest.mark.parametrize("phase", [PHASE.PENDING, PHASE.EVICTING])
def test_without_a_dry_run_nothing_is_evicted_while_the_namespace_gets_no_pods(phase):
    refused = "ReplicaSet other: failed calling webhook"
    seen = dataclasses.replace(creation(Outcome.NO_RIGHT, at=NOW - 50), refused_beside=refused)
    move = migration(phase, requested=0.0 if phase is PHASE.PENDING else NOW - 3)
    outcome = look(move, creation=seen, calls=PROVEN, reservation=room(500), replacement=coming(500))
    assert (outcome.status.phase, outcome.status.reason) == (phase, "ReplacementUnknown")
    assert refused in outcome.status.message
    assert "evict" not in kinds(outcome)
    assert not outcome.status.eviction_requested_at_s


@pytest.mark.parametrize(("seen", "words"), [
    (creation(Outcome.NO_RIGHT, at=NOW - 50, message="cannot create"), "base/dry-run-creation.yaml"),
    (creation(Outcome.NO_EVIDENCE, message="exceeded quota: q"), "exceeded quota: q"),
    (ObservedCreation(), "only for controllers of Kubernetes itself"),
])  # fmt: skip
def test_without_a_dry_run_the_move_goes_on_and_says_from_what_it_knows(seen, words):
    outcome = look(migration(), creation=seen, replacement=coming(500, ReplacementSource.SIBLING))
    assert "create_reservation" in kinds(outcome)
    noted = admitted(outcome)
    assert (noted.status, noted.reason) == ("Unknown", "Sibling")
    assert "cpu 500m" in noted.message
    assert words in noted.message


@pytest.mark.parametrize(
    ("source", "waits"), [(ReplacementSource.SIBLING, True), (ReplacementSource.DRY_RUN, False)]
)
def test_without_a_dry_run_another_move_may_evict_first(source, waits):
    outcome = look(
        migration(PHASE.EVICTING), creation=creation(Outcome.NO_RIGHT if waits else Outcome.ADMITTED),
        calls=PASSED, reservation=room(500), replacement=coming(500, source), evicts_first="default/other",
    )  # fmt: skip
    assert bool(outcome.status.eviction_requested_at_s) is not waits
    assert (outcome.status.reason == "AnotherMove") is waits


def test_a_dry_run_is_said():
    outcome = look(migration(), creation=creation(Outcome.ADMITTED), replacement=coming(500))
    noted = admitted(outcome)
    assert (noted.status, noted.reason) == ("True", "DryRun")
    assert "cpu 500m, known from a dry-run creation" in noted.message


@pytest.mark.parametrize(
    ("cpu_milli", "refused", "words"),
    [
        (700, "", "is larger than its room (cpu: 500m held, 700m needed)"),
        (500, "", "was created without the gate"),
        (500, "a policy denies it", "is not at the gate, and the API server refuses what gives it its room (a policy denies it)"),
    ],
)  # fmt: skip
def test_a_replacement_that_did_not_take_its_room_says_why(cpu_milli, refused, words):
    late = Calls(pod_gone_at_s=NOW - 6)
    new = msgspec.structs.replace(pod(uid="u9", node=""), spec=spec(cpu_milli))
    move = migration(PHASE.HANDING_OVER, requested=NOW - 9, evicted=NOW - 8)
    outcome = look(move, pod=new, reservation=room(500), ungated=new, calls=late, refused=refused)
    assert outcome.status.reason == "ReplacementUngated"
    assert words in outcome.status.message
