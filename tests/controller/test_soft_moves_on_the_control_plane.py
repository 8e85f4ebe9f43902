"""Soft mode on the real control plane: the scheduler itself lets the replacement take the room."""

import pytest

from harness import documents
from harness.controlplane.controllers import running
from harness.controlplane.world import World, gates_of, node_of

pytestmark = pytest.mark.realcluster

GROUP = "rescheduler.dev/v1alpha1"


@pytest.fixture
def world(control_plane):
    api = control_plane.api()
    with running(api.transport, mode="Soft"), World(api, "soft") as world:
        yield world


def test_the_replacement_takes_the_room_by_preemption(world):
    source = world.node("src", cpu="1")
    world.workload("Deployment", "web", 1)
    (pod,) = world.wait_ready("web", 1)
    target = world.node("to", cpu="1")
    world.api.patch(f"/api/v1/nodes/{source}", {"spec": {"unschedulable": True}}).expect()
    uid = pod["metadata"]["uid"]
    body = documents.migration("move", pod["metadata"]["name"], target, uid=uid, mode="Soft", ttl="2m")
    path = world.path("podmigrations", "move", group=GROUP)
    world.api.create(world.path("podmigrations", group=GROUP), body).expect()

    def ended():
        status = world.api.get(path).expect().body.get("status") or {}
        return status if status.get("phase") in ("Succeeded", "Failed") else None

    status = world.wait(ended, 60)
    assert status["phase"] == "Succeeded", status
    (now,) = world.wait_ready("web", 1)
    assert node_of(now) == target
    assert gates_of(now) == []
    reservation = status["reservationName"]
    holders = "/api/v1/namespaces/rescheduler/pods"
    mine = f"{reservation}-"
    world.wait(
        lambda: (
            not [p for p in world.api.get(holders).expect().items if p["metadata"]["name"].startswith(mine)]
        )
    )
