"""Every pod that the program makes in its own namespace is let through, and with one field more it is not; on both clusters."""

import json
import time

import pytest

from harness import builders as b
from harness import documents
from rescheduler.model import names
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MoveMode, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import format_seconds
from rescheduler.reservations.node_request import request_node
from rescheduler.reservations.placeholder import Part, placeholder_manifest
from rescheduler.reservations.scheduler_probe import ask_scheduler
from rescheduler.reservations.settings import ReservationSettings

OWN = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}"
GATE_KEYS = f"{OWN}/configmaps/gate-keys"
SETTINGS = ReservationSettings()
CONTAINER = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
SPECS = {
    "plain": {},
    "on some nodes": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]},
    "of another scheduler": {"schedulerName": "other"},
}


def reservation(spec, annotations=None):
    owners = [{"object": {"namespace": "default", "name": "web-0"}}]
    meta = {"uid": "u-room", "annotations": annotations or {}}
    body = documents.reservation("room", {"containers": [CONTAINER], **spec}, owners, meta=meta)
    return Decoder().record(Kind.RESERVATION, json.dumps(body).encode())


SHAPED = (
    b.pod("web-0", "shop")
    .tolerate("gpu", operator="Exists")
    .node_selector({"disk": "ssd"})
    .apart("kubernetes.io/hostname", app="web")
    .build()
)


def request_of(pod):
    """The pod that asks for a node for ``pod``, in a cluster where the controller has a Deployment."""
    move = PodMigration(name="m", namespace=pod.namespace, uid="u", pod_name=pod.name)
    deployment = b.deployment("rescheduler", names.DEFAULT_NAMESPACE).build()
    return request_node(move, pod, (), SETTINGS, deployment)


def placeholders():
    """Of every form that the program makes."""
    for label, spec in SPECS.items():
        room = reservation(spec)
        for part in (Part(), Part(waits=True), Part(size=room.template.requests, waits=True, suffix="rest")):
            yield f"{label}, {part.suffix or part.waits}", placeholder_manifest(room, "n1", SETTINGS, part)
    soft = reservation({}, {names.ANNOTATION_MODE: MoveMode.SOFT})
    yield "soft", placeholder_manifest(soft, "n1", SETTINGS)
    yield (
        "probe of a scheduler",
        ask_scheduler(ObjectKey(names.DEFAULT_NAMESPACE, "probe"), "default-scheduler", SETTINGS.pause_image, reservation({})).body,
    )  # fmt: skip
    yield "request for a node", request_of(SHAPED).body


MADE = {label: json.loads(body) for label, body in placeholders()}
HOSTILE = {"name": "c", "image": SETTINGS.pause_image}
PROBE = {"exec": {"command": ["sh"]}}
MORE_SPEC = {
    "initContainers": [HOSTILE],
    "volumes": [{"name": "v", "secret": {"secretName": "rescheduler-webhook"}}],
    "serviceAccountName": "rescheduler",
    "automountServiceAccountToken": True,
    "nodeName": "n1",
    "hostNetwork": True,
    "hostPID": True,
    "hostIPC": True,
    "shareProcessNamespace": True,
    "priorityClassName": "system-cluster-critical",
    "runtimeClassName": "other",
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}],
    "hostname": "db",
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
}
MORE_CONTAINER = {
    "image": "registry.example/miner:1",
    "command": ["sh"],
    "args": ["-c"],
    "env": [{"name": "A", "value": "b"}],
    "envFrom": [{"secretRef": {"name": "rescheduler-webhook"}}],
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "lifecycle": {"postStart": PROBE},
    "workingDir": "/tmp",  # noqa: S108 - a field of a container, no file
    "stdin": True,
    "tty": True,
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "securityContext": {"privileged": True},
}


def create(both, body):
    """The answer; what was created is deleted again."""
    admin, controller = both
    answer = controller.create(f"{OWN}/pods", body)
    if answer.status == 201:
        admin.delete(f"{OWN}/pods/{answer.body['metadata']['name']}", {"gracePeriodSeconds": 0})
    return answer


def test_every_pod_that_the_program_makes_is_let_through(both):
    assert {label: create(both, made).status for label, made in MADE.items()} == dict.fromkeys(MADE, 201)


@pytest.mark.parametrize("label", ["plain, False", "probe of a scheduler", "request for a node"])
def test_with_one_field_of_the_pod_or_its_container_more_it_is_refused(both, label):
    spec = MADE[label]["spec"]
    (container,) = spec["containers"]
    wrong = {field: {**spec, field: value} for field, value in MORE_SPEC.items()}
    for field, value in MORE_CONTAINER.items():
        wrong[f"containers.{field}"] = {**spec, "containers": [{**container, field: value}]}
    found = {name: create(both, {**MADE[label], "spec": more}).status for name, more in wrong.items()}
    refused = {name: (403, 422) if name.startswith("containers.") else (403,) for name in wrong}
    assert {name: status for name, status in found.items() if status not in refused[name]} == {}


