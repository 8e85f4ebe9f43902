"""With role ``edit`` in one namespace nobody holds more than the namespace could use, nor for longer than a move may take."""

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import GroupKind

QUOTA = GroupKind("", "ResourceQuota")
REPLICA_SET = GroupKind("apps", "ReplicaSet")
SHARES = b"""
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
policies: []
reservations: {shares: {"*": {cpu: "2"}}}
"""


def resource_quota(scene, *, most, used):
    scene.api.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "own", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": most}},
        }
    )
    made = scene.api.get(QUOTA, "default", "own")
    scene.api.patch(made, {"status": {"used": {"requests.cpu": used}}}, subresource="status")


def asks_for(scene, cpu):
    """The template of the ReplicaSet asks for so much from now on; its pod stays as it is."""
    replica_set = scene.api.get(REPLICA_SET, "default", "web")
    containers = replica_set["spec"]["template"]["spec"]["containers"]
    containers[0]["resources"]["requests"]["cpu"] = cpu
    scene.api.patch(replica_set, {"spec": {"template": {"spec": {"containers": containers}}}})


@pytest.fixture
def scene():
    return Scene({"n1": 16, "n2": 16, "n3": 16}).workload("ReplicaSet", "web", ["n1"], cpu="1m")


def held_cpus(scene):
    return [p["spec"]["containers"][0]["resources"]["requests"]["cpu"] for p in scene.placeholders()]


def test_a_template_that_asks_for_a_whole_node_gets_no_room_beyond_the_own_quota(scene):
    resource_quota(scene, most="4", used="1m")
    asks_for(scene, "16")
    scene.start()
    (pod,) = scene.pods()
    move = scene.move(pod, "n2", ttl="3m")
    scene.until(lambda: scene.phase(move) == "Reserving")
    scene.advance(60.0)
    assert held_cpus(scene) == []
    assert "ResourceQuota own of namespace default allows cpu 4: 1m are used" in scene.state(move)["message"]
    scene.until(lambda: scene.over(move), 300.0)
    assert scene.reason(move) == "Timeout"
    assert [p["metadata"]["uid"] for p in scene.pods()] == [pod["metadata"]["uid"]]
    scene.advance(30.0)
    assert scene.leftovers() == []


def test_within_the_own_quota_it_is_moved(scene):
    resource_quota(scene, most="4", used="1m")
    asks_for(scene, "2")
    scene.start()
    (pod,) = scene.pods()
    move = scene.move(pod, "n2")
    scene.succeed(move)


def test_a_move_that_people_ask_for_counts_in_the_share(scene):
    asks_for(scene, "16")
    scene.start(document=SHARES)
    (pod,) = scene.pods()
    move = scene.move(pod, "n2")
    scene.advance(60.0)
    assert held_cpus(scene) == []
    assert "may have cpu 2 reserved and has 0; this asks for 16 more" in scene.state(move)["message"]
