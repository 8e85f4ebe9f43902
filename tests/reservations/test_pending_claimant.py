"""The hand-over to a pod that was pending before its room was there: every step of it, and every way out."""

import dataclasses

import pytest

from rescheduler.calls.pods import delete_placeholder
from rescheduler.model import names
from rescheduler.model.records import Node, PodPhase, PodSpec, Taint, Toleration
from rescheduler.model.reservation import ReservationPhase
from rescheduler.reservations.handover import (
    as_released,
    hand_over_taint,
    hand_over_toleration,
    tolerates_taint,
)
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.waits import HandoverWait, Wait
from tests.reservations import looks
from tests.reservations.looks import (
    CLAIMED,
    NOW,
    ROOM,
    SETTINGS,
    observed,
    placeholder,
    ready,
    replace,
    reservation,
)

WAITS = Wait(reason=HandoverWait.TAINT_SETTLING)


def pod(*, tolerates=True, **fields):
    tolerations = (hand_over_toleration("n2"),) if tolerates else ()
    found = looks.pod(gated=False, created=NOW - 86_400, unschedulable_message="0/9 nodes", **fields)
    return replace(found, spec=PodSpec(requests=ROOM, tolerations=tolerations))


def claimed(claimant, holder, *, room=None, **fields):
    room = {"template_node": "", **(room or {})}
    held = reservation(ReservationPhase.AVAILABLE, current=CLAIMED, created=NOW - 60, **room)
    return observed(held, placeholder=holder, claimant=claimant, **{"claimed_since_s": NOW - 5, **fields})


def look(*args, **fields):
    return step(claimed(*args, **fields), NOW, SETTINGS)


def done(found):
    return [a.does for a in found.calls if a.does not in ("record_event", "write_status")]


def test_nothing_is_deleted_before_the_taint_is_in_force():
    found = look(pod(), placeholder(), wait=WAITS)
    assert done(found) == []
    assert (ready(found).reason, found.status.current_owners[0].name) == ("Claimed", "p")
    assert found.wake_at_s == NOW - 5 + SETTINGS.gate_limit_s


def test_the_placeholder_is_deleted_without_a_nomination():
    found = look(pod(), placeholder())
    [delete] = [a for a in found.calls if a.does == "delete_placeholder"]
    assert delete == delete_placeholder(placeholder())


@pytest.mark.parametrize("holder", [None, placeholder(deleting=True)], ids=["gone", "ending"])
def test_then_it_waits_for_the_binding_and_watches_the_pod_from_its_claim_on(holder):
    found = look(pod(), holder, wait=Wait(reason=HandoverWait.BINDING))
    assert (found.status.phase, done(found)) == (ReservationPhase.AVAILABLE, [])
    late = look(pod(), holder, claimed_since_s=NOW - SETTINGS.landing_limit_s, room={"ttl_s": 1.0})
    assert (late.status.phase, ready(late).reason) == (ReservationPhase.FAILED, "Expired")


def test_bound_there_is_success():
    found = look(pod(node="n2").with_state(phase=PodPhase.RUNNING), None)
    assert found.status.phase is ReservationPhase.SUCCEEDED


WAYS_OUT = [
    ({}, {"node": "n3"}, "landed on node/n3"),
    ({"unfit": "NodeAffinity: no"}, {}, "does not fit there any more: NodeAffinity: no"),
    ({"node": Node(name="n2", uid="n2", unschedulable=True)}, {}, "node/n2 is not Ready or not schedulable"),
    ({"claimed_since_s": NOW - SETTINGS.gate_limit_s}, {}, "within 60 s"),
    ({"room": {"ttl_s": 10.0}}, {}, "its time is over"),
]


@pytest.mark.parametrize(("fields", "of_pod", "words"), WAYS_OUT, ids=[words for *_, words in WAYS_OUT])
def test_as_long_as_the_placeholder_stands_a_claim_is_only_given_back(fields, of_pod, words):
    found = look(pod(**of_pod), placeholder(), wait=WAITS, **fields)
    assert (found.status.phase, found.status.current_owners) == (ReservationPhase.AVAILABLE, ())
    assert done(found) == []
    assert words in ready(found).message
    assert (ready(found).status, ready(found).reason) == ("True", "Available")


@pytest.mark.parametrize("gone", [None, pod(deleting=True)], ids=["gone", "ending"])
def test_a_pod_that_is_deleted_leaves_the_room_to_the_next(gone):
    found = look(gone, placeholder(), wait=WAITS)
    assert (found.status.phase, found.status.current_owners) == (ReservationPhase.AVAILABLE, ())
    assert look(gone, None).status.phase is ReservationPhase.FAILED


def test_a_pod_that_lands_elsewhere_after_the_placeholder_is_gone_ends_the_reservation():
    found = look(pod(node="n3"), None)
    assert (found.status.phase, ready(found).reason) == (ReservationPhase.FAILED, "LandedElsewhere")


def test_a_pod_of_which_another_program_took_our_gate_is_not_kept_out_of_its_room():
    assert done(look(pod(tolerates=False), placeholder())) == ["delete_placeholder"]


def test_a_lost_placeholder_or_one_that_its_node_refused_is_no_room_to_wait_for():
    found = look(pod(), placeholder(phase=PodPhase.FAILED), wait=WAITS)
    assert "delete_placeholder" in done(found)


def test_of_a_room_for_several_those_that_no_longer_fit_are_left_out_and_the_room_stays_held():
    several = {"allocate_once": False}
    whole = placeholder()
    base = claimed(pod(), whole, room=several, wait=WAITS)
    status = replace(base.reservation.status, allocated=ROOM)
    base = dataclasses.replace(base, reservation=replace(base.reservation, status=status))
    assert step(base, NOW, SETTINGS).status.current_owners
    found = step(dataclasses.replace(base, unfit="no"), NOW, SETTINGS)
    assert (found.status.current_owners, found.status.allocatable) == ((), ROOM)
    assert done(found) == []


def test_the_taint_of_the_node_is_no_matter_of_this_step():
    tainted = Node(name="n2", uid="n2", taints=(Taint(names.ANNOTATION_HANDOVER_TAINT, "r"),))
    assert done(look(pod(), placeholder(), node=tainted)) == ["delete_placeholder"]


def test_who_tolerates_the_taint_of_one_node_does_not_tolerate_that_of_another():
    """Else claimants would be bound in each other's empty rooms; names of nodes may be longer than a taint's value."""
    long = [f"{'x' * 70}.{number}.example" for number in (1, 2)]
    for one, other in (("n1", "n2"), long):
        mine = as_released(pod(tolerates=False), one)
        assert tolerates_taint(mine, one)
        assert not tolerates_taint(mine, other)
        assert len(hand_over_taint(one).value) <= 63
    anywhere = replace(pod(), spec=PodSpec(tolerations=(Toleration(operator="Exists"),)))
    assert as_released(anywhere, "n2").spec.tolerations == anywhere.spec.tolerations
