import dataclasses

import msgspec
import pytest

from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import ServerVersion, discover
from rescheduler.kube.gate import PROOF, Gate
from rescheduler.kube.metrics_api import measured_usage, node_usage, pod_usage
from rescheduler.kube.retry import NO_RETRY
from rescheduler.model.controller_key import controller_key
from rescheduler.model.measured import NodeUsage
from rescheduler.model.names import LABEL_GATE_PROBE
from rescheduler.model.records import OwnerRef

OWNER = OwnerRef("apps/v1", "ReplicaSet", "web-5d", "uid-1")
KEY = controller_key("apps", "uid-1")


class GateServer:
    """A ConfigMap and a policy that comes into force after ``lag`` probes."""

    def __init__(self, answer, refusal, *, lag=0, data=None, policy=True, held_for=""):
        self.answer, self.refusal, self.held_for = answer, refusal, held_for
        self.data, self.lag, self.policy, self.probes = data, lag, policy, []
        self.reads, self.follows = 0, "ns"

    def __call__(self, request):
        if request.path.endswith("/pods"):
            return self.probe(request)
        if "mutatingadmission" in request.path:
            binding = {"spec": {"paramRef": {"name": "gate-keys", "namespace": self.follows}}}
            return self.answer(200, binding) if self.policy else self.refusal(404, "NotFound", name="gate")
        assert request.path == "/api/v1/namespaces/ns/configmaps/gate-keys"
        self.reads += 1
        if self.data is None:
            return self.refusal(404, "NotFound", name="gate-keys", kind="configmaps")
        return self.answer(200, {"data": self.data or None})

    def probe(self, request):
        assert request.query["dryRun"] == "All"
        pod = msgspec.json.decode(request.body)
        self.probes.append(pod)
        self.lag -= 1
        uid = pod["metadata"]["ownerReferences"][0]["uid"]
        key = controller_key(pod["metadata"]["labels"][LABEL_GATE_PROBE], uid)
        if self.lag < 0 and self.policy and key in (self.data or {}):
            pod["spec"]["schedulingGates"] = [{"name": "other"}, {"name": "rescheduler.dev/hold"}]
            pod["metadata"]["annotations"] = {"rescheduler.dev/reservation": self.held_for or self.data[key]}
        return self.answer(201, pod)


@pytest.fixture
def gate(fake_transport, answer, refusal, clock):
    def make(**options):
        server = GateServer(answer, refusal, **options)
        api = KubeApi(fake_transport(server), NO_RETRY)
        return Gate(api, "ns", proof=dataclasses.replace(PROOF, sleep=clock.sleep)), server

    return make


def test_the_gate_is_proven_by_a_pod_that_is_held_for_that_reservation(gate):
    gates, server = gate(data={KEY: "rsv-1"})
    assert gates.proves(OWNER, "apps")
    (pod,) = server.probes
    reference = pod["metadata"]["ownerReferences"][0]
    assert (reference["uid"], reference["controller"], pod["metadata"]["namespace"]) == ("uid-1", True, "ns")


def test_a_probe_that_comes_too_early_is_repeated(gate):
    gates, server = gate(data={KEY: "rsv-1"}, lag=2)
    assert gates.proves(OWNER, "apps")
    assert len(server.probes) == 3


@pytest.mark.parametrize("options", [{"policy": False}, {"held_for": "another"}])
def test_a_gate_that_is_not_in_force_is_never_proven(gate, clock, options):
    gates, server = gate(data={KEY: "rsv-1"}, **options)
    assert not gates.proves(OWNER, "apps")
    assert 2 < len(server.probes) < 50
    assert clock.now_s < 2


@pytest.mark.parametrize(
    ("data", "namespace"),
    [(None, "apps"), ({}, "apps"), ({KEY: "rsv-1"}, "others"), ({KEY: "rsv-1"}, "kube-system")],
)
def test_nothing_is_tried_where_no_key_is_set_or_the_policy_leaves_the_namespace_out(gate, data, namespace):
    gates, server = gate(data=data)
    assert not gates.proves(OWNER, namespace)
    assert server.probes == []


