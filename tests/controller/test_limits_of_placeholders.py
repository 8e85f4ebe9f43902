"""A namespace of placeholders that demands limits of each container: policies, quotas and defaults of a LimitRange refuse no room.

On the sandbox, and on the real control plane, whose own quota and LimitRange admission answers.
"""

import time

import pytest
from reserving import look, of_web, phase, reserve

from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of, placeholders

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
OWN = "/api/v1/namespaces/rescheduler"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
DEMANDS = (
    "object.spec.containers.all(c, has(c.resources) && has(c.resources.requests) && has(c.resources.limits) && "
    "['cpu', 'memory', 'ephemeral-storage'].all(r, r in c.resources.requests && r in c.resources.limits))"
)
NAME = "limits-are-required.test"
REQUESTS = {
    "cpu and memory": {"cpu": "1", "memory": "128Mi"},
    "no memory": {"cpu": "1"},
    "no cpu": {"memory": "128Mi"},
    "nothing": {},
}


def bare_pod(world):
    """A pod without limits in the namespace of placeholders, in a dry run."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}}
    context = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "runAsUser": 65535,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    resources = {"requests": {"cpu": "1", "memory": "1Mi"}}
    container = {"name": "c", "image": "pause", "resources": resources, "securityContext": context}
    return world.api.create(f"{OWN}/pods", {**body, "spec": {"containers": [container]}}, dryRun="All")


@pytest.fixture
def demanding(api, world):
    """The namespace demands limits, as it shows by refusing a pod that has none."""
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [RULE],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "rescheduler"}},
        },
        "validations": [{"expression": DEMANDS, "message": "requests and limits are required"}],
    }
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    objects = {
        f"{ADMISSION}/validatingadmissionpolicies": ("ValidatingAdmissionPolicy", policy),
        f"{ADMISSION}/validatingadmissionpolicybindings": ("ValidatingAdmissionPolicyBinding", binding),
    }
    for path, (kind, spec) in objects.items():
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}}
        world.api.create(path, {**body, "spec": spec}).expect(201)
    world.wait(lambda: "requests and limits are required" in str(bare_pod(world).body), 30)
    yield
    for path in objects:
        world.api.delete(f"{path}/{NAME}")


@pytest.mark.parametrize("asked", REQUESTS)
def test_a_room_becomes_available_where_limits_are_required(world, demanding, asked):
    world.node("one", cpu="4")
    container = {"name": "main", "image": "pause", "resources": {"requests": REQUESTS[asked]}}
    name = asked.replace(" ", "-")
    reserve(world, name, of_web(world), template={"containers": [container]}).expect()
    assert phase(world, name, "Available")["nodeName"] == f"{world.namespace}-one"


def test_a_pod_moves_where_limits_are_required(world, demanding):
    world.node("source", cpu="2")
    (pod,) = world.running("Deployment", "web", 1)
    target = world.node("target", cpu="2")
    world.landed({world.migrate(pod, target): target})
    assert [node_of(p) for p in world.wait_ready("web", 1)] == [target]


@pytest.mark.realcluster
def test_quotas_of_limits_and_a_limit_range_refuse_no_room_and_change_none(control_plane, real_api):
    hard = {f"{kind}.{name}": "64Gi" for kind in ("requests", "limits") for name in ("memory",)}
    hard |= {"requests.cpu": "64", "limits.cpu": "64", "limits.ephemeral-storage": "64Gi"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits"},
        "spec": {"hard": hard},
    }
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "200m", "memory": "256Mi"},
            "defaultRequest": {"cpu": "150m", "memory": "128Mi"},
            "max": {"cpu": "16", "memory": "32Gi"},
        }
    ]
    defaults = {
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": {"limits": limits},
    }  # fmt: skip
    with World(real_api, "quota") as world, running(real_api.transport):
        world.node("one", cpu="8")
        world.api.create(f"{OWN}/resourcequotas", quota).expect(201)
        world.api.create(f"{OWN}/limitranges", defaults).expect(201)
        try:
            world.wait(
                lambda: world.api.get(f"{OWN}/resourcequotas/limits").body.get("status", {}).get("hard"), 60
            )
            time.sleep(2.0)  # admission reads LimitRanges by a watch
            for asked, requests in REQUESTS.items():
                container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
                name = asked.replace(" ", "-")
                shared = (
                    {"allocateOnce": False} if requests else {}
                )  # one that holds nothing more and nothing less
                reserve(world, name, of_web(world), template={"containers": [container]}, **shared).expect()
                phase(world, name, "Available")
            held = [
                p for p in placeholders(world.api) if world.namespace in str(p["metadata"]["ownerReferences"])
            ]
            stored = [p["spec"]["containers"][0]["resources"]["requests"] for p in held]
            assert sorted(r["cpu"] for r in stored) == ["0", "0", "1", "1"]
            assert all(p["status"]["qosClass"] == "Burstable" for p in held)
            assert all(look(world, a.replace(" ", "-"))["phase"] == "Available" for a in REQUESTS)
        finally:
            world.api.delete(f"{OWN}/resourcequotas/limits")
            world.api.delete(f"{OWN}/limitranges/defaults")
