"""Mode StartFirst as a pure machine: every transition, what it waits for, how it ends, and the rules behind it."""

from __future__ import annotations

import itertools
from dataclasses import replace as but

import msgspec
import pytest

from rescheduler.migrations import actions as act
from rescheduler.migrations.machine import step
from rescheduler.migrations.observed import Calls, MigrationSettings, ObservedMigration, ObservedSwap, Verdict
from rescheduler.migrations.start_first_orphan import (
    is_orphan,
    orphan_manifest,
    orphan_name,
    replaced_by,
    replaces,
)
from rescheduler.migrations.start_first_strays import stray_actions
from rescheduler.model import names
from rescheduler.model.eviction import EvictionOutcome, EvictionResult
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.records import (
    DisruptionBudget,
    Node,
    ObjectKey,
    OwnerRef,
    PersistentVolumeClaim,
    Pod,
    PodPhase,
    PodSpec,
    PodVolume,
    VolumeKind,
    Workload,
)
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.planning.side_by_side import declared, orphan_labels, refusal
from rescheduler.reservations.actions import DeleteReservation, RecordEvent

NOW = 1_000.0
PHASE = MigrationPhase
SETTINGS = MigrationSettings(gate_settle_s=0.0)
RS = OwnerRef("apps/v1", "ReplicaSet", "web-1", "rs")
LABELS = LabelSet({"app": "web", "pod-template-hash": "1"})
REF = ObjectRef("default", "web-1-x", "orphan")
PASSED = Calls(dry_run=EvictionResult(EvictionOutcome.EVICTED), dry_run_at_s=NOW)
PROVEN = Calls(gate_proven_at_s=NOW - 2, gate_asked_at_s=NOW - 2)


def selector(**labels):
    return LabelSelector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels.items()))


def deployment(**fields):
    base = {"replicas": 3, "surge": True, "revision": "1", "selector": selector(app="web")}
    return Workload(kind="Deployment", namespace="default", name="web", uid="d", **{**base, **fields})


def replica_set(**fields):
    base = {
        "replicas": 3,
        "revision": "1",
        "controller": OwnerRef("apps/v1", "Deployment", "web", "d"),
        "selector": selector(app="web", **{"pod-template-hash": "1"}),
        "template": PodSpec(),
        "template_labels": LABELS,
    }
    return Workload(kind="ReplicaSet", namespace="default", name="web-1", uid="rs", **{**base, **fields})


def pod(**fields):
    base = {"uid": "old", "node": "n1", "ready": True, "phase": PodPhase.RUNNING, "labels": LABELS}
    base = {"spec": PodSpec(), "controller": RS, **base}
    return Pod(namespace="default", name="web-1-a", **{**base, **fields})


def orphan(**fields):
    base = {
        "uid": "orphan",
        "node": "n2",
        "ready": True,
        "ready_since_s": NOW - 100,
        "phase": PodPhase.RUNNING,
        "labels": LabelSet({"app": "web", names.LABEL_START_FIRST: "m"}),
        "annotations": LabelSet({names.ANNOTATION_REPLACES: replaces("rs", "old")}),
    }
    return Pod(namespace="default", name="web-1-x", spec=PodSpec(), **{**base, **fields})


def swap(**fields):
    base = {
        "declared": True,
        "replica_set": replica_set(),
        "deployment": deployment(),
        "owned": 3,
        "orphan_name": "web-1-x",
    }
    return ObservedSwap(**{**base, **fields})


def migration(phase=PHASE.PENDING, *, requested=0.0, started=True, **fields):
    begun = phase is not PHASE.PENDING
    status = MigrationStatus(
        phase=phase,
        source_node="n1" if begun else "",
        node_name="n2" if begun else "",
        mode=MoveMode.START_FIRST if begun else MoveMode.RESERVE_FIRST,
        replacement=REF if begun and started else None,
        eviction_requested_at_s=requested,
        evicted_at_s=NOW - 1 if phase is PHASE.HANDING_OVER else 0.0,
    )
    base = {"pod_uid": "old", "target_node": "n2", "created_at_s": NOW - 10}
    return PodMigration(
        namespace="default",
        name="m",
        uid="m",
        resource_version="3",
        pod_name="web-1-a",
        status=status,
        **{**base, **fields},
    )


