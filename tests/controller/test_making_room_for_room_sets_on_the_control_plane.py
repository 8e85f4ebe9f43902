"""On the real control plane: pods step aside for a window, and the controller ends in the middle."""

from __future__ import annotations

import pytest
from test_room_for_pending_pods_on_the_control_plane import PATIENCE_S, document, full, place
from test_windows_on_both_clusters import GROUP, make, mine, rooms, soon

from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from rescheduler.model.names import LABEL_PLACEHOLDER

pytestmark = pytest.mark.realcluster

PODS = "/api/v1/namespaces/rescheduler/pods"


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "sets") as world:
        yield world


def window(world):
    """A window for one pod that begins soon, and for which room is gathered from now on."""
    when = {"cron": soon(), "duration": "10m", "startReserveAgo": "1h"}
    wish = {"template": {"spec": world.spec("4")}, "owners": mine(world), "makeRoom": True}
    spec = {**when, "podNumToReserve": 1, **wish}
    return make(world, "ReservationWindow", "reservationwindows", world.namespace, spec)


def made_for(world):
    """The decision about its only room; None while there is none."""
    found = [(r.get("status") or {}).get("makingRoom") for r in rooms(world, world.namespace)]
    return found[0] if found else None


def moves(world):
    return world.api.get(world.path("podmigrations", group="rescheduler.dev/v1alpha1")).expect().items


def nothing_left(world):
    holders = [
        pod
        for pod in world.api.get(PODS).expect().items
        if pod["metadata"].get("labels", {}).get(LABEL_PLACEHOLDER) is not None
        and node_of(pod).startswith(world.namespace)
    ]
    over = all((m.get("status") or {}).get("phase") in ("Succeeded", "Failed") for m in moves(world))
    return over and not holders and not rooms(world, world.namespace)


def test_a_window_gathers_its_room_though_all_nodes_were_full(world):
    """The controller that decided ends before anybody has moved; another one goes on from the objects."""
    nodes = full(world)
    path = f"{GROUP}/reservationwindows/{world.namespace}"
    look = window(world)
    try:
        with running(world.api.transport, **document(world)):
            world.wait(lambda: made_for(world), PATIENCE_S)
        with running(world.api.transport, **document(world)):
            world.wait(lambda: (look().get("phase"), look().get("rooms")) == ("Gathering", "1/1"), PATIENCE_S)
            assert look()["nodes"] == [nodes[0]]
            assert (place(world, "a"), place(world, "b")) == (nodes[1], nodes[2])
            world.pod("owner", "4", labels={"app": "mine"})
            assert world.wait_bound("owner", PATIENCE_S) == nodes[0]
            world.wait(lambda: look().get("phase") == "Filled", PATIENCE_S)
            world.api.delete(path).expect()
            world.wait(lambda: nothing_left(world), PATIENCE_S)
    finally:
        world.api.delete(path)
