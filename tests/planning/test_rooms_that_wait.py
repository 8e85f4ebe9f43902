"""Reservations that fit nowhere and want running pods to step aside (``makeRoom``), in a plan."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.names import (
    ANNOTATION_PENDING_POD,
    ANNOTATION_PENDING_POD_MOVES,
    DEFAULT_NAMESPACE,
    GATE_ROOM,
    HOSTNAME,
    LABEL_PLACEHOLDER,
)
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import ObjectKey, OwnerRef, PodSpec, PriorityClass
from rescheduler.model.reservation import (
    MakingRoom,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.model.times import format_seconds
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.planning.summary import badness_now
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.policies.pending_pods import PendingPods, PendingPodsArgs
from rescheduler.reports.objective_words import rooms_section
from rescheduler.scheduling.state import SchedulingState
from tests import records
from tests.records import pod_record

OWNER = ReservationOwner(object=ObjectRef("shop", "big", ""))


def web(name, node, *, cpu="1", priority=0):
    owner = b.replicaset(name).cpu(cpu).replicas(1).priority(priority)
    return [owner, owner.pod(f"{name}-1").on(node)]


def nodes(*cpus):
    return [b.node(f"n{number}").cpu(cpu) for number, cpu in enumerate(cpus, 1)]


def refused(reason="Unschedulable", kind="Scheduled", since_s=1.0):
    moment = format_seconds(since_s)
    return Condition(kind, "False", reason, "no node", last_probe_time=moment, last_transition_time=moment)


def room(name="big", cpu=2000, *, told=None, phase=ReservationPhase.PENDING, making=None, **fields):
    spec = PodSpec(requests=Resources(cpu_milli=cpu), **fields.pop("spec", {}))
    told = (refused(),) if told is None else told
    given = {"uid": f"uid-{name}", "template": spec, "owners": (OWNER,), "make_room": True, **fields}
    return records.room(name, phase, conditions=told, making_room=making, **given)


def made(*items, rooms, classes=(), **args):
    snapshot = dataclasses.replace(
        b.snapshot(*items),
        reservations={one.name: one for one in rooms},
        priority_classes={one.name: one for one in classes},
    )
    policy = PendingPods(PendingPodsArgs(**args))
    return plan(snapshot, [policy], PlanningInputs(unlimited=True), SchedulingState(snapshot))


def steps(found):
    return [(move.pod.name, move.target) for move in found.moves]


def test_a_pod_steps_aside_for_a_reservation():
    found = made(*nodes("2", "1"), *web("a", "n1"), rooms=[room()])
    assert steps(found) == [("a-1", "n2")]
    assert [move.message for move in found.moves] == ["makes room for Reservation big"]
    (wanted,) = found.rooms
    assert (wanted.reservation, wanted.node) == ("big", "n1")
    assert rooms_section(found).rows == [("Reservation big", "n1", "default/a-1", "-")]
    before, after = found.before, found.after
    assert (before.policies[0].badness.pending, after.policies[0].badness.pending) == (1, 0)
    assert (before.pending_pods, after.pending_pods) == (0, 0), "no pod waits"


@pytest.mark.parametrize("one", [
    room(make_room=False),
    room(told=(refused("BeyondShare"),)),
    room(told=()),
    room(told=(refused(since_s=b.NOW_S - 30),)),
    room(deleting=True),
    room(unreadable="spec.ttl"),
    room(template=None),
    room(making=MakingRoom(node="n1", moves=1, attempt="x", since_s=1.0)),
    room(cpu=1000),
    room(phase=ReservationPhase.AVAILABLE),
], ids=["not asked for", "beyond its share", "not looked at", "since a moment", "deleted", "unreadable", "no template", "under way", "fits", "held"])  # fmt: skip
def test_nobody_steps_aside_for(one):
    assert steps(made(*nodes("2", "1"), *web("a", "n1"), rooms=[one])) == []


def test_the_node_that_the_template_names_is_the_only_one():
    items = [*nodes("2", "2", "1"), *web("a", "n1"), *web("b", "n2")]
    for node, mover in (("n1", "a-1"), ("n2", "b-1")):
        assert [pod for pod, _ in steps(made(*items, rooms=[room(template_node=node)]))] == [mover]


def test_of_higher_priority_is_whoever_the_template_is_not():
    """By PriorityClass: a number in the template says nothing, and pods of a class that is missing cannot exist."""
    items = [*nodes("2", "1"), *web("a", "n1", priority=10)]
    classes = (PriorityClass("high", 10), PriorityClass("usual", 5, default=True))
    lower = [room(), room(spec={"priority": 1000}), room(spec={"priority_class": "gone"})]
    assert [steps(made(*items, rooms=[one], classes=classes)) for one in lower] == [[], [], []]
    high = room(spec={"priority_class": "high"})
    assert steps(made(*items, rooms=[high], classes=classes)) == [("a-1", "n2")]


def test_room_under_way_is_counted_where_it_is_made():
    """n1 is kept for one of them, so the other gets n2, and nobody moves to n1."""
    under_way = room("first", making=MakingRoom(node="n1", moves=1, attempt="x", since_s=1.0))
    found = made(*nodes("2", "2", "1"), *web("b", "n2"), rooms=[under_way, room("second")])
    assert {wanted.reservation: wanted.node for wanted in found.rooms} == {"second": "n2"}
    assert steps(found) == [("b-1", "n3")]


def test_a_preallocated_one_may_get_another_node():
    waits = room(
        phase=ReservationPhase.WAITING, told=(refused("WaitingForRoom", "Ready"),), pre_allocation=True
    )
    status = msgspec.structs.replace(waits.status, node_name="n1")
    waits = msgspec.structs.replace(waits, status=status)
    items = [*nodes("2", "2", "1"), b.pod("stays").cpu("1").on("n1"), *web("b", "n2")]
    assert [(one.node, [pod.name for pod in one.moves]) for one in made(*items, rooms=[waits]).rooms] == [
        ("n2", ["b-1"])
    ]


def test_why_nothing_helps_is_said():
    (wanted,) = made(*nodes("2"), *web("a", "n1"), rooms=[room(cpu=9000)]).rooms
    assert (wanted.node, wanted.message) == (
        "",
        "no node that would take it is large enough, even without the pods there",
    )


def test_a_pod_that_waits_and_a_reservation_share_what_there_is():
    items = [*nodes("2", "1"), *web("a", "n1"), b.pod("waits").cpu("2").unschedulable().priority(1)]
    found = made(*items, rooms=[room()])
    assert {wanted.reservation or wanted.pod.name: wanted.node for wanted in found.rooms} == {
        "waits": "n1",
        "big": "",
    }


def test_for_the_rest_of_a_room_others_step_aside():
    """One pod has left n1 already; the one that stayed may be moved now, and n1 takes the fewest moves."""
    told = (refused("WaitingForRoom", "Ready"),)
    rest = MakingRoom(node="n1", moves=0, attempt="", since_s=b.NOW_S)
    waits = room(phase=ReservationPhase.WAITING, told=told, making=rest)
    items = [*nodes("2", "2", "1"), *web("a", "n1"), *web("b", "n2"), *web("c", "n2")]
    assert steps(made(*items, rooms=[waits])) == [("a-1", "n3")]


def test_for_the_rest_of_the_room_of_a_pending_pod_others_step_aside_on_its_node_only():
    """n2 would take the fewest moves for the pod, but a part of n1 is kept for it already; the pod is planned for once."""
    pod = b.pod("waits").cpu("2").unschedulable().priority(1).build()
    told = (refused("WaitingForRoom", "Ready"),)
    rest = MakingRoom(node="n1", moves=0, attempt="", since_s=b.NOW_S)
    waits = room(phase=ReservationPhase.WAITING, told=told, making=rest, pre_allocation=True)
    mine = msgspec.structs.replace(
        waits,
        make_room=False,
        template_node="n1",
        annotations=LabelSet({ANNOTATION_PENDING_POD: str(pod.key), ANNOTATION_PENDING_POD_MOVES: "1"}),
        owners=(ReservationOwner(object=ObjectRef(pod.namespace, pod.name, pod.uid)),),
    )
    items = [
        *nodes("2", "2", "1", "1"),
        *web("a", "n1"),
        *web("c", "n1"),
        *web("b", "n2"),
        b.pod("waits").cpu("2").unschedulable().priority(1),
    ]
    found = made(*items, rooms=[mine])
    assert [(one.reservation, one.node) for one in found.rooms] == [(mine.name, "n1")]
    assert {name for name, _ in steps(found)} == {"a-1", "c-1"}


def test_how_bad_the_placement_is_counts_reservations_that_wait():
    snapshot = b.snapshot(*nodes("2", "1"), *web("a", "n1"), b.pod("waits").cpu("2").unschedulable())
    waiting = [room(), room("second"), room("held", told=())]
    snapshot = dataclasses.replace(snapshot, reservations={one.name: one for one in waiting})
    state, policy = SchedulingState(snapshot), PendingPods(PendingPodsArgs())
    for _ in range(2):
        (found,) = badness_now(snapshot, [policy], state).values()
        assert found.by_tier() == {"pending": 3}
    assert [pod.name for pod in state.unplaced.values()] == ["waits"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("nominated", "moves"), [("n1", []), ("", [("x-1", "n1")])])
def test_a_preallocated_one_keeps_its_node_from_other_moves_where_nobody_can_step_aside(
    first, nominated, moves
):
    told = (refused("WaitingForRoom", "Ready"),)
    waits = room(phase=ReservationPhase.WAITING, told=told, pre_allocation=True)
    holder = pod_record(
        namespace=DEFAULT_NAMESPACE,
        name="holder",
        uid="holder",
        labels=LabelSet({LABEL_PLACEHOLDER: "big"}),
        controller=OwnerRef("rescheduler.dev/v1alpha1", "Reservation", "big", waits.uid),
        nominated_node=nominated,
        spec=PodSpec(requests=Resources(cpu_milli=2000), gates=(GATE_ROOM,), priority=1_000_000_000),
    )
    tainted = b.node("n2").cpu("1").taint("example.com/old")
    items = [b.node("n1").cpu("2"), tainted, b.pod("stays").cpu("1").on("n1"), *web("x", "n2")]
    snapshot = b.snapshot(*items)
    snapshot = dataclasses.replace(
        snapshot, reservations={"big": waits}, pods={**snapshot.pods, holder.key: holder}
    )
    policies = [NodeTaints(NodeTaintsArgs()), PendingPods(PendingPodsArgs())]
    for _ in range(2):
        found = plan(
            snapshot,
            policies if first else policies[::-1],
            PlanningInputs(unlimited=True, namespace=DEFAULT_NAMESPACE),
            SchedulingState(snapshot),
        )
        assert steps(found) == moves


def test_a_room_for_several_that_is_used_completely_takes_no_pod_slot_besides_its_owners():
    items = [
        b.node("n1").cpu("4").taint("example.com/old"),
        b.node("n2").cpu("4").set("status.allocatable.pods", "2"),
        *web("big", "n2", cpu="2"),
        *web("a", "n1"),
    ]
    snapshot = b.snapshot(*items)
    owner = next(pod for pod in snapshot.pods.values() if pod.name == "big-1")
    used = room(phase=ReservationPhase.AVAILABLE, told=(), make_room=False, allocate_once=False)
    amounts = Resources(cpu_milli=2000)
    status = msgspec.structs.replace(
        used.status,
        node_name="n2",
        allocated=amounts,
        allocatable=amounts,
        current_owners=(ObjectRef(owner.namespace, owner.name, owner.uid),),
    )
    used = msgspec.structs.replace(used, status=status)
    snapshot = dataclasses.replace(snapshot, reservations={used.name: used})
    found = plan(
        snapshot,
        [NodeTaints(NodeTaintsArgs())],
        PlanningInputs(unlimited=True),
        SchedulingState(snapshot),
    )
    assert steps(found) == [("a-1", "n2")]


def test_a_move_goes_where_it_may_stand_beside_the_pods_that_rooms_are_for(decide, landings):
    """Their placeholders have none of the labels, so the last look before the eviction would refuse what a plan chose beside them."""
    apart = b.replicaset("db").apart(HOSTNAME, app="db").label(app="db")
    nodes = [b.node(f"n{i}").label({HOSTNAME: f"n{i}"}) for i in (1, 2, 3)]
    cluster = b.snapshot(nodes[0].taint("old"), nodes[1:], apart, apart.pod("db-0").on("n1"))
    holder = b.pod("room-x", "rescheduler").label({LABEL_PLACEHOLDER: "room"}).on("n2").build()
    owner = OwnerRef("rescheduler.dev/v1alpha1", "Reservation", "room", "room")
    pod = cluster.pods[ObjectKey("default", "db-0")]
    room = records.room(
        "room", ReservationPhase.AVAILABLE, template=pod.spec, template_labels=pod.labels, node_name="n2"
    )
    held = msgspec.structs.replace(holder, controller=owner)
    assert landings(decide(cluster, "NodeTaints")) == {"db-0": "n2"}
    beside = dataclasses.replace(cluster, pods={**cluster.pods, held.key: held}, reservations={"room": room})
    assert landings(decide(beside, "NodeTaints")) == {"db-0": "n3"}
