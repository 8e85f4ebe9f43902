"""Karpenter consolidates 20 to 30 nodes, beside our guard and our own consolidating policy.

Its evictions find their room reserved, it can still remove nodes, and neither undoes what the other has done. Not part of a change's
tests: ``make strangers`` and nightly.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from harness.controlplane.world import is_ready, node_of
from harness.strangers.karpenter import Karpenter
from harness.strangers.tools import KARPENTER
from tests.guard.evictions_of_others import guarding

pytestmark = [pytest.mark.strangers, pytest.mark.timeout(2400)]

APPS = 12
CONSOLIDATES = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "5s",
    "budgets": [{"nodes": "30%"}],
}
OURS = {
    "interval": "20s",
    "policies": [{"name": "NodeTaints"}, {"name": "HighNodeUtilization", "thresholds": {"cpu": 30, "memory": 30}, "targetThresholds": {"cpu": 100, "memory": 100}}],
}  # fmt: skip
QUIET_S = 45.0
"""Consolidation is over once no node has come or gone for so long."""
LONGEST_S = 240.0


def apps():
    return [f"app-{index}" for index in range(APPS)]


def scale(world, replicas):
    for app in apps():
        path = world.path("deployments", app, group="apps/v1")
        world.api.patch(path, {"spec": {"replicas": replicas}}).expect()
    wanted = replicas * APPS

    def there():
        alive = [p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]
        return len(alive) == wanted and all(map(is_ready, alive))

    world.wait(there, 180)


def consolidated(made):
    """How many nodes are left once it has come to rest."""
    began = last = time.monotonic()
    before = {n["metadata"]["name"] for n in made.nodes()}
    while time.monotonic() < began + LONGEST_S and time.monotonic() < last + QUIET_S:
        time.sleep(1.0)
        now = {n["metadata"]["name"] for n in made.nodes()}
        if now != before:
            before, last = now, time.monotonic()
    return len(before)


@contextmanager
def bursts(world):
    """Other pods of the same priority come and go all the time, and take what room they find."""
    world.workload("Deployment", "burst", 0)
    path, ended, faults = world.path("deployments", "burst", group="apps/v1"), threading.Event(), []

    def work():
        replicas = 0
        try:
            while not ended.wait(7.0):
                replicas = 0 if replicas else 16
                world.api.patch(path, {"spec": {"replicas": replicas}}).expect()
        except Exception as error:  # noqa: BLE001 - told below
            faults.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10.0)
    assert not faults
    world.api.delete(path)


def test_it_removes_nodes_and_each_pod_finds_its_room_whoever_else_wants_it(guarded_plane, world, program):
    program(KARPENTER)
    for app in apps():
        world.workload("Deployment", app, 0)
        world.budget(app, app, maxUnavailable=1)
    work = guarding(guarded_plane, world, sections=OURS)
    with Karpenter(guarded_plane, world, disruption=CONSOLIDATES, sizes=(4,)) as made, work:
        scale(world, 7)
        scale(world, 4)
        with bursts(world):
            time.sleep(150.0)
        scale(world, 10)
        scale(world, 5)
        left = consolidated(made)
        moves = world.moves()
        assert not made.faults
        standing = [p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]
        assert [p["metadata"]["name"] for p in standing if not node_of(p)] == []
        events = world.api.get(f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events").expect().items
    assert left <= 5 * APPS / 4 + 3, "it can still remove nodes"
    assert "EvictedWithoutRoom" not in {event["reason"] for event in events}
    assert len(moves) <= (4 + 5) * APPS, "no pod is chased from node to node"
