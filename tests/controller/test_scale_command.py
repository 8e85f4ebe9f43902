"""``rescheduler scale`` as people type it, on the real control plane."""

import pytest
from click.testing import CliRunner

from harness.controlplane.controllers import running
from rescheduler.cli.main import main

pytestmark = pytest.mark.realcluster


@pytest.fixture
def controller(control_plane):
    with running(control_plane.api().transport) as controller:
        yield controller


def invoke(control_plane, world, *arguments):
    command = ["scale", *arguments, "-n", world.namespace, "--kubeconfig", str(control_plane.kubeconfig)]
    return CliRunner().invoke(main, command)


def test_command_shows_rooms_scales_and_reports(controller, control_plane, world):
    node = world.node("n", cpu="4")
    world.running("Deployment", "web", 1)
    rehearsed = invoke(control_plane, world, "deployment", "web", "--replicas", "4", "--dry-run")
    assert rehearsed.exit_code == 0, rehearsed.output
    assert "room for 3 of 3 new pods now" in rehearsed.stdout
    assert len(world.pods("web")) == 1
    done = invoke(control_plane, world, "deploy/web", "--replicas", "4")
    assert done.exit_code == 0, done.output
    assert "scaled from 1 to 4; landed 3 of 3" in done.stdout
    assert done.stdout.count(node) == 6
    too_many = invoke(control_plane, world, "deploy/web", "--replicas", "6", "--dry-run")
    assert too_many.exit_code == 1
    assert "room for 0 of 2" in too_many.stdout


def test_rooms_that_were_reserved_for_the_workload_before_are_the_rooms_of_its_new_pods(
    controller, control_plane, world
):
    for index in range(2):
        world.node(f"n{index}", cpu="2")
    world.running("Deployment", "web", 1)
    command = ["reserve", "create", "deployment/web", "--replicas", "3", "-n", world.namespace]
    held = CliRunner().invoke(main, [*command, "--kubeconfig", str(control_plane.kubeconfig)])
    assert held.exit_code == 0, held.output
    rehearsed = invoke(control_plane, world, "deploy/web", "--replicas", "4", "--dry-run")
    assert "room for 3 of 3 new pods now, 2 of them held already" in rehearsed.stdout
    done = invoke(control_plane, world, "deploy/web", "--replicas", "4")
    assert done.exit_code == 0, done.output
    assert "scaled from 1 to 4; landed 3 of 3" in done.stdout
    path = "/apis/rescheduler.dev/v1alpha1/reservations"
    rooms = [one for one in control_plane.api().get(path).body["items"] if owners_in(one, world.namespace)]
    assert {one["status"]["phase"] for one in rooms} == {"Succeeded"}  # none is left over
    assert len(rooms) == 3


def owners_in(room, namespace):
    """Reservations have no namespace: those of other tests stand on the same control plane."""
    owners = room["spec"]["owners"]
    return any(owner.get("controller", {}).get("namespace") == namespace for owner in owners)
