"""descheduler v0.36.0, unmodified, beside the guard: whom it evicts leaves into held room, and it evicts no more than without us."""

import time

import pytest

from harness.controlplane.nodes import cordon
from harness.controlplane.world import node_of
from harness.strangers.departures import Departures
from harness.strangers.descheduler import USER, Descheduler
from harness.strangers.tools import DESCHEDULER
from kube_sandbox.kubelet.objects import ANNOTATION_STOP_AFTER
from tests.guard.evictions_of_others import guarded_moves, guarding

LOW_USE = {"LowNodeUtilization": ("balance", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}})}
TAINTS = {"RemovePodsViolatingNodeTaints": ("deschedule", {})}


@pytest.fixture(autouse=True)
def built(program):
    program(DESCHEDULER)


def crowded(world, stop_after="4"):
    """Eight pods on a node that may keep four, and two empty nodes."""
    hot = world.node("hot", cpu="4")
    world.running("Deployment", "web", 8, "500m", annotations={ANNOTATION_STOP_AFTER: stop_after}, grace=30)
    for name in ("b", "c"):
        world.node(name, cpu="4")
    return hot


def on(world, node):
    return [pod for pod in world.wait_ready("web", 8, 60) if node_of(pod) == node]


@pytest.mark.realcluster
def test_an_overloaded_node_gives_away_what_is_too_much_and_no_more(guarded_plane, world):
    """It asks for the next pod where it is refused one: it must hear that the first one goes."""
    with guarding(guarded_plane, world):
        hot = crowded(world)
        departures = Departures(world)
        with Descheduler(guarded_plane, world, LOW_USE, interval_s=40) as descheduler:
            world.wait(lambda: descheduler.cycles, 90)
            asked = descheduler.asked
        assert len(on(world, hot)) == 4, asked
        left = departures.end()
        assert len(left) == 4
        assert {(one.requested_by, one.room_first, one.landed) for one in left} == {(USER, True, True)}
        assert sum(not one.error for one in asked) == 4, asked


@pytest.mark.strangers
def test_pods_that_end_at_once_leave_one_in_a_round_and_no_more_than_too_many(guarded_plane, world):
    """It finds them gone before it hears that they are evicted."""
    with guarding(guarded_plane, world):
        hot = crowded(world, "0")
        departures = Departures(world)
        with Descheduler(guarded_plane, world, LOW_USE, interval_s=35) as descheduler:
            world.wait(lambda: descheduler.cycles >= 6, 300)
        assert len(on(world, hot)) == 4
        left = departures.end()
        assert len(left) == 4
        assert all(one.room_first and one.landed for one in left)


@pytest.mark.strangers
def test_a_node_in_service_whose_taint_its_pods_do_not_bear_is_emptied_into_held_room(guarded_plane, world):
    with guarding(guarded_plane, world):
        hot = crowded(world)
        world.taint(hot, "old")
        departures = Departures(world)
        with Descheduler(guarded_plane, world, TAINTS, interval_s=35):
            world.wait(lambda: not on(world, hot), 200)
        left = departures.end()
        assert {(one.room_first, one.landed) for one in left} == {(True, True)}
        assert len(left) == 8


@pytest.mark.strangers
def test_without_room_it_is_let_through_with_the_reason(guarded_plane, world):
    with guarding(guarded_plane, world, limit="10s"):
        hot = crowded(world)
        for name in ("b", "c"):
            cordon(world.api, f"{world.namespace}-{name}")
        departures = Departures(world)
        with Descheduler(
            guarded_plane,
            world,
            {"PodLifeTime": ("deschedule", {"maxPodLifeTimeSeconds": 1})},
            interval_s=8,
            limits={"maxNoOfPodsToEvictTotal": 1},
        ):
            events = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events"
            world.wait(
                lambda: any(e["reason"] == "EvictedWithoutRoom" for e in world.api.get(events).items), 120
            )
            (move, *_) = world.wait(lambda: [m for m in guarded_moves(world) if m["status"].get("message")])
        time.sleep(1)
        left = departures.end()
        assert left
        assert not any(one.room_first for one in left)
        assert move["spec"]["requestedBy"] == USER
        assert hot
