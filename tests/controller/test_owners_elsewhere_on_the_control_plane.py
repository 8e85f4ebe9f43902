"""On the real control plane: pods of another namespace that name somebody's ReplicaSet as their controller change no move of its pods."""

import itertools
import time

import pytest

from harness.controlplane.world import ENDED, World, controller_reference, node_of

pytestmark = pytest.mark.realcluster

PATIENCE_S = 120.0
STAYS = "example.com/stays"
OWN_RIGHTS = True
"""The controller may not ask the API server what a new pod would be."""


@pytest.fixture
def evil(control_plane):
    """A namespace whose pods stay for ever, as those with a finalizer do."""
    with World(control_plane.api(), "evil") as world:
        yield world
        for pod in world.pods():
            world.api.patch(world.path("pods", pod["metadata"]["name"]), {"metadata": {"finalizers": None}})


def forge(evil, owner, name, cpu, **spec):
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": owner["spec"]["template"]["metadata"]["labels"],
            "finalizers": [STAYS],
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": evil.spec(cpu, **spec),
    }
    evil.api.create(evil.path("pods"), body).expect(201)


def test_pods_of_others_are_no_siblings(control_plane, controller, evil):
    """The garbage collector deletes them, and they stay because of their finalizers: the newest pods that name that ReplicaSet."""
    with World(control_plane.api(), "owner") as world:
        source = world.node("source", cpu="2")
        pods = world.running("Deployment", "web", 2, "500m")
        target = world.node("target", cpu="2")
        (owner,) = world.api.get(world.path("replicasets", group="apps/v1")).expect().items
        owner |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        numbers = itertools.count()

        def ended():
            forge(evil, owner, f"zz-{next(numbers)}", "64")
            time.sleep(0.5)
            return world.move_status(name).get("phase") in ENDED

        forge(evil, owner, "zz-first", "64")
        evil.wait(lambda: "deletionTimestamp" in evil.get_pod("zz-first")["metadata"], PATIENCE_S)
        name = world.migrate(pods[0], target, ttl="30s")
        world.wait(ended, PATIENCE_S)
        status = world.move_status(name)
        assert (status["phase"], status.get("nodeName")) == ("Succeeded", target), status
        now = world.wait_ready("web", 2, PATIENCE_S)
        assert sorted(map(node_of, now)) == sorted([source, target])
        room = world.api.get(f"/apis/rescheduler.dev/v1alpha1/reservations/{status['reservationName']}")
        held = room.expect().body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert held["cpu"] == "500m"