def look(m, *, now=NOW, settings=SETTINGS, **fields):
    base = {"pod": pod(), "target": "n2", "target_node": Node(name="n2"), "swap": swap()}
    return step(ObservedMigration(migration=m, reservation_name="r", **{**base, **fields}), now, settings)


def kinds(outcome):
    return [type(a) for a in outcome.actions if not isinstance(a, RecordEvent)]


def said(outcome):
    return outcome.status.phase, outcome.status.reason


# Mode


@pytest.mark.parametrize(
    ("asked", "default", "declares", "mode"),
    [
        (MoveMode.AUTO, MoveMode.RESERVE_FIRST, True, MoveMode.START_FIRST),
        (MoveMode.AUTO, MoveMode.RESERVE_FIRST, False, MoveMode.RESERVE_FIRST),
        (MoveMode.AUTO, MoveMode.START_FIRST, False, MoveMode.RESERVE_FIRST),
        (MoveMode.START_FIRST, MoveMode.RESERVE_FIRST, True, MoveMode.START_FIRST),
        (MoveMode.RESERVE_FIRST, MoveMode.START_FIRST, True, MoveMode.RESERVE_FIRST),
    ],
)
def test_only_a_declared_mode_is_chosen(asked, default, declares, mode):
    settings = MigrationSettings(default_mode=default)
    outcome = look(migration(mode=asked), settings=settings, swap=swap(declared=declares))
    assert (outcome.status.phase, outcome.status.mode) == (PHASE.RESERVING, mode)


def test_auto_reserves_first_where_two_pods_may_not_stand_side_by_side():
    outcome = look(migration(), swap=swap(eligible=Verdict(ok=False, message="no")))
    assert act.CreateReservation in kinds(outcome)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (None, "must be declared"),
        (swap(declared=False), "rescheduler.dev/mode: StartFirst"),
        (swap(eligible=Verdict(ok=False, message="Recreate")), "Recreate"),
    ],
)
def test_asked_for_by_name_it_is_refused_with_the_reason(observed, words):
    outcome = look(migration(mode=MoveMode.START_FIRST), swap=observed)
    assert said(outcome) == (PHASE.FAILED, "ModeNotSupported")
    assert words in outcome.status.message


@pytest.mark.parametrize(
    ("on_deployment", "on_set", "by_default", "expected"),
    [
        ({}, {}, False, False),
        ({}, {}, True, True),
        ({"rescheduler.dev/mode": "StartFirst"}, {}, False, True),
        ({}, {"rescheduler.dev/mode": "StartFirst"}, False, True),
        (
            {"rescheduler.dev/mode": "ReserveFirst"},
            {"rescheduler.dev/mode": "StartFirst"},
            True,
            False,
        ),
    ],
)
def test_who_declares(on_deployment, on_set, by_default, expected):
    owners = replica_set(annotations=LabelSet(on_set)), deployment(annotations=LabelSet(on_deployment))
    assert declared(*owners, by_default=by_default) is expected


# Eligibility


def claim(*modes):
    return PersistentVolumeClaim(namespace="default", name="c", access_modes=modes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"set_": replica_set(controller=None), "above": None, "near": ()}, ""),
        ({"who": OwnerRef("apps/v1", "StatefulSet", "db", "s")}, "belongs to StatefulSet"),
        ({"set_": None}, "not known"),
        ({"set_": replica_set(template=None)}, "cannot be read"),
        ({"set_": replica_set(template=PodSpec(gates=("g",)))}, "scheduling gates"),
        ({"above": deployment(surge=False)}, "no surge"),
        ({"set_": replica_set(controller=OwnerRef("x/v1", "Rollout", "r", "r")), "above": None}, "Rollout"),
        (
            {
                "near": (
                    Workload(
                        kind="ReplicaSet",
                        namespace="default",
                        name="b",
                        uid="b",
                        selector=selector(app="web"),
                    ),
                )
            },
            "would adopt",
        ),
        ({"volume": (VolumeKind.CLAIM, claim("ReadWriteOnce"))}, "two nodes (ReadWriteOnce)"),
        ({"volume": (VolumeKind.CLAIM, claim("ReadWriteOncePod"))}, "two nodes"),
        ({"volume": (VolumeKind.CLAIM, None)}, "two nodes (unknown)"),
        ({"volume": (VolumeKind.CLAIM, claim("ReadWriteMany"))}, ""),
        ({"volume": (VolumeKind.AWS, None)}, "one node only"),
        ({"volume": (VolumeKind.EPHEMERAL, None)}, ""),
    ],
)
def test_who_may_stand_side_by_side(change, words):
    kind, found = change.get("volume", (None, None))
    volumes = (PodVolume(kind=kind, source="c"),) if kind else ()
    old = msgspec.structs.replace(pod(), spec=PodSpec(volumes=volumes), controller=change.get("who", RS))
    set_, above = change.get("set_", replica_set()), change.get("above", deployment())
    near = change.get("near", (replica_set(), deployment()))
    said = refusal(old, set_, above, lambda _: found, near)
    assert bool(said) is bool(words)
    assert words in said


