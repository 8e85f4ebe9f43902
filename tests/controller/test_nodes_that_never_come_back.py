"""A room on a node whose kubelet does not answer any more: nothing of it stays, and nothing counts as held there."""

import pytest
from scenes import Scene

from harness.histories.user_requests import ROOM
from kube_sandbox.controllers.unstructured import NODE
from kube_sandbox.nodes import ready_condition


def silence(scene, name, value="Unknown"):
    node = scene.api.get(NODE, "", name)
    change = {"status": {"conditions": [ready_condition(value)]}}
    scene.api.patch(node, change, subresource="status")


@pytest.fixture
def scene():
    scene = Scene({"n1": 2, "n2": 2}).workload("Deployment", "web", ["n1"])
    scene.start()
    return scene


@pytest.mark.parametrize("delete_first", [False, True], ids=["fails", "was deleted"])
def test_the_placeholder_of_a_room_is_removed(scene, delete_first):
    scene.held_room(node="n2")
    silence(scene, "n2")
    if delete_first:
        scene.api.delete(scene.api.get(ROOM, "", "room"))
    scene.until(lambda: not scene.placeholders(), 300.0)
    assert scene.phase("room") == ("Deleted" if delete_first else "Failed")
    assert scene.leftovers() == []


def test_the_placeholder_of_a_move_is_removed(scene):
    (pod,) = scene.pods()
    move = scene.move(pod, "n2")
    scene.until(scene.placeholders)
    silence(scene, "n2")
    scene.until(lambda: scene.over(move) and not scene.placeholders(), 700.0)
    assert scene.leftovers() == []
