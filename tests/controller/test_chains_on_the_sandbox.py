"""A tight cluster is repaired end to end: a pod makes room for another."""

from scenes import Scene

from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import spec, status

DOCUMENT = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 3, movesPerHour: 600, workloadCooldown: 2s}
policies:
- name: NodeTaints
  after: 0s
"""


def tight():
    """w must leave n0 and needs a whole node; the other two have half of it free each: one of o and s must step aside."""
    scene = Scene({"n0": 2, "n1": 2, "n2": 2}).workload("Deployment", "w", ["n0"], cpu="2")
    scene.workload("Deployment", "o", ["n1"])
    scene.workload("Deployment", "s", ["n2"])
    scene.taint("n0")
    return scene


def waiting(scene):
    return next((m for m in scene.api.list(MOVE) if spec(m).get("after")), None)


def repaired(scene):
    (place,) = {pod["spec"].get("nodeName") for pod in scene.ready("w")} or {None}
    return place in ("n1", "n2") and len(scene.ready("o")) == len(scene.ready("s")) == 1


def check_end(scene):
    scene.until(lambda: repaired(scene), 600.0)
    scene.advance(60.0)
    assert scene.leftovers() == []
    assert scene.faults == []
    (place,) = {pod["spec"]["nodeName"] for pod in scene.ready("w")}
    others = {pod["spec"]["nodeName"] for app in "os" for pod in scene.ready(app)}
    assert {place} | others == {"n1", "n2"}
    assert len(others) == 1, "whoever made room stands beside the other one"


def test_the_pod_that_makes_room_lands_before_the_other_one_is_evicted():
    scene = tight()
    scene.start(document=DOCUMENT)
    scene.until(lambda: waiting(scene), 120.0)
    (before,) = spec(waiting(scene))["after"]
    check_end(scene)
    evictions = [call.path for call in scene.calls.of(lambda call: call.evicts)]
    assert len(evictions) == 2, "nobody is evicted twice"
    assert "/pods/w-" in evictions[1]
    earlier = scene.api.get(MOVE, *before.split("/"))
    assert earlier is None or status(earlier)["phase"] == "Succeeded"