# The replacement


def test_the_replacement_is_the_template_pinned_and_without_what_its_set_selects_by():
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"inject": "yes"}},
        "spec": {
            "nodeName": "elsewhere",
            "containers": [{"name": "c", "image": "x"}],
            "affinity": {
                "podAntiAffinity": {"x": 1},
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [1],
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [1]}, {"matchFields": [2]}]
                    },
                },
            },
        },
    }
    labels = orphan_labels(LABELS, "m", alone=False)
    made = orphan_manifest(
        template,
        key=ObjectKey("default", "web-1-x"),
        migration=ObjectKey("default", "m"),
        labels=labels,
        says=replaces("rs", "old"),
        node="n2",
    )
    pin = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    affinity = made["spec"]["affinity"]
    assert affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ] == [
        {"matchExpressions": [1], "matchFields": [pin]},
        {"matchFields": [2, pin]},
    ]
    assert affinity["podAntiAffinity"] == {"x": 1}
    assert "nodeName" not in made["spec"]
    assert made["metadata"]["labels"] == {"app": "web", names.LABEL_START_FIRST: "m"}
    assert made["metadata"]["annotations"]["inject"] == "yes"
    assert "ownerReferences" not in made["metadata"]
    assert template["spec"]["nodeName"] == "elsewhere", "what was read is not changed"


def test_without_a_deployment_only_our_own_label_keeps_it_apart():
    assert orphan_labels(LABELS, "m", alone=True) == {names.LABEL_START_FIRST: "m"}


@pytest.mark.parametrize("owner", ["web", "a" * 253, "a" * 56 + ".-"])
def test_names_are_valid_and_differ_by_move(owner):
    name = orphan_name(owner, "m")
    assert name == orphan_name(owner, "m") != orphan_name(owner, "n")
    assert len(name) <= 64
    assert not {"-", "."} & {name.rsplit("-", 1)[0][-1]}


def test_of_whom_it_takes_the_place_is_read_back():
    assert replaced_by(orphan()) == ("rs", "old")
    assert replaced_by(pod()) == ("", "")


# Beginning and starting


def test_it_begins_by_creating_the_replacement():
    outcome = look(migration())
    assert said(outcome) == (PHASE.RESERVING, "Starting")
    assert kinds(outcome) == [act.WriteMigrationStatus, act.StartReplacement]
    made = outcome.actions[1]
    assert (made.name, made.node, made.owner.uid, made.replaces) == ("web-1-x", "n2", "rs", "rs/old")
    assert dict(made.labels) == {"app": "web", names.LABEL_START_FIRST: "m"}


def test_a_budget_that_allows_nothing_does_not_keep_it_from_starting():
    closed = DisruptionBudget(namespace="default", name="b", expected_pods=3, desired_healthy=3)
    assert act.StartReplacement in kinds(look(migration(), budgets=(closed,)))


