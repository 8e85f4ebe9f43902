"""An imitated cluster-autoscaler beside the guard: it removes its node where there is room, and evicts nobody where there is none."""

import pytest

from harness.controlplane.world import node_of
from harness.strangers.cluster_autoscaler import TAINT, ClusterAutoscaler
from harness.strangers.departures import Departures
from kube_sandbox.kubelet.objects import ANNOTATION_READY_AFTER, ANNOTATION_STOP_AFTER
from tests.guard.evictions_of_others import guarding

SLOW = {ANNOTATION_READY_AFTER: "2", ANNOTATION_STOP_AFTER: "2"}


def under_used(world, pods=3, others=2):
    """A node whose pods need less than half of it, and others with room for them."""
    node = world.node("empty-me", cpu="20")
    world.running("Deployment", "web", pods, "200m", annotations=SLOW, grace=30)
    for number in range(others):
        world.node(f"other-{number}", cpu="8")
    return node


def stays_without_taint(world, node):
    taints = world.api.get(f"/api/v1/nodes/{node}").expect().body["spec"]["taints"]
    return TAINT not in {taint["key"] for taint in taints}


@pytest.mark.realcluster
def test_an_under_used_node_is_removed_and_each_of_its_pods_had_its_room_first(guarded_plane, world):
    with guarding(guarded_plane, world):
        node = under_used(world)
        departures = Departures(world)
        done = ClusterAutoscaler(world).scale_down(node)
        assert not done.why, done
        pods = world.wait_ready("web", 3, 60)
        left = departures.end()
        assert node not in {node_of(pod) for pod in pods}
        assert [(one.room_first, one.landed) for one in left] == [(True, True)] * 3


@pytest.mark.strangers
@pytest.mark.parametrize("budget", [None, 4])
def test_forty_pods_leave_within_its_two_minutes(guarded_plane, world, budget):
    with guarding(guarded_plane, world):
        node = under_used(world, 40, 3)
        if budget:
            world.budget("web", "web", maxUnavailable=budget)
        departures = Departures(world)
        done = ClusterAutoscaler(world).scale_down(node)
        assert not done.why, done
        world.wait_ready("web", 40, 60)
        left = departures.end()
        assert len(left) == 40
        assert [one for one in left if not (one.room_first and one.landed)] == []
        assert departures.left_pending == 0


@pytest.mark.strangers
def test_where_somebody_else_takes_the_room_it_gives_up_and_nobody_was_evicted(guarded_plane, world):
    """Its simulation counts on room that is gone when its evictions come: without the guard all three would be pending."""
    with guarding(guarded_plane, world, limit="60s"):
        node = under_used(world, 3, 1)
        scaler = ClusterAutoscaler(world, max_pod_eviction_s=15)
        departures = Departures(world)
        world.pod("stranger", "7800m", nodeName=f"{world.namespace}-other-0")
        world.wait_bound("stranger")
        done = scaler.scale_down(node, decided=True)
        left = departures.end()
        assert done.why == "failed to evict pods in time"
        assert len(done.stayed) == 2, "one finds its place beside the stranger"
        assert [(one.room_first, one.landed) for one in left] == [(True, True)]
        assert stays_without_taint(world, node)
        assert {node_of(pod) for pod in world.pods("web")} >= {node}
        # It comes again, and has waited long enough: the evictions go on, with the reason.
        world.wait(lambda: not scaler.scale_down(node, decided=True).why, 150)
        events = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events"
        told = world.wait(
            lambda: [e for e in world.api.get(events).items if e["reason"] == "EvictedWithoutRoom"]
        )
        assert all("evicted without room for its replacement" in event["note"] for event in told)
