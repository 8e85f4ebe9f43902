"""Argo Rollouts v1.10.2 as the owner of ReplicaSets that is no Deployment: its pods are moved, drained and guarded like others, in a canary, too."""

from __future__ import annotations

import pytest

from harness.controlplane.binaries import BinariesMissing
from harness.controlplane.nodes import cordon
from harness.controlplane.world import node_of
from harness.strangers.departures import Departures
from harness.strangers.rollouts import Rollouts, canary, new_version, phase, promote
from tests.guard.evictions_of_others import DRAINED, drain, guarding

HALF = [{"setWeight": 50}, {"pause": {}}]


@pytest.fixture(scope="module")
def rollouts(guarded_plane):
    try:
        with Rollouts(guarded_plane) as rollouts:
            yield rollouts
    except BinariesMissing as missing:
        pytest.skip(str(missing))


def placed(world, replicas=4, **spec):
    """Healthy on ``source``, and ``target`` with room for all of it."""
    source = world.node("source", cpu=str(replicas + 1))
    canary(world, "web", replicas, HALF, **spec)
    world.wait(lambda: phase(world, "web") == "Healthy", 90)
    world.wait_ready("web", replicas)
    return source, world.node("target", cpu=str(replicas + 2))


def canary_at_half(world):
    new_version(world, "web", "2")
    world.wait(lambda: phase(world, "web") == "Paused", 90)
    pods = world.wait_ready("web", 4, 60)
    assert sorted(pod["metadata"]["labels"].get("version", "1") for pod in pods) == ["1", "1", "2", "2"]


def landed(world, departures, expected):
    left = departures.end()
    assert [one for one in left if not (one.room_first and one.landed)] == []
    assert len(left) == expected


@pytest.mark.realcluster
def test_kubectl_drain_in_a_canary_moves_old_and_new_pods_into_held_room(guarded_plane, rollouts, world):
    with guarding(guarded_plane, world):
        source, target = placed(world)
        cordon(world.api, target)
        canary_at_half(world)
        cordon(world.api, target, unschedulable=False)
        departures = Departures(world)
        done = drain(guarded_plane, source)
        assert done.returncode == DRAINED, done.stderr
        assert {node_of(pod) for pod in world.wait_ready("web", 4, 60)} == {target}
        landed(world, departures, 4)
        assert phase(world, "web") == "Paused"
        promote(world, "web")
        world.wait(lambda: phase(world, "web") == "Healthy", 120)
