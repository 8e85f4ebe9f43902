"""Whole moves through the webhook, on a real control plane without the policy engine."""

import time

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.processes import free_port
from harness.controlplane.world import ENDED, World, gates_of, keys_on
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import discover
from rescheduler.kube.gate import probe_pod
from rescheduler.model.controller_key import controller_key
from rescheduler.model.names import AVOID_CONFIG_MAP
from rescheduler.model.records import OwnerRef
from rescheduler.webhook.certificates import DAY_S, SETTLE_S, renewed
from rescheduler.webhook.match_conditions import MOST_KEYS, MOVABLE
from rescheduler.webhook.registration import WebhookSettings
from rescheduler.webhook.secret import CertificateStore
from rescheduler.webhook.webhook import GateWebhook, Webhook
from tests.waiting import until

pytestmark = pytest.mark.realcluster

OWN = "rescheduler"
GATE_KEYS = f"/api/v1/namespaces/{OWN}/configmaps/gate-keys"
SECRET = "/api/v1/namespaces/rescheduler/secrets/rescheduler-webhook"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/rescheduler.dev"


class Clock:
    """A wall clock that a test sets: so many seconds from the real one."""

    def __init__(self):
        self.offset_s = 0.0

    def __call__(self):
        return time.time() + self.offset_s


@pytest.fixture
def transport(old_control_plane):
    """The installed service account's: it has no rights but those of the manifests."""
    return old_control_plane.account().transport


@pytest.fixture
def world(old_control_plane):
    with World(old_control_plane.api(), "hook") as world:
        yield world


@pytest.fixture
def hooked(old_control_plane, transport):
    """A running webhook alone, leading; nothing is switched on."""
    port = free_port()
    settings = WebhookSettings(namespace=OWN, port=port, url=f"https://127.0.0.1:{port}")
    webhook = Webhook(transport, settings, leads=lambda: True, gate=GateWebhook(transport, settings))
    webhook.start()
    api = old_control_plane.api()
    for name in ("gate-keys", AVOID_CONFIG_MAP):
        api.patch(f"/api/v1/namespaces/{OWN}/configmaps/{name}", {"data": None}).expect()
    until(lambda: webhook.in_force)
    yield webhook
    webhook.stop()


@pytest.fixture
def at_work(transport, monkeypatch):
    """The whole controller with its webhook under a settable clock: (webhook, clock)."""
    port, clock, made = free_port(), Clock(), []
    clock.offset_s = -70 * DAY_S
    prefill(transport, clock())

    def make(*args, **more):
        made.append(Webhook(*args, **more, clock=clock))
        return made[-1]

    monkeypatch.setattr("rescheduler.webhook.webhook.Webhook", make)
    with running(transport, gate={"port": port, "url": f"https://127.0.0.1:{port}"}) as controller:
        until(lambda: controller.faults or (made and made[0].in_force))
        yield made[0], clock


def prefill(transport, now_s):
    """An authority of 180 days before, and a serving certificate made now."""
    store = CertificateStore(KubeApi(transport), OWN)
    hosts = WebhookSettings(namespace=OWN, port=1, url="https://127.0.0.1").hosts
    old = renewed(None, hosts, now_s - 180 * DAY_S)
    store.write(renewed(old, hosts, now_s), store.read().resource_version)


def secret(world):
    return world.api.get(SECRET).expect().body["data"]


def owner(uid):
    return OwnerRef("apps/v1", "ReplicaSet", "web", uid)


def tried(world, uid, **spec):
    """A dry-run pod of that controller, as it would be stored."""
    body = probe_pod(owner(uid), world.namespace, {})
    body["spec"].update(spec)
    return world.api.create(world.path("pods"), body, dryRun="All").expect(201).body


def owned_by(kind):
    return {"apiVersion": "apps/v1", "kind": kind, "name": "it", "uid": "uid-of-it", "controller": True}


def test_discovery_sees_that_the_engine_is_missing(transport):
    assert not discover(KubeApi(transport)).mutating_admission_policies


