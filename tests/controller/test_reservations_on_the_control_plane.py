"""Reservations that people make, on the real control plane: owners without a controller, edits, host ports."""

import pytest
from reserving import look, of_web, phase, reserve, scale

from harness.controlplane.world import World, condition, gates_of
from rescheduler.model.names import ANNOTATION_RESERVATION

pytestmark = [pytest.mark.realcluster, pytest.mark.usefixtures("controller")]

GROUP = "rescheduler.dev/v1alpha1"


WHO = "rescheduler.test/who"
BY_LABEL = {"matchLabels": {WHO: "me"}}
BY_ANY_VALUE = {
    "matchExpressions": [{"key": WHO, "operator": "Exists"}, {"key": "no", "operator": "DoesNotExist"}]
}


@pytest.mark.parametrize("owner", [
    {"labelSelector": BY_ANY_VALUE},
    {"object": {"namespace": "HERE"}, "labelSelector": BY_LABEL},
    {"object": {"namespace": "HERE", "name": "mine"}},
])  # fmt: skip
def test_pods_without_a_controller_get_their_room(world, owner):
    node = world.node("one", cpu="1")
    labels = {WHO: "me"}
    owner = {k: {**v, "namespace": world.namespace} if k == "object" else v for k, v in owner.items()}
    reserve(world, "room", owner, node=node).expect()
    phase(world, "room", "Available")
    world.crowd(3)
    world.pod("mine", labels=labels)
    assert world.wait_bound("mine") == node
    assert world.get_pod("mine")["metadata"]["annotations"][ANNOTATION_RESERVATION].endswith("-room")
    phase(world, "room", "Succeeded")
    world.pod("late", labels=labels)
    world.wait_unschedulable("late")
    assert gates_of(world.get_pod("late")) == []


def test_labels_of_another_namespace_hold_nobody(world):
    node = world.node("one", cpu="1")
    owner = {"object": {"namespace": world.namespace}, "labelSelector": BY_LABEL}
    reserve(world, "room", owner, node=node).expect()
    phase(world, "room", "Available")
    with World(world.api, "else") as another:
        assert gates_of(another.pod("theirs", labels={WHO: "me"})) == []
    assert gates_of(world.pod("mine", labels={WHO: "me"})) == ["rescheduler.dev/hold"]


def test_a_larger_pod_and_surplus_siblings_are_let_go_at_once(world):
    node = world.node("one", cpu="1")
    world.workload("Deployment", "web", 0)
    reserve(world, "room", of_web(world), node=node, cpu="500m").expect()
    phase(world, "room", "Available")
    scale(world, 2)
    world.wait(lambda: len(world.pods("web")) == 2 and not any(gates_of(p) for p in world.pods("web")))
    assert look(world, "room")["phase"] == "Available"


def test_owners_and_ttl_can_be_edited_while_it_is_available(world):
    node = world.node("one", cpu="1")
    reserve(world, "room", of_web(world), node=node, ttl="1h").expect()
    before = phase(world, "room", "Available")
    path = f"/apis/{GROUP}/reservations/{world.namespace}-room"
    mine = {"object": {"namespace": world.namespace, "name": "mine"}}
    world.api.patch(path, {"spec": {"owners": [mine], "ttl": "2h"}}).expect()
    world.wait(lambda: look(world, "room")["expires"] != before["expires"])
    gate_keys = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"
    key = f"object.{world.namespace}.mine"
    world.wait(lambda: key in (world.api.get(gate_keys).expect().body.get("data") or {}))
    world.pod("mine")
    assert world.wait_bound("mine") == node


NAMESPACE = "/api/v1/namespaces/rescheduler"
ENFORCE = "pod-security.kubernetes.io/enforce"
PORT_CONTAINER = {
    "name": "main",
    "image": "pause",
    "ports": [{"containerPort": 80, "hostPort": 8080}],
    "resources": {"requests": {"cpu": "100m"}},
}


def test_host_ports_that_the_namespace_forbids_are_said(world):
    node = world.node("one", cpu="1")
    reserve(world, "ports", of_web(world), node=node, template={"containers": [PORT_CONTAINER]}).expect()
    found = world.wait(lambda: condition({"status": look(world, "ports")}, "Scheduled"))
    assert "hostPort" in found["message"]
    assert look(world, "ports")["phase"] == "Pending"


@pytest.fixture
def privileged(control_plane):
    """The namespace of placeholders as components/host-ports sets it."""
    api = control_plane.api()
    api.patch(NAMESPACE, {"metadata": {"labels": {ENFORCE: "privileged"}}}).expect()
    yield
    api.patch(NAMESPACE, {"metadata": {"labels": {ENFORCE: "restricted"}}}).expect()


def test_host_ports_are_held_where_the_namespace_allows_them(world, privileged):
    node = world.node("one", cpu="2")
    reserve(world, "ports", of_web(world), node=node, template={"containers": [PORT_CONTAINER]}).expect()
    phase(world, "ports", "Available")
    world.pod("rival", containers=[PORT_CONTAINER])
    assert "free ports" in world.wait_unschedulable("rival")
