"""On the real control plane: two pods step aside, one of them in a chain, and kube-scheduler binds the pod that waited."""

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import RESERVATIONS, is_ready, node_of
from rescheduler.model.names import ANNOTATION_PENDING_POD

pytestmark = pytest.mark.realcluster

PATIENCE_S = 120.0
APPS = (("a", "3", 4), ("b", "2", 3))


def document(world):
    """A controller that looks at this world's pods only."""
    return {
        "aggressiveness": "aggressive",
        "interval": "2s",
        "limits": {"movesAtOnce": 3, "movesPerHour": 600, "workloadCooldown": "2s"},
        "protections": {"namespaces": {"include": [world.namespace]}},
        "policies": [{"name": "PendingPods", "after": "2s", "nodeAutoscaler": "Absent"}],
    }


def full(world):
    """big needs all of the first node: a leaves it for the second one once b has left that for the third."""
    nodes = []
    for number, (app, cpu, size) in enumerate(APPS):
        nodes.append(world.node(f"n{number}", cpu=str(size)))
        for other in nodes[:-1]:
            world.api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}}).expect()
        world.workload("Deployment", app, 1, cpu)
        world.wait_ready(app, 1, PATIENCE_S)
    nodes.append(world.node("n2", cpu="2"))
    for node in nodes[:-1]:
        world.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}).expect()
    return nodes


def place(world, app):
    """The node of its Ready pod; None while it has none."""
    ready = [p for p in world.pods(app) if is_ready(p) and "deletionTimestamp" not in p["metadata"]]
    return node_of(ready[0]) if len(ready) == 1 else None


def rooms(world):
    found = world.api.get(RESERVATIONS).expect().items
    made = [(r, (r["metadata"].get("annotations") or {}).get(ANNOTATION_PENDING_POD, "")) for r in found]
    return [r for r, owner in made if owner.startswith(f"{world.namespace}/")]


def test_pods_step_aside_and_the_pending_one_lands(world):
    nodes = full(world)
    name = world.pod("big", "4")["metadata"]["name"]
    world.wait_unschedulable(name)
    for index in range(5):
        world.pod(f"rival-{index}", "3500m", labels={"app": "rival"})
    with running(world.api.transport, **document(world)):
        world.wait(lambda: rooms(world), PATIENCE_S)
    # Everything is written down: a controller that knows nothing but the objects goes on.
    with running(world.api.transport, **document(world)):
        assert world.wait_bound(name, PATIENCE_S) == nodes[0]
        world.wait(lambda: (place(world, "a"), place(world, "b")) == (nodes[1], nodes[2]), PATIENCE_S)
        world.wait(lambda: all(r["status"]["phase"] == "Succeeded" for r in rooms(world)), PATIENCE_S)
    assert [node_of(p) for p in world.pods("rival") if node_of(p)] == []
