"""Moves of pods whose Deployment has begun a rollout: one that goes on is waited for, one that does not is no reason to wait."""

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import GroupKind
from kube_sandbox.sandbox import Outage

DEPLOYMENT = GroupKind("apps", "Deployment")
LIMIT_S = 120.0
GUARDED = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
policies: []
guard: {enabled: true, limit: 2m, whenNoRoom: LetThrough}
"""


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 4, "n3": 4}).workload("Deployment", "web", ["n1", "n1"])


def new_template(scene, **more):
    """A rollout whose pods no node takes."""
    found = scene.api.get(DEPLOYMENT, "default", "web")
    nowhere = {"nodeSelector": {"example.com/none": "here"}}
    scene.api.patch(found, {"spec": {"template": {"spec": nowhere}, **more}})
    scene.advance(5.0)


def exceed_the_deadline(scene):
    """As kube-controller-manager writes it after spec.progressDeadlineSeconds."""
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    found = scene.api.get(DEPLOYMENT, "default", "web")
    scene.api.patch(found, {"status": {"conditions": [late]}}, subresource="status")


def landed(scene, move):
    assert scene.phase(move) == "Succeeded", scene.state(move)
    assert scene.faults == []
    assert len(scene.on("n2")) == 1


def test_a_pod_of_a_paused_rollout_moves(scene):
    new_template(scene, paused=True)
    scene.start()
    move = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: scene.over(move), 60.0)
    landed(scene, move)


def test_a_pod_of_a_rollout_that_exceeded_its_deadline_moves(scene):
    new_template(scene)
    scene.start()
    move = scene.move(scene.ready()[0], "n2", ttl="10m")
    scene.advance(30.0)
    assert scene.reason(move) == "OwnerBusy"
    exceed_the_deadline(scene)
    scene.until(lambda: scene.over(move), 60.0)
    landed(scene, move)


@pytest.mark.parametrize("mode", ["", "StartFirst"])
def test_the_move_of_the_guard_begins_before_its_limit_lets_the_eviction_through(scene, mode):
    if mode:
        found = scene.api.get(DEPLOYMENT, "default", "web")
        scene.api.patch(found, {"metadata": {"annotations": {"rescheduler.dev/mode": mode}}})
    new_template(scene)
    scene.start(document=GUARDED)
    move = scene.move(scene.ready()[0], "n2", ttl="10m", requestedBy="admin")
    began_s = scene.now_s
    scene.advance(0.7 * LIMIT_S)
    assert scene.reason(move) in ("OwnerBusy", "OwnerChanged")
    scene.until(lambda: scene.over(move), LIMIT_S)
    assert scene.now_s - began_s < LIMIT_S
    landed(scene, move)


def test_a_move_waits_while_its_replica_set_removes_pods(scene):
    """Which of them goes is known in a moment; a move that ended would let the eviction of one that stays through without room."""
    scene.start(document=GUARDED)
    scene.advance(5.0)
    now_s = scene.now_s
    scene.cluster.lose_api_server(
        Outage(server_s=now_s, controllers_s=now_s + 10.0, kubelets_s=now_s, scheduler_s=now_s)
    )
    (owner,) = scene.api.list(GroupKind("apps", "ReplicaSet"))
    scene.api.patch(owner, {"spec": {"replicas": 1}})
    move = scene.move(scene.ready()[0], "n2", requestedBy="admin")
    scene.advance(8.0)
    assert scene.reason(move) == "OwnerBusy"
    assert "more pods than it wants" in scene.state(move)["message"]
    scene.api.patch(
        scene.workload_of({"kind": "ReplicaSet", "name": owner["metadata"]["name"]}),
        {"spec": {"replicas": 2}},
    )
    scene.until(lambda: scene.over(move), 60.0)
    landed(scene, move)
