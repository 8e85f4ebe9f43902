"""Upgrade and going back on the real control plane while pods are moved: each lands in its room, and nothing is left behind.

The other version is taken from git: RESCHEDULER_UPGRADE_FROM names a commit or tag (``make upgrade FROM=...``).
"""

import os
import re
import time

import pytest

from harness.controlplane.in_force import wait_until_mutated, wait_until_served
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World
from harness.recorded.other_version import ROOT, apply, check_out, controller

pytestmark = pytest.mark.realcluster

FROM = os.environ.get("RESCHEDULER_UPGRADE_FROM", "")
MOVES = 6
QUIET = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "ReschedulerConfiguration", "policies": []}


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    if not FROM:
        pytest.skip("no version to upgrade from is named: make upgrade FROM=v0.1.0")
    folder = tmp_path_factory.mktemp("old")
    if not check_out(FROM, folder):
        pytest.skip(f"this clone does not have {FROM}: nothing is upgraded")
    return folder


@pytest.fixture(scope="module")
def plane(old):
    plane = ControlPlane()
    with plane, KubeletThread(plane.api().transport):
        yield plane


def install(plane, sources):
    """Apply the manifests of a version, and give policies and kinds time to come into force."""
    objects, api = apply(sources, plane.kubectl, plane.kubeconfig), plane.api()
    wait_until_served(api, objects)
    wait_until_mutated(api, objects)
    time.sleep(1)


def in_the_middle(world, wanted):
    """An eviction is about to happen, or has happened, and moves are left that have not ended."""

    def look():
        return any(world.move_status(name).get("evictionRequestedAt") for name in wanted)

    world.wait(look, 60)


@pytest.mark.parametrize("direction", ["upgrade", "back"])
def test_pods_that_are_moved_meanwhile_land_in_their_rooms(plane, old, tmp_path, direction):
    first, second = (old, ROOT) if direction == "upgrade" else (ROOT, old)
    install(plane, first)
    identity = plane.kubeconfig_for("rescheduler", "rescheduler")
    with World(plane.api(), direction) as world:
        with controller(first, identity, tmp_path, QUIET) as before:
            wanted = world.stampede(world.full_node("StatefulSet", MOVES))
            in_the_middle(world, wanted)
        left = [name for name in wanted if world.move_status(name).get("phase") != "Succeeded"]
        assert left, "all moves had ended before the controller did"
        install(plane, second)
        with controller(second, identity, tmp_path, QUIET) as after:
            world.landed(wanted)
        assert not [p for p in world.pods() if p["spec"].get("schedulingGates")]
    told = before.log.read_text() + after.log.read_text()
    assert not re.findall(r"403 Forbidden.*denied request", told)
