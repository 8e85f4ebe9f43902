"""The hand-over to a pod that was pending before its room was there: every step of it, and every way out."""

import dataclasses

import msgspec
import pytest

from rescheduler.calls.pods import delete_placeholder
from rescheduler.model import names
from rescheduler.model.own_objects import condition
from rescheduler.model.records import Node, PodPhase, PodSpec, Taint, Toleration
from rescheduler.model.reservation import ObjectRef, ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.reservations.handover import (
    as_released,
    hand_over_taint,
    hand_over_toleration,
    tolerates_taint,
)
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import HandoverWait, Wait
from tests import records
from tests.records import pod_record

NOW = 1_000_000.0
SETTINGS = ReservationSettings()
SIZE = Resources(cpu_milli=1000)
replace = msgspec.structs.replace
WAITS = Wait(reason=HandoverWait.TAINT_SETTLING)


def pod(name="p", *, tolerates=True, **fields):
    tolerations = (hand_over_toleration("n1"),) if tolerates else ()
    spec = PodSpec(requests=SIZE, tolerations=tolerations)
    values = {"created_at_s": NOW - 86_400, "unschedulable_message": "0/9 nodes", **fields}
    return pod_record(namespace="default", name=name, uid=f"{name}-uid", spec=spec, **values)


def holder(**fields):
    values = {"node": "n1", **fields}
    return pod_record(namespace="rescheduler", name="holder", uid="h", spec=PodSpec(requests=SIZE), **values)


def claimed(claimant, placeholder, *, room=None, **fields):
    owner = ObjectRef("default", "p", "p-uid")
    held = {"node_name": "n1", "allocatable": SIZE, "current_owners": (owner,)}
    named = {"resource_version": "1", "created_at_s": NOW - 60, "template": PodSpec(requests=SIZE)}
    reservation = records.room("r", ReservationPhase.AVAILABLE, **held | named | (room or {}))
    values = {"node": Node(name="n1", uid="n1"), "claimed_since_s": NOW - 5, **fields}
    return ObservedReservation(
        reservation=reservation,
        placeholders=(placeholder,) if placeholder else (),
        owners=(claimant,) if claimant else (),
        **values,
    )


def look(*args, **fields):
    return step(claimed(*args, **fields), NOW, SETTINGS)


def done(found):
    return [a.does for a in found.calls if a.does not in ("record_event", "write_status")]


def ready(found):
    return condition(found.status.conditions, "Ready")


def test_nothing_is_deleted_before_the_taint_is_in_force():
    found = look(pod(), holder(), wait=WAITS)
    assert done(found) == []
    assert (ready(found).reason, found.status.current_owners[0].name) == ("Claimed", "p")
    assert found.wake_at_s == NOW - 5 + SETTINGS.gate_limit_s


def test_the_placeholder_is_deleted_without_a_nomination():
    found = look(pod(), holder())
    [delete] = [a for a in found.calls if a.does == "delete_placeholder"]
    assert delete == delete_placeholder(holder())


@pytest.mark.parametrize("placeholder", [None, holder(deleting=True)], ids=["gone", "ending"])
def test_then_it_waits_for_the_binding_and_watches_the_pod_from_its_claim_on(placeholder):
    found = look(pod(), placeholder, wait=Wait(reason=HandoverWait.BINDING))
    assert (found.status.phase, done(found)) == (ReservationPhase.AVAILABLE, [])
    late = look(pod(), placeholder, claimed_since_s=NOW - SETTINGS.landing_limit_s, room={"ttl_s": 1.0})
    assert (late.status.phase, ready(late).reason) == (ReservationPhase.FAILED, "Expired")


def test_bound_there_is_success():
    found = look(pod(node="n1").with_state(phase=PodPhase.RUNNING), None)
    assert found.status.phase is ReservationPhase.SUCCEEDED


WAYS_OUT = [
    ({}, {"node": "n2"}, "landed on node/n2"),
    ({"unfit": "NodeAffinity: no"}, {}, "does not fit there any more: NodeAffinity: no"),
    ({"node": Node(name="n1", uid="n1", unschedulable=True)}, {}, "node/n1 is not Ready or not schedulable"),
    ({"claimed_since_s": NOW - SETTINGS.gate_limit_s}, {}, "within 60 s"),
    ({"room": {"ttl_s": 10.0}}, {}, "its time is over"),
]


@pytest.mark.parametrize(("fields", "of_pod", "words"), WAYS_OUT, ids=[words for *_, words in WAYS_OUT])
def test_as_long_as_the_placeholder_stands_a_claim_is_only_given_back(fields, of_pod, words):
    found = look(pod(**of_pod), holder(), wait=WAITS, **fields)
    assert (found.status.phase, found.status.current_owners) == (ReservationPhase.AVAILABLE, ())
    assert done(found) == []
    assert words in ready(found).message
    assert (ready(found).status, ready(found).reason) == ("True", "Available")


@pytest.mark.parametrize("gone", [None, pod(deleting=True)], ids=["gone", "ending"])
def test_a_pod_that_is_deleted_leaves_the_room_to_the_next(gone):
    found = look(gone, holder(), wait=WAITS)
    assert (found.status.phase, found.status.current_owners) == (ReservationPhase.AVAILABLE, ())
    assert look(gone, None).status.phase is ReservationPhase.FAILED


def test_a_pod_that_lands_elsewhere_after_the_placeholder_is_gone_ends_the_reservation():
    found = look(pod(node="n2"), None)
    assert (found.status.phase, ready(found).reason) == (ReservationPhase.FAILED, "LandedElsewhere")


def test_a_pod_of_which_another_program_took_our_gate_is_not_kept_out_of_its_room():
    assert done(look(pod(tolerates=False), holder())) == ["delete_placeholder"]


def test_a_lost_placeholder_or_one_that_its_node_refused_is_no_room_to_wait_for():
    found = look(pod(), holder(phase=PodPhase.FAILED), wait=WAITS)
    assert "delete_placeholder" in done(found)


def test_of_a_room_for_several_those_that_no_longer_fit_are_left_out_and_the_room_stays_held():
    several = {"allocate_once": False}
    whole = holder()
    base = claimed(pod(), whole, room=several, wait=WAITS)
    status = replace(base.reservation.status, allocated=SIZE)
    base = dataclasses.replace(base, reservation=replace(base.reservation, status=status))
    assert step(base, NOW, SETTINGS).status.current_owners
    found = step(dataclasses.replace(base, unfit="no"), NOW, SETTINGS)
    assert (found.status.current_owners, found.status.allocatable) == ((), SIZE)
    assert done(found) == []


def test_the_taint_of_the_node_is_no_matter_of_this_step():
    tainted = Node(name="n1", uid="n1", taints=(Taint(names.ANNOTATION_HANDOVER_TAINT, "r"),))
    assert done(look(pod(), holder(), node=tainted)) == ["delete_placeholder"]


def test_who_tolerates_the_taint_of_one_node_does_not_tolerate_that_of_another():
    """Else claimants would be bound in each other's empty rooms; names of nodes may be longer than a taint's value."""
    long = [f"{'x' * 70}.{number}.example" for number in (1, 2)]
    for one, other in (("n1", "n2"), long):
        mine = as_released(pod(tolerates=False), one)
        assert tolerates_taint(mine, one)
        assert not tolerates_taint(mine, other)
        assert len(hand_over_taint(one).value) <= 63
    anywhere = replace(pod(), spec=PodSpec(tolerations=(Toleration(operator="Exists"),)))
    assert as_released(anywhere, "n1").spec.tolerations == anywhere.spec.tolerations
