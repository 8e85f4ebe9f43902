"""Koordinator's Reservation as it is stored and held, compared with what was asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import documents
from rescheduler.coordination.observe_reservations import with_koordinator
from rescheduler.model import names
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.reservations.koordinator import koordinator_manifest, unlike_asked
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.settings import EngineChoice, ReservationSettings

SETTINGS = ReservationSettings(engine=EngineChoice.KOORDINATOR)
OWNERS = [
    {
        "controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"},
        "object": {"namespace": "shop"},
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
TEMPLATE = {
    "spec": {
        "schedulerName": "koord-scheduler",
        "nodeName": "n2",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}],
    }
}
MOVE = {names.ANNOTATION_MIGRATION: "shop/m"}


def reservation(*, of_a_move=True, status=None, **spec):
    meta = {"annotations": MOVE if of_a_move else {}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"template": TEMPLATE, "owners": OWNERS, **spec}
    body = {**documents.own("Reservation", "r", spec, uid="u", **meta), "status": status or {}}
    return Decoder().record(Kind.RESERVATION, json.dumps(body).encode())


def stored(change=lambda held: None, *, room=None, held=None):
    """Koordinator's Reservation as the API server has it after ``change``, held on node n2."""
    found = json.loads(koordinator_manifest(room or reservation(), "n2", SETTINGS))
    found["metadata"]["uid"] = "k"
    amounts = held or {"cpu": "1500m", "memory": "1Gi"}
    found["status"] = {"phase": "Available", "nodeName": "n2", "allocatable": amounts}
    change(found)
    return Decoder().record(Kind.KOORDINATOR_RESERVATION, json.dumps(found).encode())


def put(path, value):
    def change(held):
        *way, last = path.split("/")
        at = held
        for name in way:
            at = at[int(name)] if isinstance(at, list) else at[name]
        at[last] = value

    return change


def test_what_is_stored_as_it_was_sent_is_as_asked():
    for room in (reservation(), reservation(of_a_move=False)):
        assert unlike_asked(room, stored(room=room)) == ""


CHANGES = {
    "spec.template.spec.nodeName is n3 instead of node/n2": put("spec/template/spec/nodeName", "n3"),
    "spec.template.spec.nodeName is absent instead of node/n2": put("spec/template/spec/nodeName", None),
    "status.nodeName is n3 instead of n2": put("status/nodeName", "n3"),
    "schedulerName is default-scheduler": put("spec/template/spec/schedulerName", "default-scheduler"),
    "cpu that is held is 10m instead of 1500m": put("status/allocatable", {"cpu": "10m", "memory": "1Gi"}),
    "spec.unschedulable is false instead of true": put("spec/unschedulable", False),
    "spec.allocateOnce is false instead of true": put("spec/allocateOnce", False),
    "spec.ttl is an end": put("spec/ttl", "24h"),
    "spec.owners is others": put("spec/owners/0/labelSelector/matchLabels", {"app": "crowd"}),
    "metadata.ownerReferences is none": put("metadata/ownerReferences", []),
}


@pytest.mark.parametrize("words", CHANGES)
def test_what_holds_less_than_asked_is_told(words):
    assert words in unlike_asked(reservation(), stored(CHANGES[words]))


def test_it_is_closed_for_a_move_only():
    by_hand = reservation(of_a_move=False)
    assert "spec.unschedulable is true" in unlike_asked(
        by_hand, stored(put("spec/unschedulable", True), room=by_hand)
    )


def test_who_has_written_it_is_told():
    fields = {"f:spec": {"f:unschedulable": {}}}

    def change(held):
        held["spec"]["unschedulable"] = False
        held["metadata"]["managedFields"] = [{"manager": "kyverno", "fieldsV1": fields}]

    assert "(written by kyverno)" in unlike_asked(reservation(), stored(change))


@pytest.mark.parametrize("path", ["metadata/labels/team", "metadata/annotations", "metadata/finalizers"])
def test_what_changes_no_promise_passes(path):
    value = {"labels": "a", "annotations": {"a": "b"}, "finalizers": ["example.com/audit"]}
    assert unlike_asked(reservation(), stored(put(path, value[path.split("/")[1]]))) == ""


@given(st.integers(1, 4000), st.integers(0, 4000), st.integers(1, 64), st.integers(0, 64))
def test_what_is_held_is_never_less_than_asked(cpu, held_cpu, memory, held_memory):
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    template = {
        "spec": {**TEMPLATE["spec"], "containers": [{"name": "c", "resources": {"requests": requests}}]}
    }
    room = reservation(template=template)
    held = stored(room=room, held={"cpu": f"{held_cpu}m", "memory": f"{held_memory}Mi"})
    assert bool(unlike_asked(room, held)) == (held_cpu < cpu or held_memory < memory)


def looked_at(room, held, now_s=1_800_000_000.0):
    cluster = ClusterState()
    cluster.apply(Kind.KOORDINATOR_RESERVATION, held)
    migration = PodMigration(
        name="m",
        uid="m",
        namespace="shop",
        pod_name="",
        status=MigrationStatus(phase=MigrationPhase.RESERVING),
    )
    observed = ObservedReservation(reservation=room, migration=migration)
    return step(with_koordinator(observed, cluster.snapshot(now_s), "koord-scheduler"), now_s, SETTINGS)


@pytest.mark.crossed
@pytest.mark.parametrize("words", CHANGES)
@pytest.mark.parametrize("phase", ["Pending", "Available"])
def test_the_reservation_fails_before_a_pod_claims_it(words, phase):
    status = {"phase": phase, "nodeName": "n2" if phase == "Available" else ""}
    room = reservation(status=status, ttl="0s")
    held = stored(CHANGES[words])
    found = looked_at(room, held)
    assert found.status.phase == "Failed"
    assert found.status.conditions[0].reason == "PlaceholderChanged", found.status
    deleted = [a.uid for a in found.calls if a.does == "delete_koordinator_reservation"]
    assert deleted == ["k"]
