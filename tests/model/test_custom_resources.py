"""What is written of Reservations and PodMigrations reads back as the same record."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.bounds import OVERSIZED_TEMPLATE
from rescheduler.model.decode import Decoder, UndecodableError
from rescheduler.model.decode.wire_form import encode, encode_label_selector, manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.reservations.validation import refusal

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}, "namespace": "shop"},
    "spec": {"nodeName": "n7", "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
}  # fmt: skip
OWNERS = (
    ReservationOwner(controller=ControllerRef("apps/v1", "ReplicaSet", "web-abc", "u1", "shop")),
    ReservationOwner(object=ObjectRef("shop", "web-1", "u2")),
    ReservationOwner(
        label_selector=LabelSelector(
            (
                Requirement("app", Operator.IN, ("web",)),
                Requirement("tier", Operator.NOT_IN, ("a", "b")),
                Requirement("x", Operator.EXISTS),
            )
        )
    ),
)


def reservation_manifest(name="a", template=TEMPLATE, owners=OWNERS, **more):
    return manifest(Reservation(name=name, template_raw=msgspec.json.encode(template), owners=owners, **more))


def migration_manifest(**more):
    return manifest(PodMigration(namespace="shop", name="m", pod_name="web-1", **more))


def read(kind, written):
    return Decoder().record(kind, msgspec.json.encode(written))


def test_a_reservation_reads_back_with_all_its_fields():
    written = reservation_manifest(
        "web", ttl_s=300, pre_allocation=True, allocate_once=False, labels=LabelSet({"a": "b"}),
        annotations=LabelSet({"rescheduler.dev/migration": "shop/m"}), finalizers=("rescheduler.dev/room",),
    )  # fmt: skip
    record = read(Kind.RESERVATION, written)
    assert written["spec"]["ttl"] == "5m0s"
    assert (record.name, record.ttl_s, record.expires_at_s) == ("web", 300.0, None)
    assert record.owners == OWNERS
    assert (record.pre_allocation, record.allocate_once) == (True, False)
    assert record.annotations["rescheduler.dev/migration"] == "shop/m"
    assert record.finalizers == ("rescheduler.dev/room",)
    assert record.template.requests == Resources(cpu_milli=500, memory_bytes=1 << 30)
    assert (record.template_node, record.template_namespace) == ("n7", "shop")
    assert record.template_labels == LabelSet({"app": "web"})
    assert msgspec.json.decode(record.template_raw) == TEMPLATE
    assert record.status == ReservationStatus()


def test_ttl_zero_is_kept_apart_from_no_ttl():
    never = reservation_manifest(ttl_s=0)
    unsaid = reservation_manifest()
    assert read(Kind.RESERVATION, never).ttl_s == 0.0
    assert read(Kind.RESERVATION, unsaid).ttl_s is None
    assert read(Kind.RESERVATION, unsaid).allocate_once is True


def test_a_template_that_makes_no_sense_is_none_but_kept_as_it_is():
    for spec in (
        {},
        {"containers": []},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]},
    ):
        written = reservation_manifest(template={"spec": spec})
        record = read(Kind.RESERVATION, written)
        assert record.template is None
        assert msgspec.json.decode(record.template_raw) == {"spec": spec}


@pytest.mark.parametrize(
    ("field", "value"),
    [("ttl", "soon"), ("ttl", 5), ("expires", "tomorrow"), ("owners", "all"), ("allocateOnce", "yes")],
)
def test_a_damaged_reservation_is_refused_with_its_name(field, value):
    written = reservation_manifest("web")
    written["spec"][field] = value
    with pytest.raises(UndecodableError, match="Reservation web: "):
        read(Kind.RESERVATION, written)


texts = st.text("abc-", min_size=1, max_size=5)
times = st.one_of(st.just(0.0), st.integers(1, 4_000_000_000_000_000).map(lambda micros: micros / 1e6))
conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(["Scheduled", "Ready"]),
        status=st.sampled_from(["True", "False", "Unknown"]),
        reason=texts,
        message=st.text(max_size=9),
        last_probe_time=st.just("2027-01-01T00:00:00Z"),
        last_transition_time=st.just("2027-01-01T00:00:00Z"),
    ),
    max_size=2,
).map(tuple)
amounts = st.builds(
    Resources,
    cpu_milli=st.integers(0, 10**9),
    memory_bytes=st.integers(0, 2**50),
    ephemeral_bytes=st.integers(0, 2**50),
    scalars=st.dictionaries(st.sampled_from(["example.com/gpu", "hugepages-2Mi"]), st.integers(0, 99)).map(
        lambda found: tuple(sorted(found.items()))
    ),
)
references = st.builds(ObjectRef, namespace=texts, name=texts, uid=texts)


@given(
    st.builds(
        ReservationStatus,
        phase=st.sampled_from(ReservationPhase),
        observed_generation=st.integers(0, 9),
        node_name=texts,
        conditions=conditions,
        allocatable=amounts,
        allocated=amounts,
        current_owners=st.lists(references, max_size=3).map(tuple),
        expires_at_s=st.one_of(st.none(), st.integers(1, 4_000_000_000).map(float)),
    )
)
def test_any_reservation_status_reads_back(status):
    written = reservation_manifest()
    assert read(Kind.RESERVATION, written | {"status": encode(status)}).status == status


@given(
    st.builds(
        MigrationStatus,
        phase=st.sampled_from(MigrationPhase),
        observed_generation=st.integers(0, 9),
        reason=texts,
        message=st.text(max_size=9),
        conditions=conditions,
        reservation_name=texts,
        source_node=texts,
        node_name=texts,
        mode=st.sampled_from(MoveMode),
        replacement=st.one_of(st.none(), references),
        started_at_s=times,
        reserved_at_s=times,
        eviction_requested_at_s=times,
        evicted_at_s=times,
        landed_at_s=times,
        ready_at_s=times,
        finished_at_s=times,
    )
)
def test_any_migration_status_reads_back_to_the_microsecond(status):
    written = migration_manifest()
    read_back = read(Kind.POD_MIGRATION, written | {"status": encode(status)}).status
    for field in MigrationStatus.__struct_fields__:
        was, now = getattr(status, field), getattr(read_back, field)
        assert now == (pytest.approx(was, abs=1e-6) if isinstance(was, float) else was), field


def test_a_migration_reads_back_with_all_its_fields():
    written = migration_manifest(
        pod_uid="u1", target_node="n2", mode=MoveMode.RESERVE_FIRST, ttl_s=90, paused=True,
        reservation_ref="r", grace_s=0, reason="why", policy="NodeTaints",
        after=(ObjectKey("shop", "a"), ObjectKey("db", "b")),
    )  # fmt: skip
    record = read(Kind.POD_MIGRATION, written)
    assert record.after == (ObjectKey("shop", "a"), ObjectKey("db", "b"))
    assert (record.pod_name, record.pod_uid, record.target_node) == ("web-1", "u1", "n2")
    assert (record.mode, record.ttl_s, record.paused) == (MoveMode.RESERVE_FIRST, 90.0, True)
    assert (record.reservation_ref, record.grace_s) == ("r", 0)
    assert (record.reason, record.policy) == ("why", "NodeTaints")


def test_an_unknown_mode_is_a_damaged_migration():
    written = migration_manifest()
    written["spec"]["mode"] = "Fast"
    with pytest.raises(UndecodableError, match="shop/m"):
        read(Kind.POD_MIGRATION, written)


def test_two_requirements_on_one_key_both_survive():
    selector = LabelSelector((Requirement("a", Operator.IN, ("x",)), Requirement("a", Operator.IN, ("y",))))
    encoded = encode_label_selector(selector)
    assert encoded == {
        "matchLabels": {"a": "x"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["y"]}],
    }


def large_template(size):
    container = {
        "name": "c",
        "resources": {"requests": {"cpu": "1m"}},
        "env": [{"name": "A", "value": "x" * size}],
    }
    return {"spec": {"containers": [container]}}


def test_nothing_is_kept_of_a_template_that_is_larger_than_a_room_needs():
    """Of 225 of them, each of 1m CPU and 0.9 MB, the controller came to its limit of memory."""
    record = read(Kind.RESERVATION, reservation_manifest(template=large_template(900_000)))
    assert record.template is None
    assert record.template_raw == OVERSIZED_TEMPLATE
    refused = refusal(record)
    assert "larger than 64 KiB" in refused.message
    assert len(repr(record)) < 8192


def test_a_large_template_that_a_person_writes_is_kept():
    record = read(Kind.RESERVATION, reservation_manifest(template=large_template(60_000)))
    assert refusal(record) is None
    assert record.template.requests.cpu_milli == 1