def test_a_pod_that_asks_for_a_node_is_given_to_no_scheduler(both):
    """As admission that sets a scheduler for all pods would: it would take rooms that are handed over."""
    made = MADE["request for a node"]
    create(both, {**made, "spec": {**made["spec"], "schedulerName": "volcano"}}).expect(403)
    without = {field: value for field, value in made["spec"].items() if field != "schedulerName"}
    create(both, {**made, "spec": without}).expect(403)


@pytest.mark.parametrize(
    "context", [{"capabilities": {"add": ["SYS_ADMIN"]}}, {"seLinuxOptions": {}, "procMount": "Default"}, {}]
)
def test_it_has_no_more_privileges(both, context):
    spec = MADE["plain, False"]["spec"]
    containers = [{**spec["containers"][0], "securityContext": context}]
    create(both, {**MADE["plain, False"], "spec": {**spec, "containers": containers}}).expect(403)


def test_its_image_may_be_another_one_that_the_configuration_names(both):
    admin, _ = both
    body = json.loads(
        placeholder_manifest(
            reservation({}), "n1", ReservationSettings(pause_image="registry.example/pause:1")
        )
    )
    create(both, body).expect(403)
    path = f"{OWN}/configmaps/rescheduler"
    before = admin.get(path).expect(200).body["data"]["config.yaml"]
    try:
        for written in (
            "reservations:\n  pauseImage: registry.example/pause:1\n",
            'reservations: {ttl: 5m, pauseImage: "registry.example/pause:1"}\n',
            'reservations: {"pauseImage":"registry.example/pause:1"}\n',
        ):
            admin.patch(path, {"data": {"config.yaml": before + written}}).expect(200)
            patience(lambda: create(both, body).status == 201)
            begin = {
                **body,
                "spec": {**body["spec"], "containers": [{**body["spec"]["containers"][0], "image": "registry.example/p"}]},
            }  # fmt: skip
            create(both, begin).expect(403)
    finally:
        admin.patch(path, {"data": {"config.yaml": before}}).expect(200)


def patience(holds):
    """Policies look at their parameter in a cache."""
    for _ in range(50):
        if holds():
            return
        time.sleep(0.2)
    raise AssertionError("not within 10 s")


def keys(seconds):
    return {
        "metadata": {"annotations": {names.ANNOTATION_VALID_UNTIL: format_seconds(time.time() + seconds)}}
    }


MANAGER = {"fieldManager": "rescheduler"}
DAY_S = 86_400


def test_gate_keys_are_valid_for_minutes(both):
    _, controller = both
    controller.patch(GATE_KEYS, keys(120), **MANAGER).expect(200)
    for seconds in (3600, 200 * 365 * DAY_S):
        answer = controller.patch(GATE_KEYS, keys(seconds), **MANAGER).expect(403)
        assert "ten minutes" in answer.body["message"]


def test_who_forges_the_time_of_the_write_wins_no_time(both):
    admin, controller = both
    controller.patch(GATE_KEYS, keys(100), **MANAGER).expect(200)
    for forged in ({"manager": "rescheduler"}, {"manager": "rescheduler", "operation": "Apply"}):
        entry = {
            "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2199-01-01T00:00:00Z",
            "fieldsV1": {"f:data": {"f:x": {}}},
        } | forged  # fmt: skip
        body = keys(170 * 365 * DAY_S)
        body["metadata"]["managedFields"] = [entry]
        for query in (MANAGER, {"fieldManager": "other"}, {}):
            controller.patch(GATE_KEYS, body, **query).expect(403)
    assert "2199" not in admin.get(GATE_KEYS).body["metadata"]["annotations"][names.ANNOTATION_VALID_UNTIL]


def test_a_node_is_kept_empty_for_days_and_not_for_ever(both):
    admin, controller = both
    node = "/api/v1/nodes/kept"
    admin.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kept"}}).expect(
        201
    )
    try:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": format_seconds(time.time())}
        admin.patch(f"{node}/status", {"status": {"conditions": [ready]}}).expect(200)
        for days, status in ((29, 200), (40, 403), (60_000, 403)):
            until = format_seconds(time.time() + days * DAY_S)
            note = {"metadata": {"annotations": {names.ANNOTATION_KEPT_EMPTY: f"Cordoned until {until}"}}}
            controller.patch(node, {**note, "spec": {"unschedulable": True}}, **MANAGER).expect(status)
    finally:
        admin.delete(node)
