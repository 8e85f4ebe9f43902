"""Owners of a Reservation that request what its template does not name, or more than it holds; on both clusters."""

import pytest
from reserving import SANDBOX, look, phase, reserve, told

from harness.controlplane.world import condition

pytestmark = pytest.mark.usefixtures("api")


def asking(amounts):
    return {"containers": [{"name": "main", "image": "pause", "resources": {"requests": amounts}}]}


def mine(world):
    return {"object": {"namespace": world.namespace, "name": "mine"}}


def test_what_the_template_does_not_name_comes_from_the_node(world):
    node = world.node("one", cpu="8", memory="32Gi")
    world.node("two", cpu="8", memory="32Gi")
    reserve(world, "room", mine(world), node=node, cpu="7").expect()
    phase(world, "room", "Available")
    world.pod("mine", **asking({"cpu": "7", "memory": "100Mi"}))
    assert world.wait_bound("mine") == node
    phase(world, "room", "Succeeded")


def test_several_owners_share_a_room_that_names_cpu_only(world):
    node = world.node("one", cpu="8", memory="32Gi")
    owner = {"labelSelector": {"matchLabels": {"app": "mine"}}}
    reserve(world, "room", owner, node=node, cpu="6", allocateOnce=False).expect()
    phase(world, "room", "Available")
    for number in range(2):
        world.pod(f"mine-{number}", labels={"app": "mine"}, **asking({"cpu": "2", "memory": "1Gi"}))
    for number in range(2):
        assert world.wait_bound(f"mine-{number}") == node
    world.wait(lambda: look(world, "room").get("allocated", {}).get("cpu") == "4")
    assert look(world, "room")["phase"] == "Available"
    assert "memory" not in look(world, "room")["allocatable"]


@SANDBOX
@pytest.mark.parametrize(("amounts", "words"), [
    ({"cpu": "8"}, "it requests 8 of cpu, and the Reservation holds 7"),
    ({"cpu": "7", "memory": "64Gi"}, "Insufficient memory"),
], ids=["larger", "node"])  # fmt: skip
def test_what_keeps_an_owner_out_is_a_condition(world, amounts, words):
    node = world.node("one", cpu="8", memory="32Gi")
    reserve(world, "room", mine(world), node=node, cpu="7").expect()
    phase(world, "room", "Available")
    pod = world.pod("mine", **asking(amounts))
    world.wait_unschedulable("mine")
    said = told(world, "room", "OwnersWait", f"pod {world.namespace}/mine waits: ")
    assert (said["status"], said["reason"]) == ("True", "OwnerKeptOut")
    assert words in said["message"]
    assert look(world, "room")["phase"] == "Available"
    world.delete_pod(pod)
    world.wait(lambda: condition({"status": look(world, "room")}, "OwnersWait").get("status") == "False")
