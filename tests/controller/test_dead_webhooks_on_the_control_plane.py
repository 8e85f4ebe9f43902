"""A webhook for pods with ``failurePolicy: Fail`` is down, on the real control plane: with the rights of ``manifests/`` no pod is
evicted that could not be created again, or whose replacement could not be let go."""

import time

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import node_of

pytestmark = pytest.mark.realcluster

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def dead_webhook(namespace, operation):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["pods"]}
    webhook = {
        "name": "dead.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [rule],
        "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }  # fmt: skip
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**head, "metadata": {"name": f"dead-{namespace}"}, "webhooks": [webhook]}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_no_pod_is_evicted_that_could_not_be_created_again(control_plane, world, operation):
    account = control_plane.account()
    world.node("source", cpu="2")
    (pod,) = world.running("Deployment", "web", 1)
    target = world.node("target", cpu="2")
    hook = dead_webhook(world.namespace, operation)
    world.api.create(WEBHOOKS, hook).expect(201)
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": world.spec()}
    path, note = world.path("pods", pod["metadata"]["name"]), {"metadata": {"annotations": {"a": "b"}}}
    tried = {
        "CREATE": lambda: world.api.create(world.path("pods"), probe, dryRun="All"),
        "UPDATE": lambda: world.api.patch(path, note, dryRun="All"),
    }[operation]
    try:
        world.wait(lambda: not tried().ok)
        with running(account.transport, interval="1h"):
            name = world.migrate(pod, target, ttl="60s")
            world.wait(lambda: world.move_status(name).get("reason") == "ReplacementUnknown")
            time.sleep(5)
            status = world.move_status(name)
            assert status["reason"] == "ReplacementUnknown"
            assert "dead.example.com" in status["message"]
            assert [p["metadata"]["uid"] for p in world.pods("web")] == [pod["metadata"]["uid"]]
            world.api.delete(f"{WEBHOOKS}/{hook['metadata']['name']}").expect()
            world.wait(lambda: world.move_status(name).get("phase") == "Succeeded", 40)
            assert [node_of(p) for p in world.pods("web")] == [target]
    finally:
        world.api.delete(f"{WEBHOOKS}/{hook['metadata']['name']}")
