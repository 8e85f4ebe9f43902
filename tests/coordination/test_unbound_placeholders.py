"""What placeholders that are not bound do beside the hand-overs of their node, and what waits for them."""

import dataclasses

import pytest
from node_rooms import (
    BOUND,
    CLAIMED,
    NOMINATED,
    NOW,
    SETTINGS,
    SIZE,
    TAINT,
    Rules,
    on_node,
    ordered,
    replace,
    room,
    several,
    waits,
)

from rescheduler.coordination.memory import Sightings
from rescheduler.model import names
from rescheduler.model.records import Node, OwnerRef, PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.planning.single_pod import Choice
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.waits import HandoverWait, PlaceholderTurn
from tests.records import pod_record


def preallocation(name, *, created=NOW - 60, gated=True, nominated="n1", on="n1", shut=False, **fields):
    """A Reservation whose room is not free yet, and its placeholder."""
    pin = Requirement("metadata.name", Operator.IN, (on,))
    holder = pod_record(
        namespace=SETTINGS.namespace,
        name=f"holder-{name}",
        uid=f"holder-{name}",
        nominated_node=nominated,
        created_at_s=created,
        controller=OwnerRef(names.API_VERSION, "Reservation", name, name),
        spec=PodSpec(
            requests=SIZE,
            gates=(names.GATE_ROOM,) if gated else (),
            node_affinity=NodeSelector((NodeSelectorTerm(fields=(pin,)),)),
        ),
        **fields,
    )
    status = ReservationStatus(phase=ReservationPhase.WAITING, node_name=on)
    reservation = Reservation(name=name, uid=name, pre_allocation=True, status=status)
    node = Node(name=on, uid=on, taints=(TAINT,) if shut else ())
    return ObservedReservation(reservation=reservation, placeholders=(holder,), node=node)


def turns(*rooms, **fields):
    """What each placeholder does, and whether its node needs the taint."""
    return {name: (r.turn, r.needs_taint) for name, r in ordered(*rooms, **fields).items()}


def test_a_preallocation_keeps_its_nomination_until_its_room_is_free():
    assert turns(preallocation("p", nominated=""))["p"] == (PlaceholderTurn.NOMINATE, False)
    assert turns(preallocation("p"))["p"] == (PlaceholderTurn.WAIT, False)
    fits = Rules(fits=("holder-p",))
    assert turns(preallocation("p"), rules=fits)["p"] == (PlaceholderTurn.ADMIT, False)
    assert turns(on_node(preallocation("p"), ready=False), rules=fits)["p"][0] is PlaceholderTurn.WAIT


@pytest.mark.parametrize("reason", ["a hand-over", "an older one that fits"], ids=["hand-over", "older"])
def test_a_preallocation_withdraws_its_nomination_once_its_node_is_tainted(reason):
    """And the node stays tainted until the scheduler has surely seen that the nomination is back."""
    older = preallocation("o", created=NOW - 90)
    beside, rules = (room("a", CLAIMED), None) if reason == "a hand-over" else (older, Rules(("holder-o",)))
    seen, settle_s = Sightings(), SETTINGS.taint_settle_s

    def look(now, other=beside, **fields):
        mine = preallocation("p", **fields)
        other = dataclasses.replace(other, node=mine.node)
        return turns(mine, other, now=now, rules=rules, sightings=seen)["p"]

    assert look(NOW) == (PlaceholderTurn.WAIT, True)
    assert look(NOW + 1, shut=True) == (PlaceholderTurn.WAIT, True)
    assert look(NOW + 1 + settle_s, shut=True) == (PlaceholderTurn.WITHDRAW, True)
    assert look(NOW + 3, shut=True, nominated="") == (PlaceholderTurn.WAIT, True)
    idle = room("a", BOUND)
    rules = None
    assert look(NOW + 4, idle, shut=True, nominated="") == (PlaceholderTurn.NOMINATE, True)
    assert look(NOW + 5, idle, shut=True) == (PlaceholderTurn.WAIT, True)
    assert look(NOW + 5 + settle_s, idle, shut=True) == (PlaceholderTurn.WAIT, False)


