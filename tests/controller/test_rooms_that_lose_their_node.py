"""A room that people reserved, and whose node is in trouble: it is held on another node, whatever happens in between."""

from scenes import Scene
from test_crash_safety import seeds
from test_nodes_that_never_come_back import silence

from harness.histories.user_requests import ROOM


def reserved(seed=1, **room):
    scene = Scene({"n1": 2, "n2": 2, "n3": 2}, seed=seed).workload("Deployment", "web", ["n1"])
    scene.cordon("n3")
    scene.start(crashes=4 if seed % 2 else 0, late=True)
    scene.cordon("n1")
    scene.held_room(**room)
    assert node(scene) == "n2"
    scene.uncordon("n3")
    return scene


def node(scene):
    return scene.api.get(ROOM, "", "room").get("status", {}).get("nodeName", "")


def held_elsewhere(scene):
    return (scene.phase("room"), node(scene)) == ("Available", "n3")


@seeds
def test_a_drain_moves_it_at_once(seed):
    scene = reserved(seed)
    scene.cordon("n2")
    (placeholder,) = scene.placeholders()
    scene.api.delete(placeholder)
    scene.until(lambda: held_elsewhere(scene), 30.0)
    scene.scale(2)
    scene.until(lambda: scene.phase("room") == "Succeeded")
    assert [len(scene.on(name)) for name in ("n1", "n2", "n3")] == [1, 0, 1]
    assert scene.leftovers() == []
    assert scene.faults == []


@seeds
def test_a_kubelet_that_evicts_the_placeholder_gets_another_one_half_a_minute_after_it(seed):
    scene = reserved(seed)
    (evicted,) = scene.placeholders()
    scene.api.patch(evicted, {"status": {"phase": "Failed", "reason": "Evicted"}}, subresource="status")
    began_s = scene.now_s
    scene.until(lambda: scene.phase("room") == "Pending", 30.0)
    scene.until(lambda: scene.phase("room") == "Available", 60.0)
    (another,) = scene.placeholders()
    assert another["metadata"]["uid"] != evicted["metadata"]["uid"]
    assert scene.now_s - began_s <= 40.0


@seeds
def test_a_cordon_of_more_than_a_minute_moves_it(seed):
    scene = reserved(seed)
    scene.cordon("n2")
    scene.until(lambda: scene.phase("room") == "Waiting")
    assert node(scene) == "n2"
    scene.until(lambda: held_elsewhere(scene))
    assert [pod["spec"]["nodeName"] for pod in scene.placeholders()] == ["n3"]
    assert scene.faults == []


def test_a_node_that_does_not_answer_keeps_its_placeholder_for_a_while_and_then_the_room_moves():
    scene = reserved()
    silence(scene, "n2")
    scene.until(lambda: held_elsewhere(scene), 400.0)
    assert [pod["spec"]["nodeName"] for pod in scene.placeholders()] == ["n3"]


def test_without_another_node_it_waits_and_takes_the_first_that_there_is():
    scene = reserved()
    scene.cordon("n3")
    scene.cordon("n2")
    scene.until(lambda: scene.phase("room") == "Pending")
    scene.advance(600.0)
    assert (scene.phase("room"), node(scene), scene.placeholders()) == ("Pending", "", [])
    scene.uncordon("n3")
    scene.until(lambda: held_elsewhere(scene))


def test_a_named_node_is_no_other_node():
    scene = reserved(node="n2")
    scene.api.delete(scene.placeholders()[0])
    scene.until(lambda: scene.phase("room") == "Failed")
    scene.advance(10.0)
    assert scene.leftovers() == []