@pytest.mark.parametrize(
    ("fields", "extra", "expected"),
    [
        ({}, {"swap": swap(busy="default/other")}, (PHASE.PENDING, "OwnerBusy")),
        ({}, {"swap": swap(owned=2)}, (PHASE.PENDING, "OwnerBusy")),
        ({}, {"swap": swap(deployment=deployment(rolling_out=True))}, (PHASE.PENDING, "OwnerBusy")),
        ({}, {"swap": swap(deployment=deployment(replicas=4))}, (PHASE.PENDING, "OwnerBusy")),
        ({}, {"swap": swap(deployment=deployment(revision="2"))}, (PHASE.FAILED, "OwnerChanged")),
        ({}, {"fits": Verdict(ok=False, message="full")}, (PHASE.PENDING, "TargetUnschedulable")),
        ({"paused": True}, {}, (PHASE.PENDING, "Paused")),
        (
            {},
            {"budgets": tuple(DisruptionBudget(namespace="default", name=n) for n in "ab")},
            (PHASE.FAILED, "MultipleBudgets"),
        ),
    ],
)
def test_what_keeps_it_from_beginning(fields, extra, expected):
    outcome = look(migration(**fields), **extra)
    assert said(outcome) == expected
    assert act.StartReplacement not in kinds(outcome)


def test_a_crash_before_the_replacement_was_made_makes_it_now():
    outcome = look(migration(PHASE.RESERVING, started=False))
    assert kinds(outcome) == [act.StartReplacement]


def test_a_crash_after_it_was_made_finds_it_again():
    outcome = look(migration(PHASE.RESERVING, started=False), swap=swap(orphan=orphan(ready=False)))
    assert outcome.status.replacement == REF
    assert act.StartReplacement not in kinds(outcome)


@pytest.mark.parametrize(
    ("extra", "expected", "words"),
    [
        (
            {"swap": swap(orphan=orphan(node="", ready=False, unschedulable_message="0/3 nodes"))},
            (PHASE.RESERVING, "Starting"),
            "0/3 nodes",
        ),
        ({"swap": swap(orphan=orphan(ready=False))}, (PHASE.RESERVING, "ReplacementNotReady"), "not Ready"),
        ({"swap": swap(orphan=orphan())}, (PHASE.EVICTING, "Checking"), "is Ready on node n2"),
        ({"swap": swap(orphan=None)}, (PHASE.FAILED, "ReplacementGone"), "gone"),
        ({"swap": swap(orphan=orphan(uid="other"))}, (PHASE.FAILED, "ReplacementGone"), "gone"),
        ({"swap": swap(orphan=orphan(deleting=True))}, (PHASE.FAILED, "ReplacementGone"), "ended"),
        ({"swap": swap(orphan=orphan(phase=PodPhase.FAILED))}, (PHASE.FAILED, "ReplacementGone"), "ended"),
        ({"swap": swap(orphan=orphan(labels=LABELS))}, (PHASE.FAILED, "ReplacementGone"), "another pod"),
        ({"swap": swap(orphan=orphan(controller=RS))}, (PHASE.FAILED, "OwnerChanged"), "too early"),
        (
            {"swap": swap(orphan=orphan(), deployment=deployment(revision="2"))},
            (PHASE.FAILED, "OwnerChanged"),
            "rollout",
        ),
        ({"swap": swap(orphan=orphan(), replica_set=None)}, (PHASE.FAILED, "OwnerChanged"), "gone"),
        (
            {"swap": swap(orphan=orphan(), deployment=None)},
            (PHASE.FAILED, "OwnerChanged"),
            "Deployment is gone",
        ),
        (
            {"swap": swap(orphan=orphan()), "target_node": None},
            (PHASE.FAILED, "TargetNotFound"),
            "n2 is gone",
        ),
        ({"pod": None, "swap": swap(orphan=orphan())}, (PHASE.FAILED, "PodGone"), "does not exist"),
        (
            {"now": NOW + 400, "swap": swap(orphan=orphan(ready=False))},
            (PHASE.FAILED, "Timeout"),
            "time is over",
        ),
    ],
)
def test_starting(extra, expected, words):
    outcome = look(migration(PHASE.RESERVING), **extra)
    assert said(outcome) == expected
    assert words in outcome.status.message
    assert not {act.Evict, DeleteReservation} & set(kinds(outcome))


