"""A pod of higher priority that waits, and a target that is cordoned in the instant of the eviction, on the real control plane."""

import time

import pytest
from reserving import PLACEHOLDERS

from harness.controlplane.world import PATIENCE_S, WORLD, is_ready, node_of
from rescheduler.model.names import HOSTNAME

pytestmark = pytest.mark.realcluster

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LOOK_AGAIN_S = 0.02


@pytest.fixture
def world(reserving):
    return reserving


def waiter(world, node, cpu="2"):
    """A pod of higher priority that may run on this node only; gives a function that creates it."""
    world.api.create(CLASSES, {"metadata": {"name": "above-owners"}, "value": 1000}).expect(201, 409)
    more = {
        "priorityClassName": "above-owners",
        "nodeSelector": {WORLD: world.namespace, HOSTNAME: node},
    }
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": world.spec(cpu, **more),
    }
    world.wait(lambda: world.api.create(world.path("pods"), probe, dryRun="All").ok, PATIENCE_S)
    return lambda: world.pod("waiter", cpu, **more)


def soon(reached, limit_s=20.0):
    """Looks so often that nothing else happens in between."""
    ends_s = time.monotonic() + limit_s
    while not (found := reached()):
        assert time.monotonic() < ends_s
        time.sleep(LOOK_AGAIN_S)
    return found


def test_nobody_is_evicted_into_capacity_that_a_waiting_pod_would_take(world):
    source = world.node("src", cpu="2")
    world.workload("Deployment", "web", 1, cpu="2")
    (pod,) = world.wait_ready("web", 1, 40)
    target = world.node("dst", cpu="3")
    create = waiter(world, target)
    move = world.migrate(pod, target)
    soon(lambda: [p for p in world.api.get(PLACEHOLDERS).expect().items if node_of(p) == target])
    create()
    status = world.wait(lambda: (s := world.move_status(move)).get("phase") == "Failed" and s, 30)
    assert status["reason"] == "HigherPriorityWaits"
    assert world.wait_bound("waiter") == target
    (same,) = world.pods("web")
    assert (same["metadata"]["uid"], node_of(same), is_ready(same)) == (pod["metadata"]["uid"], source, True)


def test_a_replacement_whose_target_is_cordoned_in_the_instant_of_the_eviction_is_placed_elsewhere(world):
    world.node("src", cpu="2")
    world.workload("Deployment", "web", 1, cpu="2")
    (pod,) = world.wait_ready("web", 1, 40)
    target, *_ = [world.node(f"t{i}", cpu="2") for i in range(4)]
    move = world.migrate(pod, target)
    name = pod["metadata"]["name"]
    path = world.path("pods", name)

    def evicted():
        answer = world.api.get(path)
        return not answer.ok or "deletionTimestamp" in answer.body["metadata"]

    soon(evicted)
    world.api.patch(f"/api/v1/nodes/{target}", {"spec": {"unschedulable": True}}).expect()
    began_s = time.monotonic()
    (replacement,) = world.wait(
        lambda: [p for p in world.pods("web") if p["metadata"]["name"] != name and node_of(p)], 20
    )
    assert time.monotonic() - began_s < 10
    assert node_of(replacement) != target
    status = world.wait(
        lambda: (s := world.move_status(move)).get("phase") in ("Failed", "Succeeded") and s, 30
    )
    assert (status["phase"], status["reason"] in ("TargetLost", "LandedElsewhere")) == ("Failed", True)
    assert target in status["message"]
