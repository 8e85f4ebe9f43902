"""``rescheduler check`` and ``scale`` as people type them, on the real control plane."""

import json

import pytest
from click.testing import CliRunner

from rescheduler.cli.main import main
from tests.waiting import until

pytestmark = pytest.mark.realcluster


CONFIGURATION = {"leaderElection": {"enabled": True}}


@pytest.fixture
def leader(controller):
    """Until it has the Lease, ``check`` tells why none runs by the installed Deployment, which has no pods here."""
    until(
        lambda: (
            controller.faults
            or (controller.controller._elector and controller.controller._elector.still_leader())
        )
    )


def invoke(control_plane, *words):
    return CliRunner().invoke(main, [*words, "--kubeconfig", str(control_plane.kubeconfig)])


def test_an_installation_at_work_is_in_order_but_for_what_is_not_a_part_of_it(leader, control_plane):
    done = invoke(control_plane, "check", "-o", "json")
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    broken = {name: one["message"] for name, one in found.items() if one["state"] in ("Broken", "Unknown")}
    assert broken == {}, done.output
    assert {found[name]["state"] for name in ("crds", "policies", "gate", "rights", "controller")} == {"OK"}


def scale(control_plane, world, *words):
    return invoke(control_plane, "scale", *words, "-n", world.namespace)


def test_scale_shows_rooms_scales_and_reports(leader, control_plane, world):
    node = world.node("n", cpu="4")
    world.running("Deployment", "web", 1)
    rehearsed = scale(control_plane, world, "deployment", "web", "--replicas", "4", "--dry-run")
    assert rehearsed.exit_code == 0, rehearsed.output
    assert "room for 3 of 3 new pods now" in rehearsed.stdout
    assert len(world.pods("web")) == 1
    done = scale(control_plane, world, "deploy/web", "--replicas", "4")
    assert done.exit_code == 0, done.output
    assert "scaled from 1 to 4; landed 3 of 3" in done.stdout
    assert done.stdout.count(node) == 6
    too_many = scale(control_plane, world, "deploy/web", "--replicas", "6", "--dry-run")
    assert too_many.exit_code == 1
    assert "room for 0 of 2" in too_many.stdout


def test_rooms_that_were_reserved_for_the_workload_before_are_the_rooms_of_its_new_pods(
    leader, control_plane, world
):
    for index in range(2):
        world.node(f"n{index}", cpu="2")
    world.running("Deployment", "web", 1)
    command = ["reserve", "create", "deployment/web", "--replicas", "3", "-n", world.namespace]
    held = invoke(control_plane, *command)
    assert held.exit_code == 0, held.output
    rehearsed = scale(control_plane, world, "deploy/web", "--replicas", "4", "--dry-run")
    assert "room for 3 of 3 new pods now, 2 of them held already" in rehearsed.stdout
    done = scale(control_plane, world, "deploy/web", "--replicas", "4")
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
