"""Which pending pods without a gate get which rooms, and what the hand-over to them asks of their node."""

import dataclasses

import msgspec
import pytest
from node_rooms import (
    CLAIMED,
    EMPTY,
    NOW,
    REFUSED,
    SETTINGS,
    SIZE,
    TAINT,
    Rules,
    kept_tolerations,
    on_node,
    ordered,
    replace,
    room,
)

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_tolerations import MOST_ASKED
from rescheduler.coordination.lost_targets import contested_rooms
from rescheduler.coordination.memory import Sightings
from rescheduler.coordination.pending_owners import MOST_KINDS_ASKED, PendingOwners
from rescheduler.coordination.room_assignment import RoomAssignment
from rescheduler.coordination.switches import taint_switches
from rescheduler.migrations.observed_migration import ALLOWED, Permission
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import Node, PodSpec
from rescheduler.model.reservation import (
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.priorities import HigherPriorityWaits
from rescheduler.reservations.assignment import Assignment, Room
from rescheduler.reservations.handover import hand_over_toleration
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.waits import HandoverWait
from tests import records
from tests.records import pod_record

NO = Permission(ok=False, message="no")


class Takes(Rules):
    """What the scheduling rules say of pending pods: those by these names do not fit."""

    def __init__(self, unfit=()):
        super().__init__()
        self.unfit, self.asked = unfit, []

    def would_take(self, pod, node, holder):
        self.asked.append(pod.name)
        return NO if pod.name in self.unfit else ALLOWED

    def overtaking(self, pods, others, node, holder):
        self.others = len(others)
        return next((other for other in others if other.name not in self.unfit), None)

    def landable(self, rooms, claimed):
        return frozenset(room.name for room in rooms)


def waiting(name, *, tolerates=False, labels=None, cpu=1000, **fields):
    tolerations = (hand_over_toleration("n1"),) if tolerates else ()
    values = {
        "unschedulable_message": "0/9 nodes",
        "created_at_s": NOW - 86_400,
        "namespace": "default",
        **fields,
    }
    spec = fields.pop("spec", None) or PodSpec(requests=Resources(cpu_milli=cpu), tolerations=tolerations)
    return pod_record(
        name=name, uid=name, labels=LabelSet(labels or {"app": "web"}), **{**values, "spec": spec}
    )


def held(name="r", *, size=SIZE, allocate_once=True, **fields):
    web = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
    owner = ReservationOwner(object=ObjectRef(namespace="default"), label_selector=web)
    named = {
        "resource_version": "1",
        "owners": (owner,),
        "created_at_s": NOW - 60,
        "node_name": "n1",
        "allocatable": size,
    }
    reservation = records.room(
        name,
        ReservationPhase.AVAILABLE,
        template=PodSpec(requests=size),
        allocate_once=allocate_once,
        **named,
    )
    return ObservedReservation(reservation=reservation, **{"node": Node(name="n1", uid="n1"), **fields})


def owners_of(pods, rooms, rules, resting=()):
    rules = rules or Takes()
    return PendingOwners(
        index=RoundIndex.of(Snapshot(taken_at_s=NOW, pods={pod.key: pod for pod in pods})),
        placement=rules,
        resting=lambda pod: pod.name in resting,
        kept=kept_tolerations(pods, (r.reservation for r in rooms), rules),
    )


def found_for(pods, *rooms, rules=None, resting=(), taken=()):
    owners = owners_of(pods, rooms, rules, resting)
    open_rooms = [
        Room(reservation=r.reservation, size=r.reservation.template.requests, open=True)
        for r in rooms
        if not r.reservation.status.current_owners
    ]
    return owners.of(owners.waiting(taken), open_rooms, {r.reservation.name: r for r in rooms})


def given(pods, *rooms, **fields):
    """What the pods get: claims and preparations by name."""
    found = found_for(pods, *rooms, **fields)
    claims = {name: [pod.name for pod in served] for name, served in found.claims.items()}
    return claims, [(pod.name, name) for pod, name in found.preparing]


def test_a_pod_is_prepared_first_and_claims_then():
    assert given([waiting("a")], held()) == ({}, [("a", "r")])
    assert given([waiting("a", tolerates=True)], held()) == ({"r": ["a"]}, [])


def test_a_pod_that_an_earlier_claim_let_behind_the_taint_goes_first():
    """Tolerations stay, so it would take the room of a pod that fits better."""
    earlier, better = waiting("earlier", tolerates=True, cpu=500), waiting("better", cpu=1000)
    assert given([better, earlier], held()) == ({"r": ["earlier"]}, [])
    elsewhere = msgspec.structs.replace(
        earlier, spec=msgspec.structs.replace(earlier.spec, tolerations=(hand_over_toleration("n2"),))
    )
    assert given([better, elsewhere], held()) == ({}, [("better", "r")])


def stranger(**fields):
    """A pod that an earlier claim let behind the taint and that is no owner of the next room."""
    return waiting("stranger", tolerates=True, labels={"app": "db"}, **fields)


PASSES = {
    "an owner that rests": ([waiting("other", tolerates=True)], {"resting": ("other",)}),
    "no owner": ([stranger()], {}),
    "not refused yet": ([stranger(unschedulable_message="")], {}),
}


@pytest.mark.parametrize("tolerates", [True, False], ids=["a claim", "a preparation"])
@pytest.mark.parametrize(("others", "fields"), PASSES.values(), ids=PASSES)
def test_a_room_is_not_handed_over_while_another_pod_behind_the_taint_would_take_it(
    others, fields, tolerates
):
    mine = waiting("mine", tolerates=tolerates)
    found = found_for([mine, *others], held(), **fields)
    assert (found.claims, found.preparing) == ({}, ())
    [(room_name, why)] = found.overtaken.items()
    assert room_name == "r"
    assert f"pod default/{others[0].name} is pending and would take the room on node/n1" in why


LANDS = {
    "it does not fit": ([stranger()], {"rules": Takes(unfit=("stranger",))}),
    "another node's taint": ([waiting("s", labels={"app": "db"}, spec=PodSpec(tolerations=(hand_over_toleration("n2"),)))], {}),
    "of higher priority, which ends the room": ([stranger(spec=PodSpec(priority=9, tolerations=(hand_over_toleration("n1"),)))], {}),
    "being deleted": ([stranger(deleting=True)], {}),
}  # fmt: skip


@pytest.mark.parametrize(("others", "fields"), LANDS.values(), ids=LANDS)
def test_a_room_is_handed_over_beside_pods_that_would_not_take_it(others, fields):
    found = found_for([waiting("mine", tolerates=True), *others], held(), **fields)
    assert [pod.name for pod in found.claims["r"]] == ["mine"]
    assert found.overtaken == {}


def claimed_by(observed, *pods, phase=ReservationPhase.AVAILABLE):
    owners = tuple(ObjectRef(pod.namespace, pod.name, pod.uid) for pod in pods)
    status = replace(observed.reservation.status, phase=phase, current_owners=owners)
    reservation = replace(observed.reservation, status=status)
    return dataclasses.replace(observed, reservation=reservation, owners=pods)


def test_nobody_is_prepared_while_another_pod_lands_behind_the_taint():
    """Whoever tolerates the taint then could be faster; who has a room of that node already is no danger."""
    lands = waiting("lands", tolerates=True)
    rooms = [claimed_by(held("first"), lands), held("second")]
    assert given([lands, waiting("next")], *rooms, taken=("lands",)) == ({}, [])
    later = waiting("next", tolerates=True)
    assert given([lands, later], *rooms, taken=("lands",)) == ({"second": ["next"]}, [])
    assert given([waiting("next")], claimed_by(held("first")), held("second")) == ({}, [("next", "first")])


def test_nobody_claims_a_room_of_a_node_while_others_are_prepared_for_it():
    """The one that is prepared would be bound in the room of the other before it has a claim."""
    pods = [waiting("a", tolerates=True), waiting("b")]
    assert given(pods, held("first"), held("second")) == ({}, [("b", "second")])


def test_a_pending_pod_may_claim_again_once_its_reservation_has_ended():
    """It still tolerates the taint of that node, so it is served before its siblings."""
    earlier, sibling = waiting("earlier", tolerates=True), waiting("a-sibling")
    pods, name = [earlier, sibling], "later"
    holder = pod_record(namespace="rescheduler", name="holder", uid="holder", node="n1", spec=PodSpec())
    rooms = [
        claimed_by(held("before"), earlier, phase=ReservationPhase.FAILED),
        held(name, placeholders=(holder,)),
    ]
    pending = owners_of(pods, rooms, None)
    assignment = RoomAssignment(
        index=pending.index,
        placement=pending.placement,
        unseen=lambda _: False,
        claimed=lambda _: frozenset(),
        released=lambda _: False,
        start_first={},
        resting=lambda _: False,
        gate_limit_s=SETTINGS.gate_limit_s,
        pending=pending,
        now_s=NOW,
    )
    found = assignment.of({r.reservation.name: r for r in rooms})
    assert {room: [pod.name for pod in served] for room, served in found.claims.items()} == {
        name: ["earlier"]
    }


def test_a_pod_whose_reservation_has_ended_counts_among_those_that_would_take_a_room():
    """Nothing is held for it any more, so it would preempt whoever gets the next room."""
    high, mine = waiting("high", spec=PodSpec(priority=9)), waiting("mine", tolerates=True)

    class Preempts(Takes):
        def taken_from_owners(self, pods, node, holder, served):
            return None if high.uid in served else HigherPriorityWaits(high, pods[0], node)

    def contested(phase):
        rooms = [claimed_by(held("before"), high, phase=phase), held("later")]
        given = Assignment(claims={"later": (mine,)}, held=frozenset(), released=())
        found, assignment = contested_rooms(
            {r.reservation.name: r for r in rooms}, given, [high, mine], Preempts()
        )
        return bool(found["later"].higher_waits), assignment.claims

    assert contested(ReservationPhase.AVAILABLE) == (False, {"later": (mine,)})
    assert contested(ReservationPhase.FAILED) == (True, {})


NOBODY = {
    "not refused yet": {"unschedulable_message": ""},
    "being deleted": {"deleting": True},
    "gate of another program": {"spec": PodSpec(requests=SIZE, gates=("example.com/queue",))},
    "another namespace": {"namespace": "another"},
    "other labels": {"labels": {"app": "db"}},
    "too large": {"cpu": 1001},
    "a placeholder": {"labels": {"app": "web", names.LABEL_PLACEHOLDER: "x"}},
    "of the controller's namespace": {"namespace": "rescheduler"},
    "a replacement of StartFirst": {"labels": {"app": "web", names.LABEL_START_FIRST: "x"}},
    "bound": {"node": "n2"},
}


@pytest.mark.parametrize("fields", NOBODY.values(), ids=NOBODY)
def test_who_gets_no_room(fields):
    assert given([waiting("a", **fields)], held()) == ({}, [])


def test_what_does_not_fit_the_node_leaves_the_room_to_the_next():
    pods = [
        waiting("a", created_at_s=NOW - 9),
        waiting("b", labels={"app": "web", "b": ""}, created_at_s=NOW - 8),
    ]
    assert given(pods, held(), rules=Takes(unfit=("a",))) == ({}, [("b", "r")])
    assert given(pods, held(), resting=("a",)) == ({}, [("b", "r")])
    assert given(pods, held(), taken=("a",)) == ({}, [("b", "r")])


@pytest.mark.parametrize("fields", [
    {"migration": records.move("b", MigrationPhase.EVICTING, namespace="a", pod_name="", reservation_ref="r")},
    {"node": Node(name="n1", uid="n1", unschedulable=True)},
    {"by_koordinator": True},
], ids=["of a move", "on a cordoned node", "of Koordinator"])  # fmt: skip
def test_rooms_that_are_not_given_this_way(fields):
    assert given([waiting("a", tolerates=True)], held(**fields)) == ({}, [])


def test_a_room_for_several_waits_until_all_that_share_it_are_prepared():
    pool = held(size=Resources(cpu_milli=2000), allocate_once=False)
    pods = [waiting("a", tolerates=True), waiting("b"), waiting("c")]
    claims, preparing = given(pods, pool)
    assert claims == {}
    assert len(preparing) == 1
    assert given([waiting("a", tolerates=True), waiting("b", tolerates=True)], pool)[0] == {"r": ["a", "b"]}


def test_a_crowd_that_does_not_fit_costs_a_bounded_number_of_questions():
    crowd = [waiting(f"p{i:03}", labels={"app": "web", "n": str(i)}) for i in range(200)]
    rules = Takes(unfit={pod.name for pod in crowd})
    assert given(crowd, held(), rules=rules) == ({}, [])
    assert len(rules.asked) == MOST_KINDS_ASKED
    spec = PodSpec(requests=SIZE)
    alike = [waiting(f"p{i:03}", spec=spec) for i in range(200)]
    rules = Takes(unfit={pod.name for pod in alike})
    given(alike, held(), rules=rules)
    assert len(rules.asked) == 1


def test_a_crowd_with_our_toleration_costs_a_bounded_number_of_questions():
    crowd = [
        waiting(f"s{i:03}", labels={"app": "db"}, spec=PodSpec(tolerations=(hand_over_toleration("n1"),)))
        for i in range(200)
    ]
    rules = Takes()
    given([waiting("mine"), *crowd], held(), rules=rules)
    assert rules.others == MOST_ASKED


# The hand-over


def pending(name, state, *, tolerates=True):
    """A room whose claimant was never gated; ``state`` of the placeholder as in ``node_rooms``."""
    observed = room(name, state)
    [claimant] = observed.owners
    tolerations = (hand_over_toleration("n1"),) if tolerates else ()
    spec = replace(claimant.spec, gates=(), tolerations=tolerations)
    mine = replace(claimant, spec=spec, nominated_node="", created_at_s=NOW - 86_400)
    mine = mine.with_state(unschedulable_message="0/9 nodes")
    return dataclasses.replace(observed, owners=(mine,))


def decided(*rooms, rules=None, **fields):
    return ordered(*rooms, rules=rules or Takes(), **fields)


def test_the_node_is_tainted_and_the_taint_settles_before_the_placeholder_goes():
    sightings = Sightings()
    first = decided(pending("a", CLAIMED), sightings=sightings)["a"]
    assert (first.needs_taint, first.wait.reason) == (True, HandoverWait.TAINT_SETTLING)
    assert first.claimed_since_s == NOW
    shut = on_node(pending("a", CLAIMED), taints=(TAINT,))
    assert decided(shut, sightings=sightings, now=NOW + 1)["a"].wait.reason is HandoverWait.TAINT_SETTLING
    settled = decided(shut, sightings=sightings, now=NOW + 1 + SETTINGS.taint_settle_s)["a"]
    assert (settled.needs_taint, settled.wait) == (True, None)


def test_a_taint_whose_removal_is_on_its_way_holds_nothing():
    """It was removed for an earlier room, and the cache still shows it."""
    sightings = Sightings()
    shut = on_node(pending("a", CLAIMED), taints=(TAINT,))
    decided(shut, sightings=sightings)
    settled_s = NOW + SETTINGS.taint_settle_s
    assert decided(shut, sightings=sightings, now=settled_s)["a"].wait is None
    going = decided(shut, sightings=sightings, now=settled_s, unseen=("n1",))["a"]
    assert (going.needs_taint, going.wait.reason) == (True, HandoverWait.TAINT_SETTLING)


def test_the_taint_stays_until_the_pod_is_bound_but_not_for_ever():
    sightings = Sightings()
    shut = on_node(pending("a", EMPTY), taints=(TAINT,))
    first = decided(shut, sightings=sightings)["a"]
    assert (first.needs_taint, first.wait.reason) == (True, HandoverWait.BINDING)
    assert decided(shut, sightings=sightings, now=NOW + SETTINGS.landing_limit_s - 1)["a"].needs_taint
    assert not decided(shut, sightings=sightings, now=NOW + SETTINGS.landing_limit_s)["a"].needs_taint


def test_it_is_not_set_for_a_pod_that_does_not_tolerate_it():
    assert not decided(pending("a", CLAIMED, tolerates=False))["a"].needs_taint


def test_the_placeholder_stays_while_another_pod_behind_the_taint_would_take_the_room():
    """It got the toleration after the claim; the wait ends with the time that the claim has."""
    shut, sightings = on_node(pending("a", CLAIMED), taints=(TAINT,)), Sightings()
    decided(shut, sightings=sightings)
    later = {"now": NOW + SETTINGS.taint_settle_s, "sightings": sightings}
    assert decided(shut, waiting=(stranger(),), **later)["a"].wait.reason is HandoverWait.TOLERATED
    assert decided(shut, waiting=shut.owners, **later)["a"].wait is None
    unfit = Takes(unfit=("stranger",))
    assert decided(shut, waiting=(stranger(),), rules=unfit, **later)["a"].wait is None
    gone = on_node(pending("a", EMPTY), taints=(TAINT,))
    assert decided(gone, waiting=(stranger(),), **later)["a"].wait.reason is HandoverWait.BINDING


def test_a_node_that_is_not_usable_is_not_tainted():
    cordoned = on_node(pending("a", CLAIMED), unschedulable=True)
    found = decided(cordoned)["a"]
    assert (found.needs_taint, found.wait.reason) == (False, HandoverWait.NODE_NOT_USABLE)


def test_a_pod_that_no_longer_fits_is_said():
    assert decided(pending("a", CLAIMED), rules=Takes(unfit=("pod-a",)))["a"].unfit == "no"


def test_the_taint_is_given_back_by_whoever_comes_next():
    """After a crash: nothing is remembered, the taint is there, and the claim has ended or not."""
    shut = on_node(pending("a", EMPTY), taints=(TAINT,))
    going_on = decided(shut).values()
    assert taint_switches(going_on, [shut.node], lambda _: False).off == ()
    ended = replace(
        shut.reservation, status=replace(shut.reservation.status, phase=ReservationPhase.SUCCEEDED)
    )
    over = decided(dataclasses.replace(shut, reservation=ended)).values()
    assert taint_switches(over, [shut.node], lambda _: False).off == (shut.node,)


@pytest.mark.parametrize("neighbour", [CLAIMED, EMPTY, REFUSED])
def test_gated_claimants_of_the_node_do_not_wait_for_it(neighbour):
    alone = decided(room("b", neighbour))["b"].wait
    assert decided(pending("a", CLAIMED), room("b", neighbour))["b"].wait == alone
