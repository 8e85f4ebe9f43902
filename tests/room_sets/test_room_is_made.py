"""``makeRoom`` of ReservationWindows and HeadRooms on the sandbox: running pods step aside for rooms that fit nowhere."""

import msgspec
import pytest
from window_scene import HEAD_ROOM, WindowScene, template

from harness import documents
from kube_sandbox.controllers.unstructured import POD, GroupKind, spec
from rescheduler.model.resources import Resources
from rescheduler.room_sets.gathering import gather
from rescheduler.room_sets.places import WHOLE, Outlook
from rescheduler.room_sets.rooms import Recipe
from tests.controller.scenes import PENDING_PODS

MOVE = GroupKind("rescheduler.dev", "PodMigration")


def deployment(scene, name, cpu="1"):
    pod = documents.pod_spec(cpu)
    scene.api.create(documents.workload("Deployment", name, 1, pod, namespace="default"))


def scattered():
    """Three nodes of 4 CPUs, a pod of 1 CPU on each: a room of 4 CPUs fits once one of them has moved."""
    scene = WindowScene(nodes=3, cpu="4", document=PENDING_PODS)
    for name in "abc":
        deployment(scene, name)
    scene.until(lambda: sum(bool(spec(pod).get("nodeName")) for pod in scene.api.list(POD)) >= 3, 60)
    return scene


def places(scene):
    return sorted(
        spec(pod)["nodeName"]
        for pod in scene.api.list(POD)
        if pod["metadata"]["namespace"] == "default" and spec(pod).get("nodeName")
    )


def test_a_head_room_that_fits_nowhere_gets_its_room():
    scene = scattered()
    assert places(scene) == ["n0", "n1", "n2"]
    scene.head_room(rooms=1, template=template("4"), makeRoom=True)
    scene.until(lambda: scene.state("spare", HEAD_ROOM).get("rooms") == "1/1", 300)
    assert len(set(places(scene))) == 2


def test_without_the_wish_it_waits():
    scene = scattered()
    scene.head_room(rooms=1, template=template("4"))
    scene.advance(120)
    assert scene.state("spare", HEAD_ROOM)["rooms"] == "0/1"
    assert scene.api.list(MOVE) == []


def test_a_window_moves_nobody_before_it_gathers_and_then_as_many_as_it_needs():
    scene = scattered()
    times = {"cron": scene.cron_in(600), "startReserveAgo": "5m"}
    scene.window(podNumToReserve=1, template=template("4"), makeRoom=True, **times)
    scene.advance(120)
    assert scene.api.list(MOVE) == []
    scene.until(lambda: scene.state("nightly").get("rooms") == "1/1", 600)
    assert scene.state("nightly")["phase"] == "Gathering", "in time for its start"
    assert len(scene.api.list(MOVE)) == 1


def test_a_window_without_the_wish_moves_nobody():
    scene = scattered()
    scene.window(podNumToReserve=1, template=template("4"))
    scene.advance(250)
    assert scene.state("nightly")["rooms"] == "0/1"
    assert scene.api.list(MOVE) == []


def test_no_node_is_waited_on_where_others_step_aside():
    """A room of its own for each that is missing, so that not more pods move than are in the way."""
    likely = [Outlook(name, free=0, lacks=WHOLE, chances=WHOLE) for name in "abcd"]
    found = gather([Outlook("z", rooms=1), *likely], [], held=0, wanted=3, waits_on=0)
    assert [place.node for place in found.create] == ["z", "", ""]


@pytest.mark.parametrize(("node", "asks"), [("n1", False), ("", True)])
def test_only_rooms_for_no_certain_node_ask(node, asks):
    recipe = Recipe(
        kind="HeadRoom", name="h", uid="u", template=b'{"spec":{"containers":[]}}', room=Resources(),
        owners=(), makes_room=True,
    )  # fmt: skip
    made = msgspec.json.decode(recipe.create("x", 1, node).body)
    assert made["spec"].get("makeRoom", False) is asks
