"""On the real control plane: pods step aside for windows and head-rooms, the controller ends in the middle, and what is deleted moves nobody."""

from __future__ import annotations

import time

import pytest
from test_room_for_pending_pods_on_the_control_plane import PATIENCE_S, document, full, place
from test_windows_on_both_clusters import GROUP, make, mine, rooms

from harness.controlplane.controllers import running
from harness.controlplane.world import World, is_ready, node_of
from rescheduler.model.names import LABEL_PLACEHOLDER

pytestmark = pytest.mark.realcluster

PODS = "/api/v1/namespaces/rescheduler/pods"


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "sets") as world:
        yield world


def wanted(world, cpu):
    return {"template": {"spec": world.spec(cpu)}, "owners": mine(world), "makeRoom": True}


def window(world, *, after_s, cpu="4"):
    """A window for one pod that begins soon, and for which room is gathered from now on."""
    at = time.gmtime(time.time() + after_s)
    when = {"cron": f"{at.tm_min} {at.tm_hour} * * *", "duration": "10m", "startReserveAgo": "1h"}
    spec = {**when, "podNumToReserve": 1, **wanted(world, cpu)}
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


def test_a_window_opens_with_its_room_though_all_nodes_were_full(world):
    """The controller that decided ends before anybody has moved; another one goes on from the objects."""
    nodes = full(world)
    path = f"{GROUP}/reservationwindows/{world.namespace}"
    look = window(world, after_s=75)
    try:
        with running(world.api.transport, **document(world)):
            world.wait(lambda: made_for(world), PATIENCE_S)
        with running(world.api.transport, **document(world)):
            world.wait(lambda: (look().get("phase"), look().get("rooms")) == ("Open", "1/1"), 2 * PATIENCE_S)
            assert look()["nodes"] == [nodes[0]]
            assert (place(world, "a"), place(world, "b")) == (nodes[1], nodes[2])
            world.pod("owner", "4", labels={"app": "mine"})
            assert world.wait_bound("owner", PATIENCE_S) == nodes[0]
            world.wait(lambda: look().get("phase") == "Filled", PATIENCE_S)
            world.api.delete(path).expect()
            world.wait(lambda: nothing_left(world), PATIENCE_S)
    finally:
        world.api.delete(path)


def test_a_head_room_is_made_again_by_pods_that_step_aside(world):
    """Its owner took the only node that was free; then one pod leaves its node for what is left of the other one."""
    nodes = [world.node(f"n{number}", cpu="2") for number in range(3)]
    for app, others in (("a", nodes[1:]), ("b", [nodes[0], nodes[2]])):
        for node in others:
            world.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}).expect()
        world.workload("Deployment", app, 1, "1")
        world.wait_ready(app, 1, PATIENCE_S)
        for node in others:
            world.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}).expect()
    spec = {"rooms": 1, **wanted(world, "2")}
    look = make(world, "HeadRoom", "headrooms", world.namespace, spec)
    path = f"{GROUP}/headrooms/{world.namespace}"
    try:
        with running(world.api.transport, **document(world)):
            world.wait(lambda: look().get("nodes") == [nodes[2]], PATIENCE_S)
            world.pod("owner", "2", labels={"app": "mine"})
            assert world.wait_bound("owner", PATIENCE_S) == nodes[2]
            world.wait(lambda: made_for(world), PATIENCE_S)
        with running(world.api.transport, **document(world)):
            world.wait(lambda: look().get("rooms") == "1/1", PATIENCE_S)
            assert look()["nodes"][0] in nodes[:2]
            world.wait(lambda: len([p for p in world.pods() if is_ready(p)]) == 3, PATIENCE_S)
            world.api.delete(path).expect()
            world.wait(lambda: nothing_left(world), PATIENCE_S)
    finally:
        world.api.delete(path)


def test_a_window_that_is_deleted_in_the_middle_leaves_nothing(world):
    """Nobody is asked to step aside while a budget forbids it; then the window goes as soon as it has been decided who does."""
    nodes = full(world)
    world.budget("b", "b", minAvailable=1)
    path = f"{GROUP}/reservationwindows/{world.namespace}"
    window(world, after_s=1200)
    try:
        with running(world.api.transport, **document(world)):
            time.sleep(8.0)
            assert made_for(world) is None
            world.api.delete(world.path("poddisruptionbudgets", "b", group="policy/v1")).expect()
            world.wait(lambda: made_for(world), PATIENCE_S)
            world.api.delete(path).expect()
            world.wait(lambda: nothing_left(world), PATIENCE_S)
            world.wait(lambda: place(world, "a") and place(world, "b"), PATIENCE_S)
        ended = {(m.get("status") or {}).get("reason") for m in moves(world)}
        assert ended <= {"RoomGivenUp", "EarlierMoveFailed", "Landed"}
        assert {place(world, "a"), place(world, "b")} <= set(nodes)
    finally:
        world.api.delete(path)