REFUSED = {"calls": Calls(start_refused="pods is forbidden"), "swap": swap()}
CLOSED = DisruptionBudget(
    namespace="default",
    name="web",
    desired_healthy=3,
    expected_pods=3,
    current_healthy=3,
    disruptions_allowed=0,
)


def test_refused_by_the_server_it_ends_where_the_mode_was_asked_for_by_name():
    outcome = look(migration(PHASE.RESERVING, started=False, mode=MoveMode.START_FIRST), **REFUSED)
    assert said(outcome) == (PHASE.FAILED, "Forbidden")
    assert "components/start-first" in outcome.status.message
    assert not {act.Evict, act.CreateReservation} & set(kinds(outcome))


@pytest.mark.parametrize(
    ("default", "mode"),
    [
        (MoveMode.RESERVE_FIRST, MoveMode.RESERVE_FIRST),
        (MoveMode.START_FIRST, MoveMode.RESERVE_FIRST),
        (MoveMode.SOFT, MoveMode.SOFT),
    ],
)
def test_refused_by_the_server_it_reserves_first_where_the_mode_was_left_open(default, mode):
    settings = MigrationSettings(default_mode=default)
    outcome = look(migration(PHASE.RESERVING, started=False), settings=settings, **REFUSED)
    assert said(outcome) == (PHASE.RESERVING, "Reserving")
    assert outcome.status.mode is mode
    assert outcome.status.reservation_name == "r"
    (noted,) = [c for c in outcome.status.conditions if c.type == "StartFirst"]
    assert (noted.status, noted.reason) == ("False", "Forbidden")
    assert "components/start-first" in noted.message
    assert "pods is forbidden" in noted.message
    later = look(msgspec.structs.replace(migration(), status=outcome.status), swap=None)
    (room,) = [a for a in later.actions if isinstance(a, act.CreateReservation)]
    assert (room.name, room.node, room.soft) == ("r", "n2", mode is MoveMode.SOFT)


def test_refused_by_the_server_no_room_is_taken_where_the_budget_never_allows_it():
    outcome = look(migration(PHASE.RESERVING, started=False), budgets=(CLOSED,), **REFUSED)
    assert said(outcome) == (PHASE.FAILED, "Forbidden")
    assert "pods is forbidden; PDB web allows 0 of 3" in outcome.status.message
    assert act.CreateReservation not in kinds(outcome)


def test_a_bare_replica_set_waits_for_its_budget_before_anything_is_started():
    """Its replacement would not be counted, so the eviction could not pass."""
    bare = {"replica_set": replica_set(controller=None), "deployment": None}
    outcome = look(migration(), swap=swap(**bare), budgets=(CLOSED,))
    assert said(outcome) == (PHASE.PENDING, "DisruptionBudget")
    assert not kinds(outcome)[1:], "only the words are written"
    open_one = msgspec.structs.replace(CLOSED, desired_healthy=2, disruptions_allowed=1)
    assert act.StartReplacement in kinds(look(migration(), swap=swap(**bare), budgets=(open_one,)))
    assert act.StartReplacement in kinds(look(migration(), budgets=(CLOSED,)))


def test_it_must_be_ready_for_min_ready_seconds():
    slow = swap(deployment=deployment(min_ready_s=30), orphan=orphan(ready_since_s=NOW - 20))
    outcome = look(migration(PHASE.RESERVING), swap=slow)
    assert said(outcome) == (PHASE.RESERVING, "ReplacementNotReady")
    assert outcome.wake_at_s == NOW + 11
    assert look(migration(PHASE.RESERVING), swap=slow, now=NOW + 11).status.phase is PHASE.EVICTING


# Evicting


def test_nothing_is_evicted_before_ready_intent_and_proof():
    evicts = set()
    found = (None, orphan(), orphan(ready=False), orphan(node=""), orphan(deleting=True))
    for phase, requested, there, calls in itertools.product(PHASE, (0.0, NOW - 3), found, (PASSED, PROVEN)):
        if phase is PHASE.HANDING_OVER and not requested:
            continue
        outcome = look(migration(phase, requested=requested), swap=swap(orphan=there), calls=calls)
        if act.Evict in kinds(outcome):
            evicts.add((phase, requested > 0, found.index(there), calls is PROVEN))
    assert evicts == {(PHASE.EVICTING, True, 1, True)}


