"""Which pods a ResourceQuota with scopes counts: the real API server is asked, and must agree with us for every pod."""

import json

import pytest

from harness.controlplane.world import PATIENCE_S, World
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind

pytestmark = pytest.mark.realcluster

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def of_class(operator, *values):
    expression = {"scopeName": "PriorityClass", "operator": operator}
    return {
        "scopeSelector": {"matchExpressions": [expression | ({"values": list(values)} if values else {})]}
    }


def term(**fields):
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **fields}


def apart(**fields):
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term(**fields)]}}}


QUOTAS = {
    "all": {},
    "terminating": {"scopes": ["Terminating"]},
    "not-terminating": {"scopes": ["NotTerminating"]},
    "best-effort": {"scopes": ["BestEffort"]},
    "not-best-effort": {"scopes": ["NotBestEffort"]},
    "both": {"scopes": ["NotBestEffort", "NotTerminating"]},
    "crossing": {"scopes": ["CrossNamespacePodAffinity"]},
    "of-any-class": of_class("Exists"),
    "of-no-class": of_class("DoesNotExist"),
    "of-this-class": of_class("In", "high-of-quotas"),
    "of-another": of_class("NotIn", "high-of-quotas"),
}
NEAR = {
    "affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(namespaceSelector={})}]}}
}
PODS = {
    "plain": ({}, {"requests": {"cpu": "1m"}}),
    "limited": ({}, {"limits": {"memory": "1Mi"}}),
    "other-resource": ({}, {"requests": {"ephemeral-storage": "1Mi"}}),
    "nothing": ({}, {}),
    "deadline": ({"activeDeadlineSeconds": 1000}, {}),
    "high": ({"priorityClassName": "high-of-quotas"}, {"requests": {"cpu": "1m"}}),
    "elsewhere": (apart(namespaces=["default"]), {}),
    "anywhere": (NEAR, {}),
    "beside": (apart(), {}),
}


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "scopes") as world:
        world.api.create(CLASSES, {"metadata": {"name": "high-of-quotas"}, "value": 7}).expect(201)
        yield world
        world.api.delete(f"{CLASSES}/high-of-quotas").expect()


def stored(world, name):
    return world.api.get(world.path("resourcequotas", name)).expect().body


def test_the_api_server_counts_the_same_pods(world):
    for name, scopes in QUOTAS.items():
        body = {"metadata": {"name": name}, "spec": {"hard": {"pods": "100"}, **scopes}}
        world.api.create(world.path("resourcequotas"), body).expect(201)
    for name in QUOTAS:
        world.wait(lambda n=name: stored(world, n).get("status", {}).get("hard"), PATIENCE_S)
    decoder = Decoder()
    quotas = {
        name: decoder.record(Kind.RESOURCE_QUOTA, json.dumps(stored(world, name)).encode()) for name in QUOTAS
    }
    counted = dict.fromkeys(QUOTAS, 0)
    for name, (spec, resources) in PODS.items():
        container = {"name": "c", "image": "pause", "resources": resources}
        gates = [{"name": "example.com/never"}]
        body = {
            "metadata": {"name": name},
            "spec": {"schedulingGates": gates, "containers": [container], **spec},
        }
        pod = world.api.create(world.path("pods"), body).expect(201).body
        record = decoder.record(Kind.POD, json.dumps(pod).encode())
        for quota, found in quotas.items():
            counted[quota] += found.counts(record.spec, "")
    world.wait(lambda: used(world) == counted, PATIENCE_S)


def used(world):
    return {name: int(stored(world, name)["status"]["used"]["pods"]) for name in QUOTAS}