def test_moves_land_under_a_stampede_while_both_certificates_are_renewed(at_work, world):
    moves = 6
    _, clock = at_work
    before = secret(world)
    wanted = world.stampede(world.full_node("Deployment", moves))

    def ended():
        done = sum(world.move_status(name).get("phase") in ENDED for name in wanted)
        if done >= 1 and clock.offset_s < 0:
            clock.offset_s = 0.0  # a new authority is due
        elif done >= 3 and clock.offset_s == 0.0 and secret(world)["ca.key"] != before["ca.key"]:
            clock.offset_s = SETTLE_S + 60  # it has settled: it signs a new serving certificate
        return done == moves and clock.offset_s > 0

    def renewed():
        now = secret(world)
        return now if all(now[key] != before[key] for key in ("ca.key", "tls.crt")) else None

    world.wait(ended, 120)
    world.landed(wanted)
    after = world.wait(renewed, 30)  # the moves may have been faster
    hooks = world.api.get(HOOKS).expect().body["webhooks"]
    assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {after["ca.crt"]}
    assert not [p for p in world.pods() if gates_of(p)]


# A connection that breaks in its TLS handshake is left to the garbage collector by urllib3.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_moves_land_when_the_api_server_restarts_in_the_middle(at_work, old_control_plane, world):
    # For two minutes the budget counts a pod as gone whose end its controller missed, and its successor of the same name.
    wanted = world.stampede(world.full_node("StatefulSet", 6), ttl="5m")
    world.wait(lambda: any(world.move_status(name).get("phase") == "Succeeded" for name in wanted), 60)
    old_control_plane.stop_apiserver()
    time.sleep(2.0)
    old_control_plane.start_apiserver()
    world.landed(wanted, 300)
    assert not [p for p in world.pods() if gates_of(p)]


def test_nothing_is_evicted_while_the_webhook_is_down(at_work, world):
    webhook, _ = at_work
    ((pod, target),) = world.full_node("Deployment", 1)
    webhook._server.stop()
    name = world.migrate(pod, target)
    found = world.end_of(name)
    assert (found["phase"], found["reason"]) == ("Failed", "GateNotInForce")
    assert "evictedAt" not in found
    assert [p["metadata"]["uid"] for p in world.pods("web")] == [pod["metadata"]["uid"]]


def test_a_pod_is_created_unchanged_while_the_webhook_is_down(hooked, world, transport):
    world.api.patch(GATE_KEYS, keys_on({controller_key(world.namespace, "uid-of-web"): "room"})).expect()
    world.wait(lambda: gates_of(tried(world, "uid-of-web")))
    hooked._server.stop()
    assert world.wait(lambda: not gates_of(tried(world, "uid-of-web")))


def test_other_pods_are_never_sent(hooked, world, transport, monkeypatch):
    asked = []
    monkeypatch.setattr(hooked._gate, "_read_gate_keys", lambda: asked.append(1) or {})
    world.api.patch(GATE_KEYS, keys_on({controller_key(world.namespace, "uid-of-web"): "room"})).expect()
    world.wait(lambda: gates_of(tried(world, "uid-of-web")))
    assert not gates_of(tried(world, "uid-of-another"))
    assert not gates_of(tried(world, "uid-of-web", nodeName="somewhere"))
    assert not asked, "the API server called for a pod that nobody waits for"


def test_beyond_the_limit_of_conditions_the_webhook_itself_looks(hooked, world):
    uids = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(MOST_KEYS)]
    keys = {controller_key(world.namespace, uid): "room" for uid in uids}
    world.api.patch(GATE_KEYS, keys_on(keys)).expect()
    world.wait(lambda: gates_of(tried(world, uids[-1])))
    conditions = world.api.get(HOOKS).expect().body["webhooks"][0]["matchConditions"]
    assert len(conditions[-1]["expression"]) > 30 * MOST_KEYS
    world.api.patch(GATE_KEYS, keys_on({controller_key(world.namespace, "uid-of-web"): "room"})).expect()
    pod = world.wait(lambda: (p := tried(world, "uid-of-web")) and gates_of(p) and p)
    conditions = world.api.get(HOOKS).expect().body["webhooks"][0]["matchConditions"]
    assert conditions[-1]["expression"] == MOVABLE.expression
    assert pod["metadata"]["annotations"]["rescheduler.dev/reservation"] == "room"
    assert not gates_of(tried(world, "uid-of-another"))


PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
REQUIRED = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
SHAPES = [
    {},
    {"schedulingGates": [{"name": "example.org/other"}]},
    {"schedulingGates": [{"name": "rescheduler.dev/hold"}]},
    {"affinity": {}},
    {"affinity": {"podAntiAffinity": {}}},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED}}},
    {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}},
    {"nodeName": "somewhere"},
]
ANNOTATIONS = [None, {"a/b": "c"}, {"rescheduler.dev/reservation": "another"}]


def test_the_effect_is_that_of_the_policies(hooked, world, policies_served, request):
    if not policies_served:
        pytest.skip("this version of Kubernetes has no MutatingAdmissionPolicy to compare with")
    control_plane = request.getfixturevalue("control_plane")
    with World(control_plane.api(), "hook") as new:
        found = [through(w.api, w) for w in (world, new)]
    assert found[0] == found[1]
    named = {(pod["annotations"] or {}).get("rescheduler.dev/reservation") for pod in found[0]}
    assert named == {None, "another", "room", "named", "any", "labelled"}


def through(api, world):
    """All shapes of pods, gated and steered, as the cluster would store them."""
    keys = {
        "object.default.by-name": "named",
        f"object.{world.namespace}.by-name": "named",
        "object..any": "any",
    }
    keys[controller_key("nowhere", "uid-of-another")] = "elsewhere"
    keys["label..example.org__tier.web"] = "labelled"
    keys["labelled.nowhere.example.org__tier"] = "elsewhere"
    for name, key, value, more in (
        ("gate-keys", controller_key(world.namespace, "uid-of-web"), "room", keys),
        (AVOID_CONFIG_MAP, controller_key(world.namespace, "uid-of-web"), "node-a,node-b", {}),
    ):
        path = f"/api/v1/namespaces/{OWN}/configmaps/{name}"
        api.patch(path, keys_on({key: value, **more})).expect()
    try:
        world.wait(lambda: (p := tried(world, "uid-of-web")) and gates_of(p) and "affinity" in p["spec"])
        owned = [
            parts(api, world, spec, {"annotations": annotations}, uid)
            for spec in SHAPES
            for annotations in ANNOTATIONS
            for uid in ("uid-of-web", "uid-of-another")
        ]
        return owned + [parts(api, world, {}, metadata, "") for metadata in METADATA]
    finally:
        for name in ("gate-keys", AVOID_CONFIG_MAP):
            api.patch(f"/api/v1/namespaces/{OWN}/configmaps/{name}", {"data": None}).expect()


METADATA = [
    {"name": "by-name"},
    {"name": "by-other-name"},
    {"name": "any"},
    {"labels": {"example.org/tier": "web", "app": "web"}},
    {"labels": {"example.org/tier": "db"}},
    {"labels": {"example.org/tier": "web"}, "ownerReferences": [owned_by("DaemonSet")]},
    {"labels": {"example.org/tier": "web"}, "ownerReferences": [owned_by("ReplicaSet")]},
]


def parts(api, world, spec, metadata, uid):
    body = probe_pod(owner(uid), world.namespace, {})
    body["spec"].update(spec)
    if not uid:
        del body["metadata"]["ownerReferences"]
    body["metadata"].update({key: value for key, value in metadata.items() if value is not None})
    pod = api.create(world.path("pods"), body, dryRun="All").expect(201).body
    kept = {
        key: pod["spec"][key] for key in ("affinity", "schedulingGates", "nodeName") if key in pod["spec"]
    }
    return {"spec": kept, "annotations": pod["metadata"].get("annotations")}
