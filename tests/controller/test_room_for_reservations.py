"""Running pods step aside for a Reservation that fits nowhere (``makeRoom``). On the sandbox, with the whole controller."""

from scenes import PENDING_PODS, Scene, full_nodes

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


def test_without_the_wish_nobody_moves():
    scene = full_nodes()
    wants(scene, makeRoom=False)
    scene.start(document=PENDING_PODS)
    scene.advance(120.0)
    assert phase(scene) == "Pending"
    assert scene.api.list(MOVE) == []


def test_a_preallocated_reservation_is_made_room_for_too():
    scene = full_nodes()
    wants(scene, preAllocation=True)
    scene.start(document=PENDING_PODS)
    check_end(scene)


def two_on_one():
    """Both pods must leave n0 for a Reservation of 2 CPUs."""
    scene = Scene({"n0": 2, "n1": 1, "n2": 1})
    scene.workload("Deployment", "a", ["n0"])
    scene.workload("Deployment", "b", ["n0"])
    return scene


def test_if_a_move_fails_before_anybody_is_evicted_nothing_happens():
    """The eviction of one is refused by the API server for good while it is rehearsed."""
    scene = two_on_one()
    wants(scene, cpu="2")
    scene.refuse(403, "Forbidden", lambda call: call.rehearses and "/pods/b-" in call.path)
    scene.refuse(403, "Forbidden", lambda call: call.evicts and "/pods/b-" in call.path)
    scene.start(document=PENDING_PODS)
    scene.until(lambda: phase(scene) == "Waiting", 120.0)
    scene.until(lambda: phase(scene) == "Pending", 300.0)
    scene.advance(10.0)
    assert scene.calls.of(lambda call: call.evicts) == []
    assert {p["spec"]["nodeName"] for app in "ab" for p in scene.ready(app)} == {"n0"}
    (told, *_) = [line for line in scene.program.events.told if line.startswith("RoomGivenUp: move ")]
    assert told.endswith("nobody was evicted")


def test_a_reservation_that_is_deleted_meanwhile_moves_nobody():
    scene = full_nodes()
    wants(scene)
    scene.budget("b", minAvailable=1)
    scene.start(document=PENDING_PODS)
    scene.advance(20.0)
    scene.api.delete(room(scene))
    scene.advance(120.0)
    assert scene.calls.of(lambda call: call.evicts) == []
    assert scene.leftovers() == []


def test_if_a_pod_stays_after_another_has_left_the_rest_of_the_room_is_made_all_the_same():
    """The eviction of b is refused once a has left; when it is allowed again, the next decision moves it."""
    scene = two_on_one()
    wants(scene, cpu="2")
    refused = [True]
    scene.refuse(403, "Forbidden", lambda call: refused[0] and call.evicts and "/pods/b-" in call.path)
    scene.start(document=PENDING_PODS)
    scene.until(
        lambda: any(line.startswith("LooksForOthers: move ") for line in scene.program.events.told), 900.0
    )
    assert status(room(scene))["nodeName"] == "n0"
    assert len({p["spec"]["nodeName"] for app in "ab" for p in scene.ready(app)}) == 2, "one has left"
    refused[0] = False
    scene.until(lambda: phase(scene) == "Available", 1800.0)
    scene.until(lambda: {p["spec"]["nodeName"] for app in "ab" for p in scene.ready(app)} == {"n1", "n2"})
    assert status(room(scene))["nodeName"] == "n0"
