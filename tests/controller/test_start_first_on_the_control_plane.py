"""Mode StartFirst on the real control plane: no instant with fewer Ready pods, under budgets that allow nothing."""

import pytest

from harness.controlplane.ready_counts import ReadyCounts
from harness.controlplane.world import gates_of, node_of
from rescheduler.model.names import ANNOTATION_MODE, LABEL_START_FIRST

pytestmark = pytest.mark.realcluster


CONFIGURATION = {"interval": "1s", "policies": [{"name": "NodeTaints", "after": "0s", "mode": "StartFirst"}]}
"""It decides by one policy, and so only on nodes with taints of their own."""


def declared(world, kind, name, replicas, **more):
    world.node("source", cpu="8")
    world.workload(kind, name, replicas, **more)
    path = world.path(kind.lower() + "s", name, group="apps/v1")
    world.api.patch(path, {"metadata": {"annotations": {ANNOTATION_MODE: "StartFirst"}}}).expect()
    world.wait_ready(name, replicas)


def closed_budget(world, name, healthy):
    world.budget(name, name, maxUnavailable=0)
    path = world.path("poddisruptionbudgets", name, group="policy/v1")
    world.wait(lambda: world.api.get(path).body.get("status", {}).get("currentHealthy") == healthy)


def nothing_left(world):
    pods = world.pods()
    assert not [p for p in pods if gates_of(p)]
    assert not [
        p
        for p in pods
        if LABEL_START_FIRST in p["metadata"]["labels"] and not p["metadata"].get("ownerReferences")
    ]


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_deployment_is_moved_without_a_gap(controller, world, replicas):
    declared(world, "Deployment", "web", replicas)
    closed_budget(world, "web", replicas)
    watcher = ReadyCounts(world, replicas)
    for number in range(2):
        target = world.node(f"target{number}", cpu="1")
        old = min(world.pods("web"), key=node_of)
        status = world.end_of(world.migrate(old, target))
        assert (status["phase"], status["mode"]) == ("Succeeded", "StartFirst"), status
        world.wait_gone(old)
        assert target in {node_of(p) for p in world.wait_ready("web", replicas)}
    assert watcher.end() == (replicas, replicas + 1)
    nothing_left(world)


def test_a_policy_that_declares_it_moves_a_pod_that_its_budget_holds(controller, world):
    source = world.node("source", cpu="8")
    world.running("Deployment", "web", 1)
    closed_budget(world, "web", 1)
    (old,) = world.pods("web")
    world.node("target", cpu="1")
    watcher = ReadyCounts(world, 1)
    world.taint(source, "old")
    (planned,) = world.wait(world.moves, 30)
    assert (planned["spec"]["policy"], planned["spec"]["mode"]) == ("NodeTaints", "Auto")
    status = world.end_of(planned["metadata"]["name"])
    assert (status["phase"], status["mode"]) == ("Succeeded", "StartFirst"), status
    world.wait_gone(old)
    assert watcher.end() == (1, 2)
    nothing_left(world)
