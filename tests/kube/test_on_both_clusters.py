"""The same promises on the embedded API server and on the real one."""

import functools
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from harness import documents
from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.world import keys_on
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.connection import connect
from rescheduler.kube.discovery import ServerVersion, discover
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.elector import Elector
from rescheduler.kube.errors import AlreadyExistsError, ConflictError, NotFoundError, RejectedError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.gate import Gate
from rescheduler.kube.informers import Informers
from rescheduler.kube.metrics_api import node_usage
from rescheduler.kube.node_autoscaler import LAST_UPDATED, STATUS, node_autoscaler_reports
from rescheduler.kube.reflector import ChangeType
from rescheduler.kube.server_clock import ServerClock, TimedTransport
from rescheduler.model.controller_key import controller_key
from rescheduler.model.decode import Decoder
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_VALID_UNTIL, LABEL_GATE_PROBE
from rescheduler.model.outcomes import EvictionOutcome
from rescheduler.model.records import OwnerRef
from rescheduler.model.times import format_seconds, parse_timestamp
from tests import waiting

until = functools.partial(waiting.until, limit_s=120.0)
"""120 s: the controller manager opens a watch again 30 s after a refusal, and other tests restart the API server."""

LEASES = "/apis/coordination.k8s.io/v1/namespaces/rescheduler/leases"
GATE_KEYS = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"


@dataclass(frozen=True)
class Server:
    """An API server with workload controllers, kubelets and the project's manifests."""

    admin: Api
    kubeconfig: str
    restart: Callable[[], None] | None = None


@pytest.fixture(scope="session")
def real_server(control_plane):
    def restart():
        control_plane.stop_apiserver()
        time.sleep(1)
        control_plane.start_apiserver()

    return Server(control_plane.api(), str(control_plane.kubeconfig), restart)


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory):
    kubeconfig = tmp_path_factory.mktemp("embedded") / "kubeconfig"
    with Sandbox(clock=time.time) as cluster:
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, manifests.load())
        yield Server(api, str(kubeconfig))


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.realcluster)], scope="session")
def server(request):
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def transport(server):
    connection = connect(server.kubeconfig)
    yield connection
    connection.close()


@pytest.fixture
def api(transport):
    return KubeApi(transport)


