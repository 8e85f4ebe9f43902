"""Controllers that own each other, or stand above each other by the thousand: whoever made them, the controller goes on."""

import pytest
from scenes import Scene

from harness import documents
from kube_sandbox.controllers.unstructured import DEPLOYMENT, REPLICA_SET, labels, meta

MANY = 1500
"""More than Python's stack has frames for."""


def own(scene, owner, owned):
    """``owner`` becomes the controller of ``owned``."""
    ref = {"apiVersion": "apps/v1", "kind": owner["kind"], "controller": True}
    ref |= {key: meta(owner)[key] for key in ("name", "uid")}
    return scene.api.patch(owned, {"metadata": {"ownerReferences": [ref]}})


def each_other(scene):
    (below,) = [each for each in scene.api.list(REPLICA_SET) if labels(each).get("app") == "other"]
    own(scene, below, scene.api.get(DEPLOYMENT, "default", "other"))


def by_the_thousand(scene):
    above = None
    for number in range(MANY):
        body = documents.workload("ReplicaSet", f"r{number}", 0, documents.pod_spec("1", "64Mi"))
        body["metadata"]["namespace"] = "default"
        made = scene.api.create(body)
        above = own(scene, above, made) if above is not None else made


@pytest.mark.parametrize("build", [each_other, by_the_thousand])
def test_the_moves_and_reservations_of_others_go_on(build):
    scene = Scene({"n1": 4, "n2": 4}).workload()
    scene.workload(name="other")
    build(scene)
    scene.start()
    room = scene.room(node="n2")
    name = scene.move(scene.pods()[0], "n2")
    scene.succeed(name)
    assert scene.phase(room) == "Available"
