"""One Reservation needs few and short keys of the gate, whatever its owners say or match."""

import string

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.room_assignment import room_of
from rescheduler.coordination.switches import coming_rooms, gate_keys, wants_gate
from rescheduler.migrations.observed_migration import Calls
from rescheduler.model.controller_key import TEMPLATE_HASH, controller_key
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import OwnerRef, PodSpec, Workload
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.gate_keys import MOST_KEYS
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_lifecycle import ReservationEvent
from rescheduler.reservations.template import name_of_reservation
from rescheduler.reservations.validation import refusal
from tests import records
from tests.records import pod_record

WEB = [
    Workload(kind="ReplicaSet", namespace=f"n{i}", name="web", uid=f"web-{i:04}", created_at_s=float(i))
    for i in range(300)
]


def room(*owners):
    return records.room("room", ReservationPhase.AVAILABLE, template=PodSpec(), owners=owners, node_name="n")


def keys(*owners):
    snapshot = Snapshot(taken_at_s=0.0, workloads={w.uid: w for w in WEB})
    return gate_keys([ObservedReservation(reservation=room(*owners))], RoundIndex.of(snapshot)).keys


def listed(values, namespace="shop"):
    selector = LabelSelector((Requirement("app", Operator.IN, tuple(values)),))
    return ReservationOwner(object=ObjectRef(namespace=namespace), label_selector=selector)


def by_name(name="web", **more):
    return ReservationOwner(controller=ControllerRef(name=name, **more))


def of_move(*, prepares, phase=ReservationPhase.AVAILABLE, requested=0.0, evicted=False):
    reservation = msgspec.structs.replace(
        room(by_name()),
        annotations=LabelSet({"rescheduler.dev/migration": "n1/m"}),
        status=ReservationStatus(phase=phase, node_name="n"),
    )
    move = records.move(
        "m", MigrationPhase.EVICTING, namespace="n1", pod_name="", eviction_requested_at_s=requested
    )
    observed = ObservedReservation(
        reservation=reservation,
        placeholders=(pod_record(name="p", namespace="n1", uid="p", spec=PodSpec(), node="n"),),
        migration=move,
        prepares_gate=prepares,
        evicted=evicted,
    )
    return wants_gate(observed), room_of(observed)


def test_a_move_may_want_the_gate_before_its_room_can_be_assigned():
    assert of_move(prepares=False) == (False, None)
    assert of_move(prepares=True) == (True, None)
    assert of_move(prepares=True, phase=ReservationPhase.PENDING) == (True, None)
    assert of_move(prepares=True, phase=ReservationPhase.FAILED) == (False, None)
    wants, given = of_move(prepares=False, requested=1.0)
    assert wants
    assert given is not None


def test_a_room_is_open_as_soon_as_the_eviction_is_answered():
    """The status of the move says so a call later."""
    before, after = (
        of_move(prepares=False, requested=1.0, evicted=answered)[1] for answered in (False, True)
    )
    assert (before.open, after.open) == (False, True)
    status = MigrationStatus(phase=MigrationPhase.EVICTING, eviction_requested_at_s=2.0)
    for outcome, at_s, expected in (
        (EvictionOutcome.EVICTED, 2.0, True),
        (EvictionOutcome.EVICTED, 1.0, False),
        (EvictionOutcome.UNKNOWN, 3.0, False),
    ):
        answer = Calls(eviction=EvictionResult(outcome), eviction_at_s=at_s)
        assert answer.evicted_for(status) is expected


def test_a_move_that_begins_has_its_key_before_its_reservation_exists():
    owner = OwnerRef("apps/v1", "ReplicaSet", "web", "web-0001")
    pod = pod_record(name="web-1", namespace="n1", uid="p", spec=PodSpec(), controller=owner)
    move = records.move_of(pod)

    def found(move=move, until_s=10.0, reservations=()):
        snapshot = Snapshot(
            taken_at_s=5.0,
            pods={pod.key: pod},
            workloads={w.uid: w for w in WEB},
            migrations={move.key: move},
            reservations={r.name: r for r in reservations},
        )
        index = RoundIndex.of(snapshot)
        return gate_keys(coming_rooms({move.key: until_s}, index, 5.0), index).keys

    name = name_of_reservation(move)
    assert found() == {controller_key("n1", "web-0001"): name}
    assert not found(until_s=5.0), "it is prepared for a limited time"
    assert not found(reservations=[msgspec.structs.replace(room(), name=name)]), "it is its own then"
    for status in (
        MigrationStatus(phase=MigrationPhase.EVICTING),
        MigrationStatus(phase=MigrationPhase.FAILED),
    ):
        assert not found(msgspec.structs.replace(move, status=status))
    assert not found(msgspec.structs.replace(move, deleting=True))