def test_the_order_of_the_eviction():
    ready = {"swap": swap(orphan=orphan())}
    assert kinds(look(migration(PHASE.EVICTING), **ready))[-1] is act.DryRunEvict
    intent = look(migration(PHASE.EVICTING), calls=PASSED, **ready)
    assert intent.status.eviction_requested_at_s == NOW
    assert act.ProveGate in kinds(look(migration(PHASE.EVICTING, requested=NOW), **ready))


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (swap(orphan=orphan(ready=False)), (PHASE.RESERVING, "ReplacementNotReady")),
        (swap(orphan=None), (PHASE.FAILED, "ReplacementGone")),
        (swap(orphan=orphan(), owned=4), (PHASE.EVICTING, "OwnerBusy")),
        (swap(orphan=orphan(), busy="default/other"), (PHASE.EVICTING, "OwnerBusy")),
        (swap(orphan=orphan(), deployment=deployment(rolling_out=True)), (PHASE.EVICTING, "OwnerBusy")),
        (swap(orphan=orphan(), deployment=deployment(revision="2")), (PHASE.FAILED, "OwnerChanged")),
    ],
)
@pytest.mark.parametrize("requested", [0.0, NOW - 3])
def test_what_is_seen_right_before_the_eviction_stops_it(observed, expected, requested):
    outcome = look(migration(PHASE.EVICTING, requested=requested), swap=observed, calls=PROVEN)
    assert said(outcome) == expected
    assert outcome.status.eviction_requested_at_s == 0.0, "the gate goes off"
    assert act.Evict not in kinds(outcome)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (None, (PHASE.FAILED, "TargetNotFound")),
        (Node(name="n2", deleting=True), (PHASE.FAILED, "TargetNotFound")),
        (Node(name="n2", ready=False), (PHASE.RESERVING, "ReplacementNotReady")),
    ],
)
@pytest.mark.parametrize("phase", [PHASE.RESERVING, PHASE.EVICTING])
def test_a_target_that_dies_before_the_eviction_stops_it(phase, node, expected):
    outcome = look(
        migration(phase, requested=NOW - 3), swap=swap(orphan=orphan()), calls=PROVEN, target_node=node
    )
    assert said(outcome) == expected
    assert act.Evict not in kinds(outcome)


def test_a_paused_deployment_is_moved():
    still = swap(orphan=orphan(), deployment=deployment(paused=True))
    assert act.Evict in kinds(look(migration(PHASE.EVICTING, requested=NOW - 3), swap=still, calls=PROVEN))


@pytest.mark.parametrize(
    "old", [None, pod(uid="other"), pod(deleting=True)], ids=["gone", "replaced", "ending"]
)
def test_a_crash_after_the_eviction_goes_on_with_the_adoption(old):
    outcome = look(migration(PHASE.EVICTING, requested=NOW - 3), pod=old, swap=swap(orphan=orphan()))
    assert outcome.status.phase is PHASE.HANDING_OVER


# Adopting


ADOPTED = orphan(controller=RS, labels=LabelSet({**LABELS, names.LABEL_START_FIRST: "m"}))
LABELLED = orphan(labels=ADOPTED.labels)


@pytest.mark.parametrize(
    ("observed", "now", "expected"),
    [
        (swap(orphan=LABELLED), NOW, (PHASE.HANDING_OVER, "Adopting")),
        (swap(orphan=LABELLED), NOW + 60, (PHASE.FAILED, "ReplacementPending")),
        (swap(orphan=ADOPTED, owned=4), NOW, (PHASE.HANDING_OVER, "Adopting")),
        (swap(orphan=ADOPTED, owned=4), NOW + 60, (PHASE.SUCCEEDED, "Landed")),
        (swap(orphan=ADOPTED), NOW, (PHASE.SUCCEEDED, "Landed")),
        (swap(orphan=None), NOW, (PHASE.FAILED, "ReplacementGone")),
        (swap(orphan=orphan(deleting=True)), NOW, (PHASE.FAILED, "ReplacementGone")),
        (swap(orphan=orphan(), replica_set=None), NOW, (PHASE.FAILED, "OwnerChanged")),
        (swap(orphan=orphan(), replica_set=replica_set(deleting=True)), NOW, (PHASE.FAILED, "OwnerChanged")),
    ],
)
def test_adopting(observed, now, expected):
    outcome = look(migration(PHASE.HANDING_OVER, requested=NOW - 3), pod=None, swap=observed, now=now)
    assert said(outcome) == expected


