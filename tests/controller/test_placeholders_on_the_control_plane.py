"""A placeholder that admission changes, on the real control plane."""

import time

import pytest

from harness.controlplane.api import Api
from harness.controlplane.controllers import running
from harness.controlplane.world import node_of
from harness.histories.admission import SPOILED, placeholder_policy
from rescheduler.model.names import LABEL_PLACEHOLDER

pytestmark = pytest.mark.realcluster

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


@pytest.fixture
def transport(control_plane):
    return Api.from_kubeconfig(control_plane.kubeconfig_for("rescheduler", "rescheduler")).transport


@pytest.fixture
def spoiled(world):
    """Admission spoils new placeholders from when it is called."""
    objects, plain = [], made_of_a_placeholder(world)
    assert plain[0] == 201, plain

    def admit(expression):
        for obj in placeholder_policy(expression):
            world.api.create(f"{ADMISSION}/{PLURALS[obj['kind']]}", obj).expect(201)
            objects.append(obj)
        time.sleep(2.0)  # the API server reads policies by a watch

    yield admit
    for obj in objects:
        world.api.delete(f"{ADMISSION}/{PLURALS[obj['kind']]}/{obj['metadata']['name']}")
    # API servers go by a policy for some time after its end, and tests that follow make placeholders, too.
    world.wait(lambda: all(made_of_a_placeholder(world) == plain for _ in range(3)))


def made_of_a_placeholder(world):
    """What admission leaves of one, in a dry run."""
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    main = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": "1"}},
        "securityContext": safe,
    }
    user = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": {LABEL_PLACEHOLDER: "probe"}},
        "spec": {"containers": [main], "securityContext": user},
    }
    made = world.api.create("/api/v1/namespaces/rescheduler/pods?dryRun=All", pod)
    container = made.body.get("spec", {}).get("containers", [{}])[0]
    return made.status, made.body["metadata"].get("finalizers"), container.get("resources")


def test_no_pod_is_evicted_for_a_spoiled_placeholder(world, transport, spoiled):
    world.node("source", cpu="2")
    world.workload("Deployment", "web", 1)
    (pod,) = world.wait_ready("web", 1)
    target = world.node("target", cpu="2")
    spoiled(SPOILED["requests"])
    with running(transport, interval="1h"):
        name = world.migrate(pod, target, ttl="60s")
        world.wait(lambda: world.move_status(name).get("phase") == "Failed", 40)
        status = world.move_status(name)
    assert status["reason"] == "ReservationFailed", status
    assert "request for cpu is 10m" in status["message"], status
    assert [p["metadata"]["uid"] for p in world.pods("web")] == [pod["metadata"]["uid"]]
    assert node_of(pod) != target
