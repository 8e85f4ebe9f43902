"""On the real control plane: a node that was emptied is cordoned, and the next controller gives it back."""

from __future__ import annotations

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from rescheduler.model.names import ANNOTATION_KEPT_EMPTY

pytestmark = pytest.mark.realcluster

PATIENCE_S = 120.0


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "empty") as world:
        yield world


def document(world, **arguments):
    """An aggressive controller that looks at this world's pods only."""
    policy = {"name": "HighNodeUtilization", "thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 95}}
    return {
        "aggressiveness": "aggressive",
        "interval": "2s",
        "limits": {"movesAtOnce": 3, "movesPerHour": 600, "workloadCooldown": "2s"},
        "protections": {"namespaces": {"include": [world.namespace]}},
        "policies": [{**policy, **arguments}],
    }


def sparse(world):
    """Two nodes, of which the second is hardly used: its pod has room on the first."""
    nodes = []
    for app, cpu in (("base", "2"), ("web", "1")):
        nodes.append(world.node(f"n{len(nodes)}", cpu="4"))
        for other in nodes[:-1]:
            world.api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}}).expect()
        world.workload("Deployment", app, 1, cpu)
        world.wait_ready(app, 1, PATIENCE_S)
    world.api.patch(f"/api/v1/nodes/{nodes[0]}", {"spec": {"unschedulable": None}}).expect()
    return nodes


def state(world, node):
    """Whether it is cordoned, and what its note says."""
    found = world.api.get(f"/api/v1/nodes/{node}").expect().body
    note = found["metadata"].get("annotations", {}).get(ANNOTATION_KEPT_EMPTY, "")
    return bool(found["spec"].get("unschedulable")), note.split(" ")[0]


def test_an_emptied_node_is_cordoned_and_given_back_by_the_next_controller(world):
    full, empty = sparse(world)
    with running(world.api.transport, **document(world, emptiedNodes="cordon")):
        world.wait(lambda: state(world, empty) == (True, "Cordoned"), PATIENCE_S)
    assert {node_of(pod) for pod in world.pods("web") if "deletionTimestamp" not in pod["metadata"]} == {full}
    assert state(world, full) == (False, "")
    # A controller that knows nothing but the note, and is not to keep nodes any more.
    with running(world.api.transport, **document(world)):
        world.wait(lambda: state(world, empty) == (False, "GivenBack"), PATIENCE_S)