def test_the_missing_labels_are_put_on_even_while_the_owner_moves_on():
    later = swap(orphan=orphan(ready=False), deployment=deployment(revision="2"))
    outcome = look(migration(PHASE.HANDING_OVER, requested=NOW - 3), pod=None, swap=later)
    (patch,) = [a for a in outcome.actions if isinstance(a, act.LabelReplacement)]
    assert (patch.uid, dict(patch.labels)) == ("orphan", {"pod-template-hash": "1"})


def test_the_end_tells_where_the_replacement_is():
    outcome = look(migration(PHASE.HANDING_OVER, requested=NOW - 3), pod=None, swap=swap(orphan=ADOPTED))
    assert (outcome.status.node_name, outcome.status.replacement, outcome.status.landed_at_s) == (
        "n2",
        REF,
        NOW,
    )


def test_hints_keep_the_workload_from_going_back():
    outcome = look(
        migration(PHASE.HANDING_OVER, requested=NOW - 3),
        pod=None,
        swap=swap(orphan=orphan()),
        source=Node(name="n1"),
    )
    (hint,) = [a for a in outcome.actions if isinstance(a, act.WriteAvoidHints)]
    assert hint.entries[0].controller_uid == "rs"


# Replacements that nobody cares for


OWNERS = (replica_set(),)


def strays(mine=None, *, moves=(), owners=OWNERS, pods=()):
    found = stray_actions(
        [mine or orphan()],
        {m.key: m for m in moves},
        {w.uid: w for w in owners},
        lambda uid: [p for p in pods if p.controller.uid == uid],
    )
    return [type(action) for _, action in found]


OTHERS = tuple(pod(uid=f"p{i}") for i in range(2))
GATED = pod(uid="gated", node="", spec=PodSpec(gates=(names.GATE,)))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"moves": (migration(PHASE.RESERVING),)}, []),
        ({"moves": (migration(PHASE.FAILED),), "pods": (*OTHERS, pod())}, [act.RemoveReplacement]),
        ({"pods": (*OTHERS, pod())}, [act.RemoveReplacement]),
        ({"pods": OTHERS}, [act.LabelReplacement]),
        ({"pods": (*OTHERS, GATED)}, [act.LabelReplacement]),
        ({"pods": (*OTHERS, pod(deleting=True))}, [act.LabelReplacement]),
        ({"pods": (*OTHERS, pod(uid="new"))}, [act.RemoveReplacement]),
        ({"mine": orphan(ready=False), "pods": OTHERS}, [act.RemoveReplacement]),
        ({"mine": orphan(phase=PodPhase.FAILED), "pods": OTHERS}, [act.RemoveReplacement]),
        ({"mine": orphan(deleting=True)}, []),
        ({"mine": LABELLED}, []),
        ({"mine": LABELLED, "owners": ()}, [act.RemoveReplacement]),
        ({"mine": ADOPTED, "owners": ()}, []),
        ({"owners": ()}, [act.RemoveReplacement]),
        ({"mine": orphan(annotations=LabelSet())}, [act.RemoveReplacement]),
    ],
)
def test_a_replacement_without_a_move_is_adopted_or_removed(fields, expected):
    assert strays(**fields) == expected


def test_pods_of_others_are_no_orphans():
    assert not is_orphan(pod())
    assert not is_orphan(but_without_label())


def but_without_label():
    return msgspec.structs.replace(orphan(), labels=LABELS)


def test_a_swap_serves_only_what_asks_for_it():
    good = swap()
    assert [good.serves(mode) for mode in MoveMode] == [
        mode in (MoveMode.AUTO, MoveMode.START_FIRST) for mode in MoveMode
    ]
    assert not but(good, declared=False).serves(MoveMode.AUTO)
