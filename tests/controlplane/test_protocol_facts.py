"""Facts of Kubernetes 1.37 that a move rests on, by raw calls: if one of these fails, the protocol must be thought over."""

import pytest

from harness.controlplane.world import controller_reference, gates_of, keys_on, node_of
from rescheduler.kube.transport import TransportError
from rescheduler.model.controller_key import controller_key
from rescheduler.model.names import GATE

pytestmark = pytest.mark.realcluster

GATE_KEYS = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"
ROOMS = 6
HAND_OVER = "rescheduler.dev/hand-over"


@pytest.fixture(scope="module")
def high(control_plane):
    body = {"metadata": {"name": "facts-high"}, "value": 5000}
    control_plane.api().create("/apis/scheduling.k8s.io/v1/priorityclasses", body).expect()
    return "facts-high"


def hold(world, name, node, cpu="2", **more):
    """A placeholder pinned to a node by name."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return world.pod(
        name,
        cpu,
        **world.like_placeholders(),
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        **more,
    )


def stampede(world, high=None):
    """Full nodes, one room held on each of ROOMS targets, and three times as many pods waiting for any room."""
    targets = [world.node(f"target{n}", cpu="2") for n in range(ROOMS)]
    held = [hold(world, f"held{n}", target) for n, target in enumerate(targets)]
    for pod in held:
        world.wait_bound(pod["metadata"]["name"])
    more = {"priorityClassName": high} if high else {}
    for number in range(3 * ROOMS):
        world.pod(f"rival{number}", cpu="2" if number % 2 else "1", **more)
    for number in range(3 * ROOMS):
        world.wait_unschedulable(f"rival{number}")
    claimants = [world.pod(f"claimant{n}", cpu="2", gates=[GATE]) for n in range(ROOMS)]
    return targets, held, claimants


def landed(world, targets, claimants):
    """How many claimants are on their own target in the end."""
    for claimant in claimants:
        name = claimant["metadata"]["name"]
        world.wait(lambda name=name: node_of(world.get_pod(name)) or _refused(world.get_pod(name)))
    return sum(
        node_of(world.get_pod(c["metadata"]["name"])) == t for c, t in zip(claimants, targets, strict=True)
    )


def _refused(pod):
    return any(
        c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable"
        for c in pod["status"].get("conditions", [])
    )


def test_nominated_rooms_are_handed_over_under_a_stampede(world):
    targets, held, claimants = stampede(world)
    for claimant, target, room in zip(claimants, targets, held, strict=True):
        world.nominate(claimant, target).expect(200)
        world.delete_pod(room).expect(200)
        world.wait_gone(room)
        world.ungate(claimant).expect(200)
    assert landed(world, targets, claimants) == ROOMS


def test_rooms_without_a_nomination_are_lost_under_a_stampede(world):
    targets, held, claimants = stampede(world)
    for claimant, room in zip(claimants, held, strict=True):
        world.delete_pod(room).expect(200)
        world.wait_gone(room)
        world.ungate(claimant).expect(200)
    assert landed(world, targets, claimants) < ROOMS / 2


def test_nominations_outlive_a_restart_of_the_scheduler(world, control_plane):
    targets, held, claimants = stampede(world)
    for number, (claimant, target, room) in enumerate(zip(claimants, targets, held, strict=True)):
        world.nominate(claimant, target).expect(200)
        world.delete_pod(room).expect(200)
        world.wait_gone(room)
        if number % 3 == 0:
            control_plane.restart_scheduler()
        world.ungate(claimant).expect(200)
    assert landed(world, targets, claimants) == ROOMS


def test_waiting_pods_of_higher_priority_take_a_nominated_room_and_a_taint_keeps_them_off(world, high):
    targets, held, claimants = stampede(world, high)
    lost, kept = 0, 1
    for number in (lost, kept):
        world.nominate(claimants[number], targets[number]).expect(200)
    world.taint(targets[kept], HAND_OVER, value="room")
    probe = hold(world, "probe", targets[kept], cpu="1m")
    world.wait_unschedulable("probe", "untolerated taint")
    world.delete_pod(probe).expect(200)
    for number in (lost, kept):
        world.delete_pod(held[number]).expect(200)
        world.wait_gone(held[number])
    tolerations = [*claimants[kept]["spec"]["tolerations"], {"key": HAND_OVER, "operator": "Exists"}]
    body = {
        "metadata": {"uid": claimants[kept]["metadata"]["uid"]},
        "spec": {"tolerations": tolerations, "schedulingGates": [{"name": GATE, "$patch": "delete"}]},
    }
    kind = "application/strategic-merge-patch+json"
    world.api.patch(world.path("pods", "claimant1"), body, kind).expect(200)
    world.ungate(claimants[lost]).expect(200)
    assert world.wait_bound("claimant1") == targets[kept]
    world.wait_unschedulable("claimant0")


def test_a_refused_pod_loses_its_nomination(world):
    node = world.node("a", cpu="2")
    pod = world.pod("p", cpu="2", gates=[GATE])
    world.nominate(pod, node).expect(200)
    world.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}).expect(200)
    world.ungate(pod).expect(200)
    world.wait_unschedulable("p")
    world.wait(lambda: not world.get_pod("p")["status"].get("nominatedNodeName"))


def test_a_gated_and_nominated_placeholder_collects_room_that_is_freed_in_pieces(world):
    node = world.node("a", cpu="2")
    pieces = [world.pod(f"piece{n}", cpu="1") for n in range(2)]
    for piece in pieces:
        world.wait_bound(piece["metadata"]["name"])
    for number in range(4):
        world.pod(f"rival{number}", cpu="1")
        world.wait_unschedulable(f"rival{number}")
    promised = hold(world, "promised", node, gates=[GATE])
    world.nominate(promised, node).expect(200)
    for piece in pieces:
        world.delete_pod(piece).expect(200)
        world.wait_gone(piece)
    world.ungate(promised).expect(200)
    assert world.wait_bound("promised") == node


def test_part_of_a_placeholder_is_handed_out_while_the_rest_stays_held(world):
    node = world.node("a", cpu="4")
    whole = hold(world, "whole", node, cpu="4")
    world.wait_bound("whole")
    for number in range(4):
        world.pod(f"rival{number}", cpu="1")
        world.wait_unschedulable(f"rival{number}")
    claimant = world.pod("claimant", cpu="1", gates=[GATE])
    rest = hold(world, "rest", node, cpu="3", gates=[GATE])
    for pod in (claimant, rest):
        world.nominate(pod, node).expect(200)
    world.delete_pod(whole).expect(200)
    world.wait_gone(whole)
    for pod in (rest, claimant):
        world.ungate(pod).expect(200)
    assert (world.wait_bound("rest"), world.wait_bound("claimant")) == (node, node)


def test_the_gate_holds_the_very_next_pod_after_a_proof(world):
    held = []
    for number in range(5):
        owner = world.api.create(world.path("configmaps"), {"metadata": {"name": f"owner{number}"}}).expect(
            201
        )
        owner.body.update(apiVersion="v1", kind="ConfigMap")
        reference = controller_reference(owner.body)
        world.api.patch(GATE_KEYS, keys_on({controller_key(world.namespace, owner.uid): "room"})).expect(200)
        probe = {"metadata": {"name": "probe", "ownerReferences": [reference]}, "spec": world.spec()}
        world.wait(
            lambda probe=probe: gates_of(
                world.api.create(world.path("pods"), probe, dryRun="All").expect(201).body
            ),
            seconds=2,
        )
        held.append(gates_of(world.pod(f"replacement{number}", owner=reference)))
        world.api.patch(GATE_KEYS, {"data": {controller_key(world.namespace, owner.uid): None}}).expect(200)
    assert held == [[GATE]] * 5


def test_the_gate_is_in_force_from_the_first_answer_of_a_restarted_api_server(world, control_plane):
    owner = world.api.create(world.path("configmaps"), {"metadata": {"name": "owner"}}).expect(201)
    owner.body.update(apiVersion="v1", kind="ConfigMap")
    reference = controller_reference(owner.body)
    world.api.patch(GATE_KEYS, keys_on({controller_key(world.namespace, owner.uid): "room"})).expect(200)
    control_plane.stop_apiserver()
    with pytest.raises(TransportError):
        world.api.get("/version")
    control_plane.start_apiserver()
    assert gates_of(world.pod("p", owner=reference)) == [GATE]
    world.api.patch(GATE_KEYS, {"data": {controller_key(world.namespace, owner.uid): None}}).expect(200)


def test_a_successor_of_the_same_name_is_not_hit(world):
    world.node("a", cpu="8")
    (first,) = world.running("StatefulSet", "db", 1)
    world.evict(first).expect(201)
    world.wait_gone(first)
    (second,) = world.wait_ready("db", 1)
    assert second["metadata"]["name"] == first["metadata"]["name"]
    assert world.evict(first).status == 409
    assert world.delete_pod(first).status == 409
    assert world.nominate(first, "x").status == 422
    assert world.ungate(first).status == 422
    assert world.get_pod("db-0")["metadata"]["uid"] == second["metadata"]["uid"]
