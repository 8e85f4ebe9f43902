"""On the real control plane: a pod makes room for another one, and the kube-scheduler binds both where the plan wants them."""

from __future__ import annotations

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import WORLD, World, is_ready, node_of

pytestmark = pytest.mark.realcluster

PATIENCE_S = 120.0
GROUP = "rescheduler.dev/v1alpha1"


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "chain") as world:
        yield world


def document(world):
    """An aggressive controller that looks at this world's pods only."""
    return {
        "aggressiveness": "aggressive",
        "interval": "2s",
        "limits": {"movesAtOnce": 3, "movesPerHour": 600, "workloadCooldown": "2s"},
        "protections": {"namespaces": {"include": [world.namespace]}},
        "policies": [{"name": "NodeTaints", "after": "0s"}],
    }


def tight(world):
    """w must leave n0 and needs a whole node; the other two have half of it free each: one of o and s must step aside."""
    nodes = []
    for number, (app, cpu) in enumerate((("w", "2"), ("o", "1"), ("s", "1"))):
        nodes.append(world.node(f"n{number}", cpu="2"))
        for other in nodes[:-1]:
            world.api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}}).expect()
        world.workload("Deployment", app, 1, cpu)
        world.wait_ready(app, 1, PATIENCE_S)
    for node in nodes[1:]:
        world.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}).expect()
    keep = {"key": WORLD, "value": world.namespace, "effect": "NoSchedule"}
    old = {"key": "example.com/old", "effect": "NoSchedule"}
    patch = {"spec": {"unschedulable": None, "taints": [keep, old]}}
    world.api.patch(f"/api/v1/nodes/{nodes[0]}", patch).expect()
    return nodes


def moves(world):
    return world.api.get(world.path("podmigrations", group=GROUP)).expect().items


def place(world, app):
    """The node of its Ready pod; None while it has none."""
    ready = [p for p in world.pods(app) if is_ready(p) and "deletionTimestamp" not in p["metadata"]]
    return node_of(ready[0]) if len(ready) == 1 else None


def repaired(world, nodes):
    w, o, s = (place(world, app) for app in "wos")
    return w in nodes[1:] and o == s and o in nodes[1:] and w != o


def test_a_pod_makes_room_and_a_second_controller_goes_on_with_the_chain(world):
    nodes = tight(world)
    with running(world.api.transport, **document(world)):
        world.wait(lambda: [m for m in moves(world) if m["spec"].get("after")], PATIENCE_S)
    # The chain is written down: a controller that knows nothing but the objects carries it out.
    with running(world.api.transport, **document(world)):
        world.wait(lambda: repaired(world, nodes), PATIENCE_S)
        world.wait(
            lambda: all(m.get("status", {}).get("phase") in ("Succeeded", "Failed") for m in moves(world)),
            PATIENCE_S,
        )
    assert not [p for p in world.pods() if p["spec"].get("schedulingGates")]
