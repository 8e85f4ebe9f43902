"""The guard on the real control plane, between hostile tenants and faults: nothing waits longer than ``guard.limit``, nothing is left."""

import json
import time
import urllib.request

import pytest

from harness import documents
from harness.controlplane.controllers import QUIET, controller_process, forget_past_moves
from harness.controlplane.processes import free_port
from harness.controlplane.world import node_of
from rescheduler.kube.client import KubeApi
from rescheduler.model.names import GUARD

from .evictions_of_others import HOOKS, MOVES, asked, guarded_moves, guarding, opt_in, placed

pytestmark = pytest.mark.realcluster


def member(plane, world, role):
    """A client with a ClusterRole of the cluster in the world's namespace."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role}}
    world.api.create(world.path("serviceaccounts"), account).expect()
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": world.namespace}],
    }
    world.api.create(world.path("rolebindings", group="rbac.authorization.k8s.io/v1"), binding).expect()
    client = plane.account(world.namespace, role)
    world.wait(lambda: client.get(world.path("pods")).ok)
    return client


def test_who_may_not_evict_starts_nothing(guarded_plane, world):
    with guarding(guarded_plane, world):
        _, (pod,), _ = placed(world, 1)
        viewer = member(guarded_plane, world, "view")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        viewer.create(world.path("pods", pod["metadata"]["name"], "eviction"), body).expect(403)
        time.sleep(2)
        assert not world.moves()


def test_nobody_else_makes_a_guarded_move(guarded_plane, world):
    body = documents.migration("m", "web-1", policy=GUARD, requestedBy="somebody")
    team = member(guarded_plane, world, "edit")
    path = world.path("podmigrations", group=MOVES)
    world.wait(lambda: team.get(path).ok)
    answer = team.create(path, body).expect(403)
    assert "whose eviction a PodMigration replaces" in answer.body["message"]
    del body["spec"]["requestedBy"]
    team.create(path, body).expect(201)


def test_who_deletes_the_moves_again_and_again_keeps_no_eviction_longer_than_the_limit(guarded_plane, world):
    """The right to delete PodMigrations is one that tenants may have."""
    with guarding(guarded_plane, world, limit="12s"):
        world.node("source", cpu="1")
        (pod,) = world.running("Deployment", "web", 1)
        began, deleted = time.monotonic(), 0
        while world.evict(pod).status == 429:
            assert time.monotonic() - began < 40
            for move in guarded_moves(world):
                path = world.path("podmigrations", move["metadata"]["name"], group=MOVES)
                deleted += world.api.delete(path).ok
            time.sleep(0.5)
        assert deleted
        world.wait_gone(pod)


def test_an_api_server_that_restarts_in_the_middle_of_a_drain_loses_nothing(guarded_plane, world):
    with guarding(guarded_plane, world):
        _, pods, target = placed(world)
        for pod in pods:
            world.evict(pod).expect(429)
        world.wait(lambda: len(guarded_moves(world)) == 2)
        guarded_plane.stop_apiserver()
        guarded_plane.start_apiserver()
        for pod in pods:
            asked(world, pod, 60)
            world.wait_gone(pod)
        assert {node_of(pod) for pod in world.wait_ready("web", 2, 60)} == {target}
        world.wait(lambda: {m["status"]["phase"] for m in guarded_moves(world)} == {"Succeeded"}, 60)
        assert {room["status"]["phase"] for room in world.rooms()} <= {"Succeeded"}


def replica(plane, folder, name, guard_port, *, known_at=0, health_port=0):
    """A replica as a process of its own, which can be killed. ``known_at``: the port of the one that API servers ask."""
    configuration = {
        **QUIET,
        "leaderElection": {"enabled": True},
        "gate": {"port": guard_port, "url": f"https://127.0.0.1:{known_at or guard_port}"},
        "guard": {},
        "server": {"port": health_port or free_port()},
    }
    process = controller_process(plane, folder, name, configuration)
    process.start()
    return process


def serving(world, guard_port, health_port):
    """Waits until API servers ask the replica with these ports, which another one may have registered before it knew the cluster."""

    def ready():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health_port}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    world.wait(ready, 60)
    world.wait(lambda: f":{guard_port}/" in json.dumps(world.api.get(HOOKS).body), 60)
    time.sleep(3)  # the API server follows registrations by a watch


def test_a_leader_that_is_killed_blocks_nothing_and_its_moves_are_finished(guarded_plane, world, tmp_path):
    opt_in(world)
    _, pods, _ = placed(world)
    forget_past_moves(KubeApi(guarded_plane.api().transport))
    port, health_port = free_port(), free_port()
    first = replica(guarded_plane, tmp_path, "first", port, health_port=health_port)
    try:
        serving(world, port, health_port)
        world.evict(pods[0]).expect(429)
        world.wait(lambda: guarded_moves(world), 60)
    finally:
        first.kill()
    assert world.evict(pods[1]).status == 201
    with guarding(guarded_plane, world, sections={"leaderElection": {"enabled": True}}):
        world.wait(
            lambda: (
                {m.get("status", {}).get("phase") for m in guarded_moves(world)} <= {"Succeeded", "Failed"}
            ),
            90,
        )
        world.wait_ready("web", 2, 60)
        assert {room["status"]["phase"] for room in world.rooms()} <= {"Succeeded", "Failed"}
