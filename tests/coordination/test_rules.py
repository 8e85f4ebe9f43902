"""What our own rules remember within one round, and forget in the next."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.coordination.placement import Placement
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.names import HOSTNAME
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.replacements.replacement import Replacements


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


@pytest.mark.parametrize(("requested_s", "intents"), [(0.0, False), (5.0, False), (0.0, True)])
def test_required_affinity_relies_on_no_pod_whose_eviction_was_intended_in_the_same_round(
    requested_s, intents
):
    owner, other = (
        b.replicaset("web").cpu("1").near(HOSTNAME, app="db").replicas(1),
        b.replicaset("db").cpu("1"),
    )
    nodes = [b.node(name).cpu("8") for name in ("n1", "n2")]
    web, db = owner.pod("web-0").on("n1"), other.pod("db-0").label(app="db").on("n2")
    beside = other.pod("db-1").label(app="db").on("n1")
    snapshot = b.snapshot(nodes, owner, other, [web, db, beside])
    old = snapshot.pods[ObjectKey("default", "db-0")]
    status = MigrationStatus(phase=MigrationPhase.EVICTING, eviction_requested_at_s=requested_s)
    move = PodMigration(namespace="default", name="m", pod_name="db-0", pod_uid=old.uid, status=status)
    placement = Placement(namespace="rescheduler")
    known = dataclasses.replace(snapshot, migrations={move.key: move})
    placement.begin(
        Replacements(known), intent_s=lambda move: move.status.eviction_requested_at_s or 9.0 * intents
    )
    mine = snapshot.pods[ObjectKey("default", "web-0")]
    assert placement.fits(mine, "n2", None).ok is not (intents or bool(requested_s))


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
