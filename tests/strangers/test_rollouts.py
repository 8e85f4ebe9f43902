"""Argo Rollouts v1.10.2 as the owner of ReplicaSets that is no Deployment: its pods are moved, drained and guarded like others, in a canary, too."""

import subprocess
import sys

import pytest

from harness.controlplane.nodes import cordon
from harness.controlplane.world import ENDED, gates_of, node_of
from harness.strangers.departures import Departures
from harness.strangers.rollouts import GROUP, Rollouts, canary, new_version, phase, promote
from tests.guard.evictions_of_others import DRAINED, drain, guarding

HALF = [{"setWeight": 50}, {"pause": {}}]


@pytest.fixture(scope="module")
def rollouts(guarded_plane):
    with Rollouts(guarded_plane) as rollouts:
        yield rollouts


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


@pytest.mark.strangers
def test_a_pod_is_moved_to_the_node_that_was_asked_for(guarded_plane, rollouts, world):
    with guarding(guarded_plane, world):
        _, target = placed(world)
        pod = world.pods("web")[0]
        name = world.migrate(pod, target)
        world.wait(lambda: world.move_status(name).get("phase") == "Succeeded", 60)
        assert [node_of(pod) for pod in world.wait_ready("web", 4)].count(target) == 1


@pytest.mark.strangers
def test_start_first_is_refused_because_a_rollout_is_no_deployment(
    guarded_plane, rollouts, world, may_start_first
):
    with guarding(guarded_plane, world):
        _, target = placed(world)
        name = world.migrate(world.pods("web")[0], target, mode="StartFirst")
        world.wait(lambda: world.move_status(name).get("phase") == "Failed", 60)
        assert world.move_status(name)["reason"] == "ModeNotSupported"
        assert len(world.wait_ready("web", 4)) == 4


@pytest.mark.strangers
def test_rescheduler_drain_empties_the_node_in_a_canary(guarded_plane, rollouts, world):
    with guarding(guarded_plane, world, sections={"leaderElection": {"enabled": True}}):
        source, target = placed(world)
        cordon(world.api, target)
        canary_at_half(world)
        cordon(world.api, target, unschedulable=False)
        departures = Departures(world)
        words = ["drain", source, "--timeout", "90s", "--kubeconfig", str(guarded_plane.kubeconfig)]
        program = [sys.executable, "-c", "from rescheduler.cli.main import main; main()"]
        done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == DRAINED, done.stdout + done.stderr
        assert {node_of(pod) for pod in world.wait_ready("web", 4, 60)} == {target}
        landed(world, departures, 4)


@pytest.mark.strangers
@pytest.mark.parametrize("weight", [25, 75])
def test_a_canary_that_goes_on_in_the_middle_of_a_drain_ends_and_leaves_nothing(
    guarded_plane, rollouts, world, weight
):
    """Its ReplicaSets change their size while their pods are moved: some evictions wait, none is for a pod that does not come back."""
    with guarding(guarded_plane, world):
        source, target = placed(world)
        cordon(world.api, target)
        new_version(world, "web", "2")
        world.wait(lambda: phase(world, "web") == "Paused", 90)
        cordon(world.api, target, unschedulable=False)
        steps = [{"setWeight": weight}, {"pause": {"duration": "3s"}}, {"setWeight": 100}]
        path = world.path("rollouts", "web", group=GROUP)
        world.api.patch(path, {"spec": {"strategy": {"canary": {"steps": steps}}}}).expect()
        departures = Departures(world)
        done = drain(guarded_plane, source, timeout="150s")
        assert done.returncode == DRAINED, done.stderr
        world.wait(lambda: phase(world, "web") == "Healthy", 120)
        pods = world.wait_ready("web", 4, 60)
        assert {node_of(pod) for pod in pods} == {target}
        assert {pod["metadata"]["labels"].get("version") for pod in pods} == {"2"}
        left = departures.end()
        assert [one for one in left if one.requested_by and not one.room_first] == []
        assert departures.left_pending == 0
        assert not [pod for pod in world.pods() if gates_of(pod)]
        world.wait(lambda: not rooms_of(world))


def rooms_of(world):
    return [room for room in world.rooms() if room["status"].get("phase") not in ENDED]
