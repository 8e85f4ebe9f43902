"""Why is this pod gated? ``status``, ``explain`` and ``check`` name its Reservation, and ``release-gates`` lets it go."""

import json

import pytest

from harness import documents
from rescheduler.model.decode import Decoder
from rescheduler.model.gated_pods import gated_pods, why_gated
from rescheduler.model.kinds import Kind
from tests.waiting import until

PODS = "/api/v1/namespaces/default/pods"
GATED = {"rescheduler.dev/reservation": "room"}


def gated(name="web-1", annotations=GATED):
    container = {"name": "c", "image": "registry.example/app:1"}
    spec = {"containers": [container], "schedulingGates": [{"name": "rescheduler.dev/hold"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": spec,
    }


@pytest.fixture
def without_controller(work, monkeypatch):
    """A Lease of a controller that was killed; its namespace."""
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-public/leases"
    spec = {"holderIdentity": "gone_1", "leaseDurationSeconds": 1, "renewTime": "2026-11-01T08:00:00.000000Z"}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "rescheduler"}}
    work.api.create(path, {**body, "spec": spec}).expect()
    yield "--controller-namespace", "kube-public", "--kubeconfig", work.kubeconfig
    work.api.delete(f"{path}/rescheduler")


ROOMS = {
    "unknown": (None, "it waits for Reservation room, of which nothing is known here"),
    "missing": ({}, "Reservation room does not exist, so the controller lets it go"),
    "held": ({"phase": "Available", "nodeName": "n1"}, "Reservation room is held on node/n1"),
    "waits": (
        {
            "phase": "Pending",
            "conditions": [
                {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            ],
        },
        "Reservation room has no capacity yet: Pending: 0/3 nodes",
    ),
    "used": (
        {"phase": "Succeeded", "currentOwners": [{"namespace": "default", "name": "web-2", "uid": "u"}]},
        "Reservation room was used by default/web-2; the controller gives it another one, or lets it go",
    ),
    "refuses": (
        {
            "phase": "Available",
            "nodeName": "n1",
            "conditions": [
                {"type": "OwnersWait", "status": "True", "reason": "KeptOut", "message": "it is too large"}
            ],
        },
        "Reservation room keeps pods out: it is too large",
    ),
}


@pytest.mark.parametrize("name", ROOMS)
def test_the_reservation_that_holds_lacks_or_refuses_a_pod_is_named(name):
    status, words = ROOMS[name]
    decoder, rooms = Decoder(), {}
    if status is not None:
        spec = {"owners": [{"object": {"namespace": "default", "name": "web-1"}}], "template": {"spec": {}}}
        body = {**documents.own("Reservation", "room", spec, uid="r"), "status": status}
        rooms["room" if status else "other"] = decoder.record(Kind.RESERVATION, json.dumps(body).encode())
    pod = decoder.record(Kind.POD, json.dumps(gated()).encode())
    assert gated_pods([pod]) == [pod]
    assert why_gated(pod, rooms) == words


def test_a_pod_whose_controller_was_killed_is_told_and_let_go(cluster, command):
    api, kubeconfig = cluster
    api.create(PODS, gated(annotations={})).expect()
    try:
        shown = command("status", "--no-plan", "--kubeconfig", kubeconfig)
        assert shown.exit_code == 1
        assert "1 pod waits at the gate" in shown.stdout
        assert "nobody lets them go: start the controller, or: rescheduler release-gates" in shown.stdout
        found = json.loads(command("status", "--no-plan", "-o", "json", "--kubeconfig", kubeconfig).stdout)
        assert [(one["pod"], one["message"]) for one in found["gated"]] == [
            ("web-1", "it names no Reservation, so the controller lets it go")
        ]
        explained = command("explain", "pod", "default/web-1", "--kubeconfig", kubeconfig)
        assert "at the gate: it names no Reservation" in explained.stdout
        assert "no controller runs that would let it go: start it, or: rescheduler release-gates" in (
            explained.stdout
        )
        checked = json.loads(command("check", "-o", "json", "--kubeconfig", kubeconfig).stdout)
        states = {one["name"]: one["state"] for one in checked["checks"]}
        assert (states["gated-pods"], states["controller"]) == ("Broken", "Broken")
        named = command("release-gates", "--dry-run", "--kubeconfig", kubeconfig)
        assert "would: Pod default/web-1: its gate is taken off" in named.stdout
        released = command("release-gates", "--kubeconfig", kubeconfig)
        assert (released.exit_code, "No pod waits at the gate." in released.stdout) == (0, True)
        assert not api.get(f"{PODS}/web-1").body["spec"].get("schedulingGates")
    finally:
        api.delete(f"{PODS}/web-1")


def test_while_a_controller_leads_it_lets_pods_go_itself(work, command):
    done = command("release-gates", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 1
    assert "and lets gated pods go itself" in done.stderr


def test_a_deployment_that_is_scaled_to_0_gets_the_right_remedy(work, command, without_controller):
    path = "/apis/apps/v1/namespaces/kube-public/deployments"
    container = {"name": "c", "image": "registry.example/app:1"}
    labels = {"app.kubernetes.io/name": "rescheduler", "app.kubernetes.io/component": "controller"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "nodeSelector": {"a": "b"}},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "rescheduler"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    work.api.create(path, body).expect()

    def controller():
        found = json.loads(command("status", "--no-plan", "-o", "json", *without_controller).stdout)
        return found["controller"]

    try:
        assert controller()["remedy"] == ("kubectl -n kube-public scale deployment rescheduler --replicas=1")
        work.api.patch(f"{path}/rescheduler", {"spec": {"replicas": 1}}).expect()
        until(lambda: "not scheduled" in controller()["message"])
        found = controller()
        assert "has 0 of 1 pod ready" in found["message"]
        assert found["remedy"].startswith("kubectl -n kube-public describe pod rescheduler-")
    finally:
        work.api.delete(f"{path}/rescheduler")
