"""Running pods step aside for a Reservation that fits nowhere (``makeRoom``). On the sandbox, with the whole controller."""

from scenes import PENDING_PODS, full_nodes

from harness import documents
from harness.histories.user_requests import MOVE, ROOM
from kube_sandbox.controllers.unstructured import status
from rescheduler.model.names import ANNOTATION_MAKES_ROOM


def wants(scene, cpu="4", name="big", **spec):
    """A Reservation for the pods of Deployment big."""
    wish = {"makeRoom": True, **spec}
    scene.api.create(documents.reservation(name, documents.pod_spec(cpu), [documents.owner(name)], **wish))


def room(scene, name="big"):
    return scene.api.get(ROOM, "", name)


def phase(scene):
    return status(room(scene)).get("phase")


def places(scene):
    return {app: [p["spec"]["nodeName"] for p in scene.ready(app)] for app in "ab"}


def check_end(scene):
    scene.until(lambda: phase(scene) == "Available", 900.0)
    assert status(room(scene))["nodeName"] == "n0"
    scene.until(lambda: places(scene) == {"a": ["n1"], "b": ["n2"]})
    scene.advance(60.0)
    assert "makingRoom" not in status(room(scene))
    assert phase(scene) == "Available"
    assert scene.faults == []


def test_the_reservation_keeps_its_node_before_anybody_is_evicted_and_becomes_available():
    scene = full_nodes()
    wants(scene)
    scene.start(document=PENDING_PODS)
    scene.until(lambda: scene.calls.of(lambda call: call.evicts), 300.0)
    found = status(room(scene))
    assert (found["phase"], found["nodeName"]) == ("Waiting", "n0")
    assert "2 pods step aside: default/" in {c["type"]: c for c in found["conditions"]}["Ready"]["message"]
    mark = f"big/{found['makingRoom']['attempt']}"
    assert {m["metadata"]["annotations"][ANNOTATION_MAKES_ROOM] for m in scene.api.list(MOVE)} == {mark}
    check_end(scene)
    assert len(scene.calls.of(lambda call: call.evicts)) == 2


def test_a_preallocated_reservation_is_made_room_for_too():
    scene = full_nodes()
    wants(scene, preAllocation=True)
    scene.start(document=PENDING_PODS)
    check_end(scene)
