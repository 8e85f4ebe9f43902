"""Two API servers on one etcd: the controller proves the gate on one, and replacements are created through the other.

Once with the second in order, and once without the admission plugin, so that what is created there is never held.
"""

import time
from contextlib import ExitStack, contextmanager

import pytest

from harness.controlplane import manifests
from harness.controlplane.controllers import running
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.processes import free_port
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, gates_of, keys_on, node_of, placeholders
from rescheduler.kube.client import KubeApi
from rescheduler.kube.gate import Gate, probe_pod
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.controller_key import controller_key
from rescheduler.model.records import OwnerRef
from rescheduler.webhook.registration import WebhookSettings
from rescheduler.webhook.webhook import GateWebhook, Webhook
from tests.seeds import some

pytestmark = pytest.mark.realcluster

OWN = "rescheduler"
GATE_KEYS = f"/api/v1/namespaces/{OWN}/configmaps/gate-keys"
PLUGINS = {"Policy": "MutatingAdmissionPolicy", "Webhook": "MutatingAdmissionWebhook"}


class Servers:
    """A control plane with two API servers; the controller, once it has begun, works with the first."""

    def __init__(self, way, *, deaf, old_flags, stack):
        flags = [f"--disable-admission-plugins={PLUGINS[way]}"] if deaf else []
        self.plane = stack.enter_context(
            ControlPlane(apiserver_flags=old_flags if way == "Webhook" else (), second_apiserver=flags)
        )
        api = self.plane.api()
        stack.enter_context(KubeletThread(api.transport))
        self.way, self._stack = way, stack
        self._port = free_port()
        manifests.apply(api, manifests.of(way.lower()))
        self.account = self.plane.account().transport
        self.world = stack.enter_context(World(api, "ha"))

    def begin(self):
        gate = {"mode": self.way, "port": self._port, "url": f"https://127.0.0.1:{self._port}"}
        self._stack.enter_context(running(self.account, gate=gate))

    @contextmanager
    def gate_alone(self):
        """The gate without a controller that would take back what nobody asked for."""
        settings = WebhookSettings(namespace=OWN, port=self._port, url=f"https://127.0.0.1:{self._port}")
        webhook = (
            Webhook(self.account, settings, leads=lambda: True, gate=GateWebhook(self.account, settings))
            if self.way == "Webhook"
            else None
        )
        if webhook is not None:
            webhook.start()
            self.world.wait(lambda: webhook.in_force)
        try:
            yield Gate(KubeApi(self.account), namespace=OWN)
        finally:
            if webhook is not None:
                webhook.stop()

    def held_by_the_second(self, owner):
        body = probe_pod(owner, self.world.namespace, {})
        answer = self.plane.second_api().create(self.world.path("pods"), body, dryRun="All")
        return bool(gates_of(answer.expect(201).body))


@pytest.fixture
def servers(request, old_flags, policies_served):
    """servers(deaf=…): a control plane for each test, for its API servers differ."""
    if request.param == "Policy" and not policies_served:
        pytest.skip("this version of Kubernetes has no MutatingAdmissionPolicy")
    with ExitStack() as stack:

        def make(*, deaf):
            return Servers(request.param, deaf=deaf, old_flags=old_flags, stack=stack)

        yield make


def moved(world, kind, moves):
    """Asks for moves from a full node to nodes with room for one; PodMigration -> target."""
    return {world.migrate(pod, target): target for pod, target in world.full_node(kind, moves)}


def nothing_left(world):
    world.wait(lambda: not placeholders(world.api), 30)
    world.wait(lambda: not world.api.get(GATE_KEYS).expect().body.get("data"), 30)
    assert not [p for p in world.pods() if gates_of(p)]


@pytest.mark.parametrize("servers", PLUGINS, indirect=True)
def test_what_is_proven_on_one_is_in_force_on_the_other_when_the_eviction_is_sent(servers):
    both = servers(deaf=False)
    lags = []
    with both.gate_alone() as gate:
        for number in range(20):
            owner = OwnerRef("apps/v1", "ReplicaSet", "web", f"uid-of-web-{number}")
            key = controller_key(both.world.namespace, owner.uid)
            both.world.api.patch(GATE_KEYS, keys_on({key: "room"})).expect()
            both.world.wait(lambda o=owner: gate.proves(o, both.world.namespace))
            proven_s = time.monotonic()
            both.world.wait(lambda o=owner: both.held_by_the_second(o))
            lags.append(time.monotonic() - proven_s)
            gate.api.merge_patch(GATE_KEYS, {"data": {key: None}})
    assert max(lags) < MigrationSettings().gate_settle_s, lags
    both.begin()
    for kind in ("Deployment", "StatefulSet"):
        with World(both.plane.api(), "ha") as world:
            wanted = moved(world, kind, 4)
            found = world.ended(wanted)
            assert {n: (s["reason"], s.get("nodeName")) for n, s in found.items()} == {
                n: ("Landed", target) for n, target in wanted.items()
            }
            nothing_left(world)


@pytest.mark.parametrize("servers", some(PLUGINS, 2), indirect=True)
def test_a_replacement_that_comes_ungated_is_a_soft_failure(servers):
    one = servers(deaf=True)
    one.begin()
    wanted = moved(one.world, "Deployment", 2)
    found = one.world.ended(wanted)
    assert {(s["phase"], s["reason"]) for s in found.values()} == {("Failed", "ReplacementUngated")}, found
    assert all("was created without the gate" in s["message"] for s in found.values())
    assert all(node_of(p) for p in one.world.wait_ready("web", 2, 60))
    nothing_left(one.world)
