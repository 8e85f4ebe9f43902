"""A target that is cordoned in the instant of the eviction, on the real control plane."""

import time

import pytest

from harness.controlplane.world import node_of

pytestmark = [pytest.mark.realcluster, pytest.mark.usefixtures("controller")]

LOOK_AGAIN_S = 0.02


def soon(reached, limit_s=20.0):
    """Looks so often that nothing else happens in between."""
    ends_s = time.monotonic() + limit_s
    while not (found := reached()):
        assert time.monotonic() < ends_s
        time.sleep(LOOK_AGAIN_S)
    return found


def test_a_replacement_whose_target_is_cordoned_in_the_instant_of_the_eviction_is_placed_elsewhere(world):
    world.node("src", cpu="2")
    (pod,) = world.running("Deployment", "web", 1, cpu="2")
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