def test_an_older_preallocation_is_admitted_only_when_younger_nominations_are_away():
    fits = Rules(fits=("holder-o",))
    older, younger = preallocation("o", created=NOW - 90), preallocation("p", nominated="")
    assert turns(older, preallocation("p"), rules=fits)["o"][0] is PlaceholderTurn.WAIT
    assert turns(older, younger, rules=fits)["o"][0] is PlaceholderTurn.ADMIT


@pytest.mark.parametrize("nominated", ["n1", ""])
def test_a_room_is_not_given_up_while_a_placeholder_could_take_it(nominated):
    gated = preallocation("p", nominated=nominated)
    blocked = HandoverWait.PLACEHOLDER_UNBOUND if nominated else None
    assert waits(room("a", NOMINATED), gated)["a"] is blocked
    refused = preallocation("p", gated=False, nominated=nominated, unschedulable_message="0/9 nodes")
    assert waits(room("a", NOMINATED), refused)["a"] is HandoverWait.PLACEHOLDER_UNBOUND
    assert turns(room("a", NOMINATED), refused)["p"][0] is PlaceholderTurn.GIVE_WAY
    gone = dataclasses.replace(refused, placeholders=())
    assert turns(room("a", NOMINATED), gone)["p"][0] is PlaceholderTurn.GIVE_WAY, "not created meanwhile"
    assert turns(gone)["p"][0] is PlaceholderTurn.WAIT


@pytest.mark.parametrize("foreign", [
    {"namespace": "kube-system", "controller": OwnerRef("apps/v1", "DaemonSet", "agent", "ds")},
    {"controller": None},
], ids=["a DaemonSet's pod", "a pod of no controller"])  # fmt: skip
def test_a_pending_pod_that_is_no_placeholder_does_not_block_a_hand_over(foreign):
    """DaemonSet pods are pinned to their node in the same way as placeholders."""
    pinned = replace(preallocation("p", gated=False).placeholders[0], **foreign)
    assert waits(room("a", NOMINATED), waiting=(pinned,))["a"] is None


def test_a_room_for_several_waits_for_preallocations_but_not_for_its_own_rest():
    assert waits(several("a", NOMINATED), preallocation("p"))["a"] is HandoverWait.PLACEHOLDER_UNBOUND
    assert waits(several("a", NOMINATED))["a"] is None


def plain(name, **fields):
    """A Reservation that is Pending, with a placeholder that is not bound."""
    observed = preallocation(name, gated=False, nominated="", **fields)
    reservation = replace(observed.reservation, pre_allocation=False, status=ReservationStatus())
    return dataclasses.replace(observed, reservation=reservation, node=None)


def test_a_plain_placeholder_gives_way_and_moves_on_when_other_pods_were_faster():
    assert turns(plain("p"))["p"][0] is PlaceholderTurn.WAIT
    assert turns(plain("p"), room("a", CLAIMED))["p"][0] is PlaceholderTurn.GIVE_WAY
    refused = plain("p", unschedulable_message="0/9 nodes")
    assert turns(refused)["p"][0] is PlaceholderTurn.WAIT, "no other node is known"
    refused = dataclasses.replace(refused, choice=Choice(node="n2"))
    assert turns(refused)["p"][0] is PlaceholderTurn.MOVE
    assert turns(refused, rules=Rules(("holder-p",)))["p"][0] is PlaceholderTurn.WAIT, (
        "it may still be bound here"
    )


def test_no_placeholder_is_created_on_a_node_where_a_room_is_handed_over():
    pending = dataclasses.replace(plain("p"), placeholders=(), choice=Choice(node="n1"))
    found = ordered(pending, room("a", CLAIMED))["p"].choice
    assert (found.node, "handed over" in found.message) == ("", True)
    assert ordered(pending, room("a", CLAIMED, node="n2"))["p"].choice.node == "n1"
