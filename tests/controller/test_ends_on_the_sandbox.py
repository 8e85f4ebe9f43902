"""A Reservation from its making to its collection, on the sandbox in real time."""

from __future__ import annotations

import time

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.controllers import running
from harness.controlplane.world import gates_of, node_of
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox

GROUP = "/apis/rescheduler.dev/v1alpha1"
PODS = "/api/v1/namespaces/default/pods"
SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster():
    with Sandbox([SandboxNode(name="n1"), SandboxNode(name="n2")], clock=time.time) as cluster:
        api = Api(HttpTransport(cluster.start().url))
        manifests.apply(api, manifests.load())
        with running(api.transport, reservations={"finishedTtl": "4s"}):
            yield cluster, api


def spec(cpu="1"):
    return {"containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]}


def reserve(api, name, owner, **more):
    body = {"template": {"spec": spec()}, "owners": [owner], **more}
    head = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "Reservation", "metadata": {"name": name}}
    api.create(f"{GROUP}/reservations", {**head, "spec": body}).expect()


def phase(api, name):
    return (api.get(f"{GROUP}/reservations/{name}").body.get("status") or {}).get("phase")


@pytest.mark.parametrize(
    "owner",
    [
        {"object": {"namespace": "default", "name": "mine"}},
        {"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"who/is": "me"}}},
        {"labelSelector": {"matchExpressions": [{"key": "who/is", "operator": "Exists"}]}},
    ],
    ids=["name", "label", "any value"],
)
def test_a_used_one_is_collected_and_its_pod_stays(cluster, owner):
    embedded, api = cluster
    reserve(api, "room", owner)
    embedded.wait_for(lambda: phase(api, "room") == "Available", SECONDS)
    node = api.get(f"{GROUP}/reservations/room").body["status"]["nodeName"]
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine", "labels": {"who/is": "me"}}}
    made = api.create(PODS, {**head, "spec": spec()}).expect().body
    assert gates_of(made) == ["rescheduler.dev/hold"]
    embedded.wait_for(lambda: node_of(api.get(f"{PODS}/mine").body), SECONDS)
    assert node_of(api.get(f"{PODS}/mine").body) == node
    embedded.wait_for(lambda: api.get(f"{GROUP}/reservations/room").status == 404, SECONDS)
    assert api.get(f"{PODS}/mine").ok
    api.delete(f"{PODS}/mine").expect()
    embedded.wait_for(lambda: api.get(f"{PODS}/mine").status == 404, SECONDS)


def phase_of(answer):
    return (answer.body.get("status") or {}).get("phase") if answer.status == 200 else None


def test_an_expired_one_and_a_failed_move_are_collected(cluster):
    embedded, api = cluster
    reserve(api, "late", {"object": {"namespace": "default", "name": "nobody"}}, ttl="2s")
    move = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "PodMigration", "metadata": {"name": "move"}}
    moves = f"{GROUP}/namespaces/default/podmigrations"
    api.create(moves, {**move, "spec": {"podRef": {"name": "nobody"}}}).expect()
    paths, failed = {f"{moves}/move", f"{GROUP}/reservations/late"}, set()

    def all_failed():
        failed.update(p for p in paths if phase_of(api.get(p)) == "Failed")
        return failed == paths

    embedded.wait_for(all_failed, SECONDS)
    embedded.wait_for(lambda: all(api.get(path).status == 404 for path in paths), SECONDS)
