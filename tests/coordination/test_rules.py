"""What our own rules remember within one round, and forget in the next."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.coordination.placement import Placement
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import (
    ANNOTATION_MIGRATION,
    ANNOTATION_MIGRATION_UID,
    ANNOTATION_PENDING_POD,
    ANNOTATION_PENDING_POD_MOVES,
    HOSTNAME,
    ZONE,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import (
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.template import owner_of
from tests import records


def world(count, target_cpu):
    owner = b.replicaset("web").cpu("2").replicas(count)
    pods = [owner.pod(f"web-{i}").on("n1") for i in range(count)]
    return b.snapshot(b.node("n1").cpu("8"), b.node("n2").cpu(target_cpu), owner, pods)


def begun(snapshot):
    placement = Placement(namespace="rescheduler")
    placement.begin(Replacements(snapshot))
    return placement, [snapshot.pods[ObjectKey("default", f"web-{i}")] for i in range(2)]


def test_a_node_chosen_for_a_move_has_room_for_that_move_and_no_other():
    snapshot = world(2, "3")
    placement, (one, two) = begun(snapshot)
    assert placement.for_migration(one).node == "n2"
    assert placement.fits(one, "n2", None).ok
    assert not placement.fits(two, "n2", None).ok
    assert placement.for_migration(two).node == ""
    placement.begin(Replacements(snapshot))
    assert placement.fits(two, "n2", None).ok


@pytest.mark.parametrize(("cpu", "second"), [("3", ""), ("4", "n2")])
def test_rooms_chosen_in_one_round_add_up(cpu, second):
    snapshot = world(2, cpu)
    placement, (one, _) = begun(snapshot)
    rooms = [
        Reservation(name=name, uid="", template=one.spec, template_node="", status=ReservationStatus())
        for name in ("r1", "r2")
    ]
    full = b.snapshot(b.node("n2").cpu(cpu))
    placement.begin(Replacements(full))
    assert [placement.for_reservation(room).node for room in rooms] == ["n2", second]
    assert placement.for_reservation(rooms[0]).node == "n2"


def test_a_refusal_names_the_scheduler_s_reason():
    placement, (one, _) = begun(world(2, "1"))
    assert placement.fits(one, "n2", None).message == "NodeResourcesFit: Insufficient cpu"
    beside = placement.fits_beside(one, "n2").message
    assert beside == "NodeResourcesFit: Insufficient cpu, next to the running old pod"


def under_way(pod, node, **status):
    """A move of the pod that has begun."""
    return records.move_of(pod, MigrationPhase.EVICTING, name=pod.name, node_name=node, **status)


def judged(snapshot, moves, told_s=None):
    """``told_s``: when moves requested their evictions, by name, which the snapshot does not show yet."""
    placement = Placement(namespace="rescheduler")
    known = dataclasses.replace(snapshot, migrations={move.key: move for move in moves})
    placement.begin(
        Replacements(known),
        intent_s=lambda move: move.status.eviction_requested_at_s or (told_s or {}).get(move.name, 0.0),
    )
    return placement


def named(snapshot, name):
    return snapshot.pods[ObjectKey("default", name)]


@pytest.mark.parametrize(("mine", "other", "told", "fits"), [
    (None, {}, {}, False),
    ({"started_at_s": 1.0}, {"started_at_s": 2.0}, {}, True),
    ({"started_at_s": 2.0}, {"started_at_s": 1.0}, {}, False),
    ({"started_at_s": 1.0}, {"started_at_s": 2.0, "eviction_requested_at_s": 9.0}, {}, False),
    ({"started_at_s": 1.0}, {"started_at_s": 2.0}, {"db-0": 9.0}, False),
    ({"started_at_s": 2.0, "eviction_requested_at_s": 8.0}, {"started_at_s": 1.0}, {"db-0": 9.0}, True),
], ids=["a new one", "first", "second", "the other evicts", "told only", "both evict"])  # fmt: skip
def test_of_two_moves_in_each_other_s_way_one_goes_on(mine, other, told, fits):
    """Required affinity relies on no pod that a move takes away before."""
    web = b.replicaset("web").near(HOSTNAME, app="db").replicas(1)
    db = b.replicaset("db").replicas(2)
    pods = [
        web.pod("web-0").on("n1"),
        db.pod("db-0").label(app="db").on("n2"),
        db.pod("db-1").label(app="db").on("n1"),
    ]
    snapshot = b.snapshot([b.node(name).cpu("8") for name in ("n1", "n2", "n3")], web, db, pods)
    moves = [under_way(named(snapshot, "db-0"), "n3", **other)]
    if mine is not None:
        moves.append(under_way(named(snapshot, "web-0"), "n2", **mine))
    placement = judged(snapshot, moves, told)
    assert placement.fits(named(snapshot, "web-0"), "n2", None).ok is fits


def of_an_app_alone_on_its_node(*nodes):
    """web-0 on the first node, and so on; n3 is free."""
    owner = b.statefulset("web").apart(HOSTNAME, app="web").label(app="web").replicas(len(nodes))
    pods = [owner.pod(f"web-{i}").on(node) for i, node in enumerate(nodes)]
    return b.snapshot([b.node(f"n{i}").cpu("8").label({HOSTNAME: f"n{i}"}) for i in (1, 2, 3)], owner, pods)


@pytest.mark.parametrize("old", ["runs", "ends", "is gone"])
def test_nobody_is_sent_where_the_replacement_of_a_move_keeps_it_off(old):
    """Its placeholder has no labels, and its old pod may take minutes to end: meanwhile no second pod may be evicted for that node."""
    snapshot = of_an_app_alone_on_its_node("n1", "n2")
    pod = named(snapshot, "web-0")
    first = under_way(pod, "n3", eviction_requested_at_s=1.0, reservation_name="first")
    pods = {key: each for key, each in snapshot.pods.items() if each is not pod}
    if old != "is gone":
        pods[pod.key] = pod.with_state(deleting=old == "ends")
    held = records.room(
        "first",
        ReservationPhase.AVAILABLE,
        annotations={ANNOTATION_MIGRATION: "default/web-0", ANNOTATION_MIGRATION_UID: first.uid},
        owners=(owner_of("default", pod.controller),),
        node_name="n3",
    )
    snapshot = dataclasses.replace(snapshot, pods=pods, reservations={"first": held})
    placement, second = judged(snapshot, [first]), named(snapshot, "web-1")
    assert "rules between pods must hold" in placement.fits(second, "n3", None).message
    assert placement.for_migration(second).node == ("n1" if old == "is gone" else "")
    room = Reservation(name="r", uid="", template=second.spec, template_labels=second.labels)
    assert placement.for_reservation(room).node != "n3"
    assert old == "is gone" or placement.fits(pod, "n3", None).ok


@pytest.mark.parametrize("claimed", [False, True])
def test_nobody_is_sent_where_a_pending_pod_gets_room_that_keeps_it_off(claimed):
    """Others step aside for it, and its placeholder, if it has one, has no labels. Once it has claimed its room it is a pod like others."""
    snapshot = of_an_app_alone_on_its_node("n1", "n2")
    second = named(snapshot, "web-1")
    waits = msgspec.structs.replace(second, name="web-2", uid="w2", node="")
    this = ObjectRef("default", "web-2", "w2")
    room = records.room(
        "for-web-2",
        ReservationPhase.WAITING,
        annotations={ANNOTATION_PENDING_POD: "default/web-2", ANNOTATION_PENDING_POD_MOVES: "1"},
        owners=(ReservationOwner(object=this),),
        template_node="n3",
        node_name="n3",
        current_owners=(this,) if claimed else (),
    )
    known = {**snapshot.pods, waits.key: waits}
    placement = judged(dataclasses.replace(snapshot, pods=known, reservations={room.name: room}), [])
    assert "InterPodAffinity" in placement.fits(second, "n3", None).message
    assert placement.for_migration(second).node == ""


def test_moves_within_a_zone_do_not_count_twice_for_topology_spread():
    """The old pod of another move and the room that was chosen for it are one pod."""
    owner = b.replicaset("web").spread(ZONE, 1, app="web").label(app="web").replicas(3)
    nodes = [b.node(name).cpu("8").zone(zone) for name, zone in (("a", "a"), ("b1", "b"), ("b2", "b"))]
    pods = [owner.pod(f"web-{i}").on(node) for i, node in enumerate(("a", "b1", "b1"))]
    snapshot = b.snapshot(nodes, owner, pods)
    move = records.move_of(named(snapshot, "web-1"), MigrationPhase.RESERVING, node_name="b2")
    assert judged(snapshot, [move]).fits(named(snapshot, "web-2"), "b2", None).ok


@pytest.mark.parametrize(
    ("sizes", "first"),
    [(["2"], "other-0"), (["1"], None), (["1", "1"], "other-0"), (["4"], None), (["4", "2"], "other-1")],
    ids=["takes all", "fits beside", "two together", "fits nowhere", "the second one"],
)
def test_who_would_be_bound_in_the_room_of_another_pod(sizes, first):
    """The placeholder holds all 3 CPU of the node, and the pod that the room is for needs 2."""
    holder = b.pod("holder", "rescheduler").cpu("3").on("n1")
    others = [b.pod(f"other-{i}").cpu(size) for i, size in enumerate(sizes)]
    snapshot = b.snapshot(b.node("n1").cpu("3"), holder, b.pod("mine").cpu("2"), others)
    placement = Placement(namespace="rescheduler")
    placement.begin(Replacements(snapshot))
    pods = {pod.name: pod for pod in snapshot.pods.values()}
    rivals = [pods[f"other-{i}"] for i in range(len(sizes))]
    found = placement.overtaking([pods["mine"]], rivals, "n1", pods["holder"])
    assert (found.name if found is not None else None) == first
    assert placement.would_take(pods["mine"], "n1", pods["holder"]).ok, "the state is left as it was"
