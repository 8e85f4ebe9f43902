"""API servers call mutating policies in an order that nobody sets: what becomes of a pod must not depend on it."""

import itertools
import time

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.world import World, gates_of, keys_on
from kube_sandbox.sandbox import Sandbox

CONFIG_MAPS = "/api/v1/namespaces/rescheduler/configmaps"
POLICY, BINDING = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
ANNOTATED = {"annotations": {"volcano.sh/reserveable": "true"}}
PODS = {
    "annotated": ANNOTATED,
    "annotated-beside-others": {"annotations": {"a": "b", **ANNOTATED["annotations"]}, "labels": {"c": "d"}},
    "annotated-otherwise": {"annotations": {"volcano.sh/reserveable": "false"}},
    "labelled": {"labels": {"volcano.sh/reserveable": "true"}},
    "labelled-otherwise": {**ANNOTATED, "labels": {"volcano.sh/reserveable": "false"}},
    "owned": {"ownerReferences": [OWNER]},
    "owned-and-annotated": {**ANNOTATED, "ownerReferences": [OWNER]},
}
HELD = {"annotated", "annotated-beside-others", "labelled", "owned", "owned-and-annotated"}


@pytest.fixture(scope="module")
def cluster():
    with Sandbox(clock=time.time) as sandbox:
        api = Api(HttpTransport(sandbox.start().url))
        kinds = ("Namespace", "ConfigMap", "PriorityClass")
        manifests.apply(api, [obj for obj in manifests.load() if obj["kind"] in kinds])
        yield api


def of_pods():
    """The mutating policies of pods, each with its binding."""
    found = manifests.load()
    bindings = {obj["spec"]["policyName"]: obj for obj in found if obj["kind"] == BINDING}
    policies = [
        obj
        for obj in found
        if obj["kind"] == POLICY
        and any("pods" in rule["resources"] for rule in obj["spec"]["matchConstraints"]["resourceRules"])
    ]
    assert len(policies) > 2
    return [(policy, bindings[policy["metadata"]["name"]]) for policy in policies]


def told(pod):
    metadata = pod["metadata"]
    return metadata.get("labels"), metadata.get("annotations"), pod["spec"]


def renamed(obj, name):
    return {**obj, "metadata": {"name": name}}


def made_in_order(api, world, order):
    """Each pod as it would be created if the policies were called in this order: the sandbox calls them by name."""
    objects = []
    for number, (policy, binding) in enumerate(order):
        name = f"{number}.rescheduler.dev"
        bound = {**binding, "spec": {**binding["spec"], "policyName": name}}
        objects += [renamed(policy, name), renamed(bound, name)]
    try:
        for obj in objects:
            api.create(manifests.path_of(obj).rpartition("/")[0], obj).expect()
        made = {}
        for name, metadata in PODS.items():
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}}
            spec = world.spec(automountServiceAccountToken=False)  # its volume would have a random name
            made[name] = api.create(world.path("pods"), {**pod, "spec": spec}, dryRun="All").expect().body
        return made
    finally:
        for obj in objects:
            api.delete(manifests.path_of(obj)).expect()


@pytest.mark.parametrize("kind", ["label", "labelled"])
def test_what_becomes_of_a_pod_does_not_depend_on_the_order_of_the_policies(cluster, kind):
    value = ".true" if kind == "label" else ""
    with World(cluster, "order") as world:
        uid = f"controller.{world.namespace}.u1"
        keys = {f"{kind}.{world.namespace}.volcano.sh__reserveable{value}": "room", uid: "other-room"}
        cluster.patch(f"{CONFIG_MAPS}/gate-keys", keys_on(keys)).expect()
        cluster.patch(f"{CONFIG_MAPS}/avoid-nodes", {"data": {uid: "node-a"}}).expect()
        seen = []
        for order in itertools.permutations(of_pods()):
            made = made_in_order(cluster, world, order)
            held = {name for name, pod in made.items() if gates_of(pod) == ["rescheduler.dev/hold"]}
            # With any value of the label, whatever it says.
            assert held == (HELD if kind == "label" else HELD | {"labelled-otherwise"})
            assert "affinity" in made["owned"]["spec"]
            seen.append({name: told(pod) for name, pod in made.items()})
        assert all(pods == seen[0] for pods in seen)