@pytest.fixture
def namespace(server):
    admin = server.admin
    name = f"kube-{uuid.uuid4().hex[:8]}"
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}}).expect()
    until(lambda: admin.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").ok)
    yield name
    for item in admin.get(f"/api/v1/namespaces/{name}/pods").items:
        admin.delete(f"/api/v1/namespaces/{name}/pods/{item['metadata']['name']}", {"gracePeriodSeconds": 0})
    admin.delete(f"/api/v1/namespaces/{name}")


def pod(name, **labels):
    """Held by a gate of its own, so that nothing ever happens to it by itself."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "pause"}], "schedulingGates": [{"name": "test/held"}]},
    }


@pytest.fixture
def informers(transport):
    started = []

    def start(**options):
        started.append(Informers(transport, Decoder(), **options))
        started[-1].start()
        until(started[-1].synced)
        return started[-1]

    yield start
    for one in started:
        one.stop()


def mirror(informers, known=None):
    """What the events alone say: (kind, namespace, name) -> record."""
    known = {} if known is None else known
    while not informers.events.empty():
        event = informers.events.get()
        if event.type is ChangeType.SYNCED:
            continue
        key = (event.kind, getattr(event.record, "namespace", ""), event.record.name)
        if event.type is ChangeType.DELETED:
            del known[key]
        else:
            known[key] = event.record
    return known


def test_discovery(api):
    found = discover(api)
    assert found.version >= ServerVersion(1, 36)
    assert found.mutating_admission_policies
    assert found.events
    assert not found.koordinator_reservations
    assert not found.volcano_pod_groups
    assert not found.coscheduling_pod_groups
    assert not found.pod_groups
    assert node_usage(api) == ()


def test_watch_list_and_paged_lists_know_the_same(api, informers, namespace):
    for n in range(30):
        api.create(f"/api/v1/namespaces/{namespace}/pods", pod(f"p{n}", app="a"))
    streamed, paged = informers(watch_list=True), informers(watch_list=False)
    until(lambda: streamed.of(Kind.POD).objects == paged.of(Kind.POD).objects >= 30)
    first, second = mirror(streamed), mirror(paged)
    assert {k: v for k, v in first.items() if k[1] == namespace} == {
        k: v for k, v in second.items() if k[1] == namespace
    }
    # Kubernetes may still remove what earlier tests left in their namespaces: both are told of it, one before the other.
    until(lambda: mirror(streamed, first).keys() == mirror(paged, second).keys())
    assert streamed.stale_for_s() < 70
    assert streamed.problems() == {}
    assert all(sum(informer.relists.values()) == 0 for informer in streamed.all())


def test_informers_survive_a_restart_of_the_api_server(server, api, informers, namespace):
    if server.restart is None:
        pytest.skip("the API server of the sandbox does not restart")
    watching = informers()
    known = mirror(watching)
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.create(path, pod("before"))
    server.restart()
    until(lambda: server.admin.get(path).ok, limit_s=60)
    api.create(path, pod("after"))
    api.delete(f"{path}/before", uid=known_uid(api, f"{path}/before"), grace_s=0)

    def caught_up():
        mirror(watching, known)
        return (Kind.POD, namespace, "after") in known and (Kind.POD, namespace, "before") not in known

    until(caught_up, limit_s=60)
    assert watching.dead() == ()


def known_uid(api, path):
    import json  # noqa: PLC0415

    return json.loads(api.get(path))["metadata"]["uid"]


def test_preconditions_and_names(api, namespace):
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.create(path, pod("p"))
    with pytest.raises(AlreadyExistsError):
        api.create(path, pod("p"))
    with pytest.raises(ConflictError):
        api.delete(f"{path}/p", uid="another")
    with pytest.raises(NotFoundError):
        api.get(f"{path}/missing")
    with pytest.raises(RejectedError) as caught:
        api.create(
            path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": {"containers": []}}
        )
    assert any(cause.field == "spec.containers" for cause in caught.value.causes)
    guard = {"op": "test", "path": "/metadata/resourceVersion", "value": "1"}
    with pytest.raises(ConflictError):
        api.json_patch(f"{path}/p", [guard, {"op": "add", "path": "/metadata/labels/a", "value": "b"}])
    seen = {"op": "test", "path": "/metadata/name", "value": "p"}
    with pytest.raises(RejectedError):
        api.json_patch(f"{path}/p", [seen, {"op": "replace", "path": "/spec/containers", "value": []}])
    api.create(path, pod("dry"), dry_run=True)
    with pytest.raises(NotFoundError):
        api.get(f"{path}/dry")


def budget(name, **selector):
    return documents.budget(name, minAvailable=1, selector={"matchLabels": selector})


@pytest.fixture
def running(server, api, namespace):
    """Factory: a pod that runs, on a node of its own."""
    from harness.controlplane.nodes import add_node  # noqa: PLC0415
    from kube_sandbox.nodes import SandboxNode, node_object  # noqa: PLC0415

    admin = server.admin
    node = f"node-{namespace}"
    add_node(admin, node_object(SandboxNode(name=node)))

    def make(name, **labels):
        body = pod(name, **labels)
        body["spec"] = {
            "nodeName": node,
            "containers": [{"name": "c", "image": "pause"}],
            "terminationGracePeriodSeconds": 30,
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        api.create(path, body)

        def uid():
            found = admin.get(f"{path}/{name}").body
            ready = {c["type"]: c["status"] for c in found.get("status", {}).get("conditions", [])}.get(
                "Ready"
            )
            return found["metadata"]["uid"] if ready == "True" else None

        return until(uid)

    yield make
    admin.delete(f"/api/v1/nodes/{node}")


def test_what_an_eviction_answers(server, api, namespace, running):
    admin = server.admin
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    free, held, doubly = running("free"), running("held", app="held"), running("doubly", app="two")
    for name, label in (("one", "held"), ("two-a", "two"), ("two-b", "two")):
        admin.create(budgets, budget(name, app=label)).expect()
    until(lambda: admin.get(f"{budgets}/one").body.get("status", {}).get("currentHealthy") == 1)

    assert api.evict(namespace, "free", free, dry_run=True).outcome is EvictionOutcome.EVICTED
    assert api.evict(namespace, "free", "another-uid").outcome is EvictionOutcome.REPLACED
    assert api.evict(namespace, "missing", free).outcome is EvictionOutcome.GONE
    assert api.evict(namespace, "doubly", doubly, dry_run=True).outcome is EvictionOutcome.MULTIPLE_BUDGETS
    blocked = api.evict(namespace, "held", held)
    assert (blocked.outcome, blocked.retry_after_s) == (EvictionOutcome.BLOCKED, None)
    assert "one" in blocked.message
    assert api.evict(namespace, "free", free).outcome is EvictionOutcome.EVICTED
    again = api.evict(namespace, "free", free).outcome
    assert again in {EvictionOutcome.EVICTED, EvictionOutcome.GONE}


def test_answers_tell_the_time_of_the_objects_that_they_create(transport, namespace):
    """Whatever the clock of this machine shows."""
    clock = ServerClock(wall=lambda: time.time() + 3_600.0)
    timed = KubeApi(TimedTransport(transport, clock))
    before_s = time.monotonic()
    body = timed.create(f"/api/v1/namespaces/{namespace}/pods", pod("dated"))
    created_s = parse_timestamp(msgspec.json.decode(body)["metadata"]["creationTimestamp"])
    took_s = time.monotonic() - before_s
    assert -2.0 <= clock.now_s() - created_s <= 2.0 + took_s
    assert clock.skew_s() == pytest.approx(3_600.0, abs=2.0 + took_s)


def test_the_gate_is_proven_only_while_it_is_on(api):
    gate = Gate(api)
    uid = str(uuid.uuid4())
    owner = OwnerRef("apps/v1", "ReplicaSet", "web", uid)
    assert gate.installed()
    assert not gate.proves(owner, "shop")
    key = controller_key("shop", uid)
    api.merge_patch(GATE_KEYS, keys_on({key: "rsv-1"}))
    assert read_config_map(api, "rescheduler", "gate-keys").data[key] == "rsv-1"
    assert gate.proves(owner, "shop")
    assert not gate.proves(owner, "another")
    assert gate.holds_for(owner, gate.namespace, {LABEL_GATE_PROBE: "shop"}) == "rsv-1"
    assert gate.holds_for(owner, gate.namespace) == ""
    api.merge_patch(GATE_KEYS, {"data": {key: None}})
    assert not gate.proves(owner, "shop")


def test_an_event_is_taken_once(server, api, namespace):
    recorder = EventRecorder(api, instance="test")
    recorder.start()
    about = ObjectReference("Pod", "web-1", namespace, str(uuid.uuid4()))
    what = Event(about, "Evicted", "moved to n1", related=ObjectReference("Node", "n1"))
    recorder.record(what)
    recorder.record(what)
    recorder.record(Event(ObjectReference("Node", "n1"), "Checked", "of no namespace"))
    recorder.stop()
    assert (recorder.written, recorder.dropped) == (2, 0)
    (event,) = server.admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").items
    assert (event["reason"], event["related"]["name"]) == ("Evicted", "n1")


def test_two_electors_on_one_lease(transport, namespace):
    timing = LeaseTiming(duration_s=3, renew_s=2, retry_s=0.3)
    lost = []
    first, second = (
        Elector(transport, namespace=namespace, name="l", identity=name, on_lost=lost.append, timing=timing)
        for name in "ab"
    )
    first.start()
    assert until(first.still_leader, limit_s=10)
    second.start()
    time.sleep(3.5)
    assert not second.still_leader()
    first.stop()
    assert until(second.still_leader, limit_s=2)
    assert lost == []
    second.stop()


@pytest.mark.realcluster
def test_the_rights_of_the_installation_are_enough(control_plane):
    connection = connect(str(control_plane.kubeconfig_for("rescheduler", "rescheduler")))
    api = KubeApi(connection)
    assert discover(api).installed
    assert node_usage(api) == ()
    status = {LAST_UPDATED: time.strftime("%Y-%m-%d %H:%M:%S.5 +0000 UTC", time.gmtime())}
    body = {"metadata": {"name": STATUS, "annotations": status}}
    assert not node_autoscaler_reports(api, time.time())
    control_plane.api().create("/api/v1/namespaces/kube-system/configmaps", body).expect()
    assert node_autoscaler_reports(api, time.time())
    control_plane.api().delete(f"/api/v1/namespaces/kube-system/configmaps/{STATUS}")
    reading = Informers(connection, Decoder())
    reading.start()
    until(lambda: reading.synced() or "forbidden" in str(reading.problems()))
    assert reading.synced(), reading.problems()
    reading.stop()

    uid = str(uuid.uuid4())
    gate = Gate(api)
    assert gate.installed()
    valid = {"annotations": {ANNOTATION_VALID_UNTIL: format_seconds(time.time() + 300)}}
    api.merge_patch(GATE_KEYS, {"metadata": valid, "data": {controller_key("shop", uid): "rsv-1"}})
    assert gate.proves(OwnerRef("apps/v1", "ReplicaSet", "web", uid), "shop")
    api.merge_patch(GATE_KEYS, {"data": {controller_key("shop", uid): None}})

    recorder = EventRecorder(api, instance="test")
    recorder.start()
    recorder.record(Event(ObjectReference("Node", "n1"), "Checked", "by the service account"))
    recorder.stop()
    assert (recorder.written, recorder.dropped) == (1, 0)

    control_plane.api().delete(f"{LEASES}/rescheduler")  # the only one that it may write
    elector = Elector(connection, namespace="rescheduler", name="rescheduler", identity="a", on_lost=print)
    elector.start()
    assert until(elector.still_leader, limit_s=60)
    elector.stop()
    assert control_plane.api().get(f"{LEASES}/rescheduler").body["spec"]["holderIdentity"] == ""
    connection.close()
