"""The guard on the real control plane between hostile tenants, faults, and webhooks of others, also when all of it goes away: nobody waits longer than ``guard.limit``, nothing is left."""

import base64
import json
import time
import urllib.request
from contextlib import contextmanager

import pytest

from harness import documents
from harness.controlplane.controllers import QUIET, controller_process, forget_past_moves
from harness.controlplane.processes import free_port
from harness.controlplane.world import gates_of, node_of
from rescheduler.kube.client import KubeApi
from rescheduler.model.names import GUARD
from rescheduler.webhook.certificates import renewed
from rescheduler.webhook.https_server import WebhookServer
from rescheduler.webhook.secret import SECRET_NAME

from .evictions_of_others import (
    DRAINED,
    HOOKS,
    MOVES,
    OWN,
    asked,
    drain,
    guarded_moves,
    guarding,
    opt_in,
    placed,
)

pytestmark = pytest.mark.realcluster


def member(plane, world, role):
    """A client with a ClusterRole of the cluster in the world's namespace."""
    world.account(role, role)
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


SECRET = f"/api/v1/namespaces/{OWN}/secrets/{SECRET_NAME}"


def nothing_is_left(world):
    """No room, no gate, no move under way."""
    ended = {"Succeeded", "Failed"}
    world.wait(lambda: {m.get("status", {}).get("phase") for m in guarded_moves(world)} <= ended, 120)
    world.wait(lambda: {room["status"].get("phase") for room in world.rooms()} <= ended, 60)
    assert not [pod for pod in world.pods("web") if gates_of(pod)]


def test_both_replicas_killed_in_the_middle_of_a_drain_block_nothing(guarded_plane, world, tmp_path):
    """What they had begun is finished by those that come after them."""
    opt_in(world)
    source, _, target = placed(world, 3)
    forget_past_moves(KubeApi(guarded_plane.api().transport))
    port, health_port = free_port(), free_port()
    replicas = [
        replica(guarded_plane, tmp_path, "first", port, health_port=health_port),
        replica(guarded_plane, tmp_path, "second", free_port(), known_at=port),
    ]
    try:
        serving(world, port, health_port)
        for pod in world.pods("web"):
            world.evict(pod).expect(429)
        world.wait(lambda: any(m.get("status", {}).get("reservationName") for m in guarded_moves(world)), 60)
    finally:
        for one in replicas:
            one.kill()
    began = time.monotonic()
    done = drain(guarded_plane, source)
    assert done.returncode == DRAINED, done.stderr
    assert time.monotonic() - began < 60
    with guarding(guarded_plane, world, sections={"leaderElection": {"enabled": True}}):
        assert {node_of(pod) for pod in world.wait_ready("web", 3, 90)} == {target}
        nothing_is_left(world)


def test_a_certificate_that_is_made_anew_in_the_middle_of_a_drain_stops_nothing(
    guarded_plane, world, monkeypatch
):
    monkeypatch.setattr("rescheduler.webhook.reconciler.CERTIFICATES_EVERY_S", 0.5)
    with guarding(guarded_plane, world):
        _, pods, target = placed(world, 3)
        for pod in pods:
            world.evict(pod).expect(429)
        trusted = world.api.get(HOOKS).expect().body["webhooks"][0]["clientConfig"]["caBundle"]
        world.api.patch(SECRET, {"data": None}).expect()

        def trusts_another():
            hooks = world.api.get(HOOKS).expect().body.get("webhooks") or []
            return hooks and hooks[0]["clientConfig"]["caBundle"] != trusted

        world.wait(trusts_another, 60)
        for pod in pods:
            asked(world, pod)
            world.wait_gone(pod)
        assert {node_of(pod) for pod in world.wait_ready("web", 3, 60)} == {target}
        time.sleep(3)  # the API server follows registrations by a watch
        world.evict(world.pods("web")[0]).expect(429)
        nothing_is_left(world)


def test_a_tenant_who_takes_all_room_keeps_a_drain_no_longer_than_the_limit(guarded_plane, world):
    """His pods fill each gap at once, and he asks for moves of his own."""
    with guarding(guarded_plane, world, limit="15s"):
        source, _, target = placed(world)
        tenant = member(guarded_plane, world, "edit")
        filler = documents.workload("Deployment", "filler", 20, world.spec("1"))
        tenant.create(world.path("deployments", group="apps/v1"), filler).expect()
        world.wait(lambda: sum(node_of(pod) == target for pod in world.pods()) == 2)
        began = time.monotonic()
        done = drain(guarded_plane, source)
        assert done.returncode == DRAINED, done.stderr
        assert 13 < time.monotonic() - began < 45
        nothing_is_left(world)


def test_a_pod_whose_successor_never_lands_keeps_a_drain_no_longer_than_the_limit(guarded_plane, world):
    """A StatefulSet updates OnDelete: its successor has a template that fits nowhere."""
    with guarding(guarded_plane, world, limit="15s"):
        source = world.node("source", cpu="1")
        world.running("StatefulSet", "web", 1, more={"updateStrategy": {"type": "OnDelete"}})
        world.node("target", cpu="1")
        template = {"spec": {"template": {"spec": {"nodeSelector": {"no": "such-node"}}}}}
        world.api.patch(world.path("statefulsets", "web", group="apps/v1"), template).expect()
        began = time.monotonic()
        done = drain(guarded_plane, source)
        assert done.returncode == DRAINED, done.stderr
        assert time.monotonic() - began < 45
        nothing_is_left(world)


@contextmanager
def no_evictions(world):
    """A validating webhook of somebody else that refuses every eviction in the namespace."""

    def refuse(body):
        status = {"code": 403, "message": "not on a Friday"}
        answer = {"uid": json.loads(body)["request"]["uid"], "allowed": False, "status": status}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        return json.dumps(review).encode()

    material = renewed(None, ("127.0.0.1",), time.time())
    server = WebhookServer(port=0, routes={"/": refuse}, host="127.0.0.1")
    server.use(material.certificate, material.key)
    server.start()
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    hook = {
        "name": "fridays.example.com",
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "clientConfig": {"url": f"https://127.0.0.1:{server.port}/", "caBundle": base64.b64encode(material.bundle).decode()},
    }  # fmt: skip
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    path = HOOKS.rpartition("/")[0]
    world.api.create(path, {**kind, "metadata": {"name": world.namespace}, "webhooks": [hook]}).expect()
    try:
        yield
    finally:
        world.api.delete(f"{path}/{world.namespace}").expect()
        server.stop()


def test_a_webhook_that_refuses_evictions_is_obeyed_and_its_answer_is_the_last_word(guarded_plane, world):
    """The controller's own eviction is refused as well: the pod stays, and its caller hears why."""
    with guarding(guarded_plane, world, limit="15s"), no_evictions(world):
        _, (pod,), _ = placed(world, 1)
        answers = asked(world, pod, 45)
        world.wait(lambda: "not on a Friday" in world.evict(pod).body["message"], 30)
        assert answers[-1].status == 403
        assert world.wait_ready("web", 1)[0]["metadata"]["uid"] == pod["metadata"]["uid"]
        nothing_is_left(world)