TEXT = st.text(st.sampled_from(string.ascii_letters + "-_./ é\n"), max_size=300)
OWNERS = st.one_of(
    st.builds(by_name, st.sampled_from(["web", ""]), uid=TEXT, namespace=st.sampled_from(["", "n1"])),
    st.builds(listed, st.lists(TEXT, max_size=70), TEXT),
    st.builds(lambda name, home: ReservationOwner(object=ObjectRef(namespace=home, name=name)), TEXT, TEXT),
)


@given(st.lists(OWNERS, max_size=20))
@settings(max_examples=100, deadline=None)
def test_they_are_few_and_each_is_one_that_a_config_map_takes(owners):
    legal = set(string.ascii_letters + string.digits + "-._")
    found = keys(*owners)
    assert len(found) <= MOST_KEYS
    assert all(0 < len(key) <= 253 and set(key) <= legal for key in found)


def test_of_many_controllers_of_one_name_the_newest_are_looked_for():
    assert list(keys(by_name())) == [controller_key(w.namespace, w.uid) for w in reversed(WEB)][:MOST_KEYS]


def keys_among(workloads, *owners):
    snapshot = Snapshot(taken_at_s=0.0, workloads={w.uid: w for w in workloads})
    return list(gate_keys([ObservedReservation(reservation=room(*owners))], RoundIndex.of(snapshot)).keys)


def deployed(name, template_hash, namespace="shop"):
    return Workload(
        kind="ReplicaSet",
        namespace=namespace,
        name=name,
        uid=f"{namespace}-{name}",
        template_labels=LabelSet({TEMPLATE_HASH: template_hash} if template_hash else {}),
        controller=OwnerRef("apps/v1", "Deployment", "web", f"{namespace}-web"),
    )


def test_a_controller_of_a_kind_and_a_name_needs_not_exist():
    of_web = by_name(kind="Deployment", namespace="shop")
    assert keys_among([], of_web) == ["named.shop.Deployment.web"]
    known = [deployed("web-1a", "1a"), deployed("adopted", ""), deployed("web-1a", "1a", "n2")]
    uids = [controller_key("shop", "shop-adopted"), controller_key("shop", "shop-web-1a")]
    assert keys_among(known, of_web) == ["named.shop.Deployment.web", *uids]


def test_who_names_two_namespaces_finds_no_pod_of_either():
    """Admission is content if one of them is the author's."""
    for more in ({"kind": "ReplicaSet"}, {"uid": "unknown"}, {}):
        of_n1 = by_name(namespace="n1", **more)
        mine = msgspec.structs.replace(of_n1, object=ObjectRef(namespace="n2"))
        assert keys(of_n1)
        assert keys(mine) == {}


def test_what_finds_a_pod_by_its_label_needs_no_controller():
    assert list(keys(listed(["a"], namespace=""))) == ["label..app.a"]


def test_too_many_are_refused_in_words():
    refused = refusal(room(*(listed(str(i) for i in range(j, j + 40)) for j in (0, 100))))
    assert refused.event is ReservationEvent.INVALID
    assert "spec.owners needs 80 keys for the gate to find their pods, and 64 are the most" in refused.message
    assert refusal(room(listed(str(i) for i in range(MOST_KEYS)))) is None


def test_a_decoded_one_keeps_its_bounds():
    spec = {"owners": [{"controller": {"name": "web", "uid": "no key / at all"}}], "template": {"spec": {}}}
    built = b.object_of(Kind.RESERVATION, "room", spec=spec).build()
    held = msgspec.structs.replace(built, status=room().status)
    index = RoundIndex.of(Snapshot(taken_at_s=0.0))
    assert gate_keys([ObservedReservation(reservation=held)], index).keys == {}
