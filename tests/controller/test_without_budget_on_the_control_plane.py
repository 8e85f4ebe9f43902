"""On the real control plane: an aggressive controller and a Deployment that no PodDisruptionBudget selects."""

from __future__ import annotations

import threading
import time

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import WORLD, World, is_ready, node_of

pytestmark = pytest.mark.realcluster

AGGRESSIVE = {
    "aggressiveness": "aggressive",
    "interval": "2s",
    "limits": {"workloadCooldown": "0s", "perWorkload": 20, "perNode": 20},
    "policies": [{"name": "NodeTaints", "after": "0s"}],
}


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "nopdb") as world:
        yield world


def test_few_pods_are_away_at_once(world):
    replicas, least = 8, 6
    source = world.node("src", cpu=str(replicas))
    world.workload("Deployment", "web", replicas)
    world.wait_ready("web", replicas, 60)
    target = world.node("dst", cpu=str(2 * replicas))
    keep = {"key": WORLD, "value": world.namespace, "effect": "NoSchedule"}
    old = {"key": "example.com/old", "effect": "NoSchedule"}
    world.api.patch(f"/api/v1/nodes/{source}", {"spec": {"taints": [keep, old]}}).expect()
    counts = []
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            counts.append(
                sum(is_ready(p) and "deletionTimestamp" not in p["metadata"] for p in world.pods("web"))
            )
            time.sleep(0.03)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()

    def moved():
        ready = [p for p in world.pods("web") if is_ready(p)]
        return len(ready) == replicas and {node_of(p) for p in ready} == {target}

    with running(world.api.transport, **AGGRESSIVE):
        world.wait(moved, 120)
    stop.set()
    watcher.join()
    assert min(counts) >= least, "too few were Ready"
    assert min(counts) < replicas