def test_keys_that_are_known_to_be_stored_are_not_read_for_each_proof(gate):
    gates, server = gate(data={KEY: "rsv-1"})
    asked = dataclasses.replace(gates, known=lambda: {KEY: "rsv-1"})
    assert asked.proves(OWNER, "apps")
    assert server.reads == 0
    server.data = {KEY: "another"}
    assert not asked.proves(OWNER, "apps"), "another content holds it for another Reservation"
    assert dataclasses.replace(gates, known=lambda: None).proves(OWNER, "apps")
    assert server.reads == 1


def test_whether_it_is_installed(gate):
    assert gate()[0].installed()
    assert not gate(policy=False)[0].installed()
    assert gate(policy=False)[0].of_another() == gate()[0].of_another() == ""


def test_a_policy_that_follows_the_keys_of_another_controller_is_none_of_ours(gate):
    gates, server = gate()
    server.follows = "elsewhere"
    assert not gates.installed()
    assert gates.of_another() == "elsewhere"


def test_discovery_of_a_bare_server(fake_transport, refusal):
    groups = {
        "/apis": {"kind": "APIGroupList", "groups": []},
        "/version": {"major": "1", "minor": "36+", "gitVersion": "v1.36.2-vendor"},
        "/apis/admissionregistration.k8s.io/v1": {
            "kind": "APIResourceList",
            "resources": [{"name": "mutatingadmissionpolicies"}, {"name": "mutatingadmissionpolicybindings"}],
        },
        "/apis/rescheduler.dev/v1alpha1": {
            "kind": "APIResourceList",
            "resources": [{"name": "reservations"}, {"name": "reservations/status"}],
        },
    }
    transport = fake_transport(
        lambda r: refusal(503) if "metrics" in r.path else groups.get(r.path, refusal(404, "NotFound"))
    )
    found = discover(KubeApi(transport, NO_RETRY))
    assert found.version == ServerVersion(1, 36, "v1.36.2-vendor")
    assert found.version >= ServerVersion(1, 36)
    assert (found.mutating_admission_policies, found.koordinator_reservations) == (True, False)
    assert (found.reservations, found.pod_migrations, found.installed) == (True, False, False)


def test_node_usage_leaves_damaged_entries_out(fake_transport):
    items = [
        {"metadata": {"name": "b"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "250m", "memory": "1Ki"}},
        {"metadata": {"name": "a"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "1500000n", "memory": "5"}},
        {"metadata": {"name": "x"}, "usage": {"cpu": "lots"}},
        {"metadata": {"name": "half"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "1"}},
        {"metadata": {}},
    ]  # fmt: skip
    api = KubeApi(fake_transport(lambda _: {"items": items}), NO_RETRY)
    assert node_usage(api) == (NodeUsage("a", 2, 5, 1767225600.0), NodeUsage("b", 250, 1024, 1767225600.0))


@pytest.mark.parametrize("code", [404, 403, 503])
def test_no_metrics_server_is_no_usage(fake_transport, refusal, code):
    api = KubeApi(fake_transport(lambda _: refusal(code)), NO_RETRY)
    assert (node_usage(api), pod_usage(api).size) == ((), 0)


def test_where_pods_may_not_be_read_nodes_are_measured_all_the_same(fake_transport, refusal):
    node = {
        "metadata": {"name": "a"},
        "timestamp": "2026-01-01T00:00:00Z",
        "usage": {"cpu": "1", "memory": "5"},
    }
    transport = fake_transport(lambda r: refusal(403) if r.path.endswith("/pods") else {"items": [node]})
    found = measured_usage(KubeApi(transport, NO_RETRY), pods=True)
    assert ([one.node for one in found.nodes], found.pods.size) == (["a"], 0)
