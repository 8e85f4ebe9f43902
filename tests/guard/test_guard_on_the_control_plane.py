"""Somebody else's evictions, on the real control plane: kubectl drain and bare calls of the eviction API, with the guard and without."""

import json
import ssl
import time
import urllib.request

import pytest

from harness.controlplane import manifests
from harness.controlplane.controllers import running
from harness.controlplane.processes import free_port
from harness.controlplane.ready_counts import ReadyCounts
from harness.controlplane.world import gates_of, node_of
from rescheduler.guard.filer import PASS_S
from rescheduler.model.names import ANNOTATION_MODE

from .evictions_of_others import (
    DRAINED,
    HOOKS,
    asked,
    drain,
    guarded_moves,
    guarding,
    placed,
)

pytestmark = pytest.mark.realcluster


def test_kubectl_drain_moves_each_pod_into_reserved_room(guarded_plane, world):
    with guarding(guarded_plane, world):
        source, pods, target = placed(world)
        done = drain(guarded_plane, source)
        assert done.returncode == DRAINED, done.stderr
        assert [node_of(pod) for pod in world.wait_ready("web", 2)] == [target, target]
        found = guarded_moves(world)
        assert {move["spec"]["podRef"]["uid"] for move in found} == {p["metadata"]["uid"] for p in pods}
        world.wait(lambda: {m["status"]["phase"] for m in guarded_moves(world)} == {"Succeeded"})
        assert {move["spec"]["requestedBy"] for move in found} == {"admin"}
        assert not [pod for pod in world.pods() if gates_of(pod)]


def test_kubectl_drain_moves_each_pod_of_a_stateful_set_once(guarded_plane, world):
    """The successor has the name by which kubectl asks."""
    with guarding(guarded_plane, world):
        source = world.node("source", cpu="2")
        world.running("StatefulSet", "db", 2)
        target = world.node("target", cpu="2")
        done = drain(guarded_plane, source)
        assert done.returncode == DRAINED, done.stderr
        assert [node_of(pod) for pod in world.wait_ready("db", 2)] == [target, target]
        assert len(guarded_moves(world)) == 2


def test_a_single_replica_without_a_budget_survives_a_drain_without_a_gap(
    guarded_plane,
    world,
    may_start_first,
):
    with guarding(guarded_plane, world):
        source, _, target = placed(world, 1)
        path = world.path("deployments", "web", group="apps/v1")
        world.api.patch(path, {"metadata": {"annotations": {ANNOTATION_MODE: "StartFirst"}}}).expect()
        counts = ReadyCounts(world, 1)
        done = drain(guarded_plane, source)
        assert done.returncode == DRAINED, done.stderr
        assert [node_of(pod) for pod in world.wait_ready("web", 1)] == [target]
        assert counts.end() == (1, 2)


def test_without_room_the_eviction_is_let_through_at_the_limit_with_the_reason(guarded_plane, world):
    with guarding(guarded_plane, world, limit="12s"):
        world.node("source", cpu="1")
        (pod,) = world.running("Deployment", "web", 1)
        began = time.monotonic()
        answers = asked(world, pod)
        assert 10 <= time.monotonic() - began <= 40
        assert answers[-1].status == 201
        assert "NoTarget" in answers[-2].body["message"]
        events = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events"

        def told():
            return [e for e in world.api.get(events).expect().items if e["reason"] == "EvictedWithoutRoom"]

        (event,) = world.wait(told)
        assert "admin evicts pod" in event["note"]
        assert event["regarding"]["name"] == pod["metadata"]["name"]


def test_a_budget_that_never_allows_answers_itself(guarded_plane, world):
    with guarding(guarded_plane, world):
        _, (pod,), _ = placed(world, 1)
        world.budget("web", "web", minAvailable=1)
        world.wait(
            lambda: (
                world.api.get(world.path("poddisruptionbudgets", "web", group="policy/v1"))
                .body.get("status", {})
                .get("expectedPods")
            )
        )
        world.wait(lambda: "violate the pod's disruption budget" in world.evict(pod).body.get("message", ""))
        assert world.wait_ready("web", 1)[0]["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_guard_that_is_taken_away_in_the_middle_blocks_nothing(guarded_plane, world):
    """As ``uninstall`` does first. It comes back with the manifests."""
    installed = manifests.load(manifests.FOLDER / "components" / "guard")
    with guarding(guarded_plane, world):
        _, pods, _ = placed(world)
        world.evict(pods[0]).expect(429)
        try:
            world.api.delete(HOOKS).expect()
            world.wait(lambda: world.evict(pods[1]).status == 201)
        finally:
            manifests.apply(world.api, installed)
        world.wait_gone(pods[1])
        world.wait(lambda: world.api.get(HOOKS).expect().body.get("webhooks"), 60)


def test_a_follower_answers_and_files_and_the_leader_moves(guarded_plane, world):
    transport = guarded_plane.account().transport
    port = free_port()
    gate = {"port": port, "url": f"https://127.0.0.1:{port}"}
    leads = {"leaderElection": {"enabled": True}}
    with guarding(guarded_plane, world, sections=leads) as leader:
        assert leader.controller._elector.still_leader()
        with running(transport, gate=gate, **leads) as follower:
            _, (pod,), target = placed(world, 1)
            world.wait(lambda: follower.controller.loop and follower.controller.loop.ready().ok)
            time.sleep(2 * PASS_S)
            assert not follower.controller._elector.still_leader()
            answer = asks_directly(port, world, pod)
            assert answer["status"]["code"] == 429
            world.wait_gone(pod)
            assert [node_of(one) for one in world.wait_ready("web", 1)] == [target]
            (move,) = guarded_moves(world)
            assert move["spec"]["requestedBy"] == "somebody"


def asks_directly(port, world, pod):
    """An AdmissionReview to one replica, as the Service would lead it there."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    review = {"uid": "q", "namespace": world.namespace, "name": pod["metadata"]["name"]}
    body = json.dumps({"request": {**review, "userInfo": {"username": "somebody"}}}).encode()
    request = urllib.request.Request(f"https://127.0.0.1:{port}/guard", body)
    with urllib.request.urlopen(request, context=context, timeout=10) as answer:  # noqa: S310 - to this test
        return json.load(answer)["response"]
