"""``rescheduler move`` as people type it, on the real control plane."""

import pytest
from click.testing import CliRunner

from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from rescheduler.cli.main import main

pytestmark = pytest.mark.realcluster


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "move") as world:
        yield world


@pytest.fixture
def controller(control_plane):
    with running(control_plane.api().transport, leaderElection={"enabled": True}) as controller:
        yield controller


def test_a_pod_lands_where_it_was_asked_to(controller, control_plane, world):
    world.node("a", cpu="4")
    world.workload("Deployment", "web", 1)
    (pod,) = world.wait_ready("web", 1)
    target = world.node("b", cpu="4")
    command = ["move", "pod", pod["metadata"]["name"], "--to", target, "-n", world.namespace]
    done = CliRunner().invoke(main, [*command, "--kubeconfig", str(control_plane.kubeconfig)])
    assert done.exit_code == 0, done.output
    assert "Succeeded" in done.stdout
    assert [node_of(pod) for pod in world.wait_ready("web", 1)] == [target]
