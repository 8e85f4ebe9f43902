"""Rooms for workloads that do not exist yet, or not in this revision: their first pods land there, on both clusters."""

import pytest
from reserving import SANDBOX, look, of_web, on, phase, reserve
from test_scaling_into_rooms import KINDS

from harness.controlplane.world import World, gates_of
from rescheduler.model.names import ANNOTATION_RESERVATION

pytestmark = pytest.mark.usefixtures("api")


@pytest.mark.parametrize(("cluster", "kind"), [*KINDS, ("embedded_api", "ReplicaSet")], indirect=["cluster"])
def test_the_first_pods_of_a_workload_that_is_created_later_use_its_rooms(world, kind):
    nodes = [world.node(f"full{i}", cpu="1") for i in range(2)]
    owner = {
        "controller": {"apiVersion": "apps/v1", "kind": kind, "name": "web", "namespace": world.namespace}
    }
    for index, node in enumerate(nodes):
        reserve(world, f"r{index}", owner, node=node).expect()
    for index in range(2):
        phase(world, f"r{index}", "Available")
    world.crowd(4)
    world.workload(kind, "web", 2)
    for index, node in enumerate(nodes):
        phase(world, f"r{index}", "Succeeded", 120)
        assert on(world, node)
    assert on(world, nodes[0], "crowd") == on(world, nodes[1], "crowd") == []


def test_a_room_of_a_deployment_waits_for_it_through_a_rollout(world):
    world.node("small", cpu="100m")
    world.running("Deployment", "web", 1, "100m")
    node = world.node("full", cpu="1")
    reserve(world, "room", of_web(world), node=node).expect()
    phase(world, "room", "Available")
    template = {
        "metadata": {"annotations": {"again": "1"}},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": node}},
    }
    path = world.path("deployments", "web", group="apps/v1")
    world.api.patch(path, {"spec": {"template": template}}).expect()
    phase(world, "room", "Succeeded", 120)
    (name,) = world.wait(lambda: on(world, node), 120)
    assert world.get_pod(name)["metadata"]["annotations"][ANNOTATION_RESERVATION].endswith("-room")


@SANDBOX
def test_a_workload_of_that_name_in_another_namespace_is_left_alone(world):
    node = world.node("full", cpu="1")
    reserve(world, "room", of_web(world), node=node).expect()
    phase(world, "room", "Available")
    with World(world.api, "else") as another:
        another.workload("Deployment", "web", 1)
        (pod,) = another.wait(lambda: another.pods("web"), 120)
        assert gates_of(pod) == []
        assert ANNOTATION_RESERVATION not in (pod["metadata"].get("annotations") or {})
    assert look(world, "room")["phase"] == "Available"
