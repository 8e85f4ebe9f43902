"""NodeHealth, TooManyRestarts and the clean-up of failed pods on the real control plane: what they do to real objects, and that they come to rest."""

from __future__ import annotations

import time

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from rescheduler.model.times import format_seconds

pytestmark = pytest.mark.realcluster

GROUP = "rescheduler.dev/v1alpha1"


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "ill") as world:
        yield world


def moves(world):
    return world.api.get(world.path("podmigrations", group=GROUP)).expect().items


def report(world, node, kind, status, ago_s):
    """What node-problem-detector writes into the status of a node."""
    since = format_seconds(time.time() - ago_s)
    found = {
        "type": kind,
        "status": status,
        "reason": "Test",
        "lastTransitionTime": since,
        "lastHeartbeatTime": since,
    }
    path = f"/api/v1/nodes/{node}/status"
    known = world.api.get(f"/api/v1/nodes/{node}").expect().body["status"]["conditions"]
    others = [one for one in known if one["type"] != kind]
    world.api.patch(path, {"status": {"conditions": [*others, found]}}).expect()


def test_pods_leave_a_node_whose_fault_lasts_and_then_nothing_moves(world):
    ill = world.node("ill", cpu="4")
    world.workload("Deployment", "web", 2)
    world.wait_ready("web", 2)
    young, well, more = (world.node(name, cpu="4") for name in ("young", "well", "more"))
    report(world, young, "ReadonlyFilesystem", "True", 5)
    report(world, ill, "KernelDeadlock", "True", 3600)
    policy = {"name": "NodeHealth", "after": "10m", "namespaces": {"include": [world.namespace]}}
    settings = {"interval": "1s", "aggressiveness": "aggressive", "policies": [policy]}
    settings["limits"] = {"workloadCooldown": "0s"}
    with running(world.api.transport, **settings):
        world.wait(lambda: all(node_of(p) in (well, more) for p in world.wait_ready("web", 2)), 60.0)
        world.wait(lambda: all(m["status"]["phase"] == "Succeeded" for m in moves(world)), 20.0)
        assert {m["spec"]["policy"] for m in moves(world)} == {"NodeHealth"}
        made = len(moves(world))
        time.sleep(5.0)
        assert len(moves(world)) == made == 2


def test_a_pod_that_restarts_too_often_lands_elsewhere_once(world):
    first = world.node("first", cpu="4")
    world.workload("Deployment", "web", 1)
    world.wait_ready("web", 1)
    for name in ("second", "third"):
        world.node(name, cpu="4")
    (pod,) = world.wait_ready("web", 1)
    container = {
        "name": "main",
        "image": "pause",
        "imageID": "",
        "ready": True,
        "restartCount": 200,
        "state": {"running": {}},
    }
    path = world.path("pods", pod["metadata"]["name"], "status")
    world.api.patch(path, {"status": {"containerStatuses": [container]}}).expect()
    policy = {
        "name": "TooManyRestarts",
        "requireHealthyReplicas": False,
        "namespaces": {"include": [world.namespace]},
    }
    settings = {"interval": "1s", "policies": [policy], "limits": {"workloadCooldown": "0s"}}
    with running(world.api.transport, **settings):
        world.wait(lambda: node_of(world.wait_ready("web", 1)[0]) != first, 60.0)
        world.wait(lambda: all(m["status"]["phase"] == "Succeeded" for m in moves(world)), 20.0)
        time.sleep(5.0)
        assert [m["spec"]["policy"] for m in moves(world)] == ["TooManyRestarts"]


def test_the_api_server_deletes_failed_pods_that_a_budget_would_hold(world):
    world.node("n", cpu="4")
    world.workload("Deployment", "web", 1)
    (running_pod,) = world.wait_ready("web", 1)
    # Of a controller that nobody runs: a ReplicaSet would delete pods that are too many before they have failed.
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "runner"}}
    runner = world.api.create(world.path("configmaps"), body).expect(201).body["metadata"]
    named = {"name": runner["name"], "uid": runner["uid"], "controller": True}
    owner = [{"apiVersion": "v1", "kind": "ConfigMap", **named}]
    world.budget("web", "web", maxUnavailable=0)
    for name, reason in (("refused", "OutOfcpu"), ("other", "Evicted")):
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGates": [{"name": "example.com/never"}],
        }
        meta = {"name": name, "ownerReferences": owner, "labels": running_pod["metadata"]["labels"]}
        world.api.create(
            world.path("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        ).expect(201)
        status = {"phase": "Failed", "reason": reason, "startTime": format_seconds(time.time() - 7200)}
        world.api.patch(world.path("pods", name, "status"), {"status": status}).expect()
    with running(world.api.transport, failedPods={"enabled": True, "reasons": ["OutOfcpu"]}):
        world.wait(lambda: not world.api.get(world.path("pods", "refused")).ok, 30.0)
    assert world.api.get(world.path("pods", "other")).ok
    assert world.api.get(world.path("pods", running_pod["metadata"]["name"])).ok
