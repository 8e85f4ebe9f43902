"""A node that takes no pods any more, at each step of a move into it: its replacement is placed elsewhere at once."""

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import NODE, deleting, spec, status
from kube_sandbox.nodes import ready_condition
from rescheduler.model.names import GATE

LONGEST_GATED_S = 5.0


def cordoned(scene, node):
    scene.cordon(node)


def tainted(scene, node):
    scene.taint(node)


def not_ready(scene, node):
    found = scene.api.get(NODE, "", node)
    scene.api.patch(found, {"status": {"conditions": [ready_condition("False")]}}, subresource="status")


def deleted(scene, node):
    scene.api.delete(scene.api.get(NODE, "", node))


def gated(pod):
    return any(g["name"] == GATE for g in spec(pod).get("schedulingGates") or ())


def web(change):
    pod = change.object
    return pod["kind"] == "Pod" and pod["metadata"].get("labels", {}).get("app") == "web"


def room_of_move(change):
    return change.object["kind"] == "Reservation"


STEPS = {
    "evicted": lambda c: web(c) and deleting(c.object),
    "replaced": lambda c: web(c) and gated(c.object),
    "claimed": lambda c: room_of_move(c) and bool(status(c.object).get("currentOwners")),
    "nominated": lambda c: web(c) and bool(status(c.object).get("nominatedNodeName")),
    "placeholder ending": lambda c: (
        c.object["metadata"].get("namespace") == "rescheduler"
        and c.object["kind"] == "Pod"
        and c.type == "DELETED"
        and "probe" not in c.object["metadata"]["name"]
    ),
}


@pytest.mark.crossed
@pytest.mark.parametrize("trouble", [cordoned, tainted, not_ready, deleted])
@pytest.mark.parametrize("step", STEPS)
def test_the_replacement_is_placed_elsewhere_at_once(step, trouble):
    scene = Scene({"n1": 2, "n2": 4, "n3": 4, "n4": 4}).workload(nodes=["n1"], cpu="2")
    scene.cordon("n1")
    scene.start()
    began, held_s = [], []

    def hear(change):
        if web(change) and gated(change.object) and change.type == "ADDED":
            held_s.append(scene.now_s)
        if STEPS[step](change) and not began:
            began.append(scene.now_s)
            trouble(scene, "n2")

    scene.api.subscribe(hear)
    move = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: bool(began) and len(scene.ready()) == 1 and scene.over(move), 30.0)
    assert scene.now_s - held_s[0] < LONGEST_GATED_S
    (replacement,) = scene.ready()
    node = spec(replacement)["nodeName"]
    assert node in ("n3", "n4")
    assert scene.phase(move) == "Failed"
    assert scene.reason(move) in ("TargetLost", "LandedElsewhere")
    assert "n2" in scene.state(move)["message"]
    scene.advance(70.0)
    assert scene.leftovers() == []


def test_a_replacement_that_nothing_else_can_take_waits_for_its_node():
    scene = Scene({"n1": 2, "n2": 4}).workload(nodes=["n1"], cpu="2")
    scene.cordon("n1")
    scene.start()
    move = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: any(map(gated, scene.pods())), 30.0)
    scene.cordon("n2")
    scene.advance(20.0)
    assert any(map(gated, scene.pods()))
    scene.uncordon("n2")
    scene.succeed(move, limit_s=20.0)


def test_an_owner_does_not_wait_for_a_reservation_on_a_cordoned_node():
    scene = Scene({"n1": 4, "n2": 4}).workload(nodes=["n1"], cpu="2")
    scene.scale(0)
    scene.start()
    scene.held_room(node="n2", cpu="2")
    scene.cordon("n2")
    scene.advance(1.0)
    scene.scale(1)
    scene.until(lambda: len(scene.ready()) == 1, LONGEST_GATED_S)
    assert scene.phase("room") == "Waiting"
    scene.uncordon("n2")
    scene.until(lambda: scene.phase("room") == "Available", 20.0)
