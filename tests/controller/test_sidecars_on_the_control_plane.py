"""Admission begins to add a sidecar after the pods were created, on the real control plane, with the rights of ``manifests/``.

With the right to dry-run creations no pod is evicted whose replacement has no place, and every room is large enough.
"""

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api
from harness.controlplane.controllers import running
from harness.controlplane.sidecar import sidecar_policy
from harness.controlplane.world import World, condition, node_of

pytestmark = pytest.mark.realcluster

POLICY = "sidecar"


@pytest.fixture(scope="module")
def account(control_plane):
    return Api.from_kubeconfig(control_plane.kubeconfig_for("rescheduler", "rescheduler"))


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "sidecar") as world:
        yield world
        for obj in sidecar_policy(f"{POLICY}-{world.namespace}"):
            world.api.delete(manifests.path_of(obj))


def four_pods(world, kind="Deployment"):
    """Four pods of 1 CPU on one node, which is cordoned then; from then on every new pod gets a sidecar of 500m."""
    source = world.node("source", cpu="4")
    world.workload(kind, "web", 4)
    pods = world.wait_ready("web", 4)
    world.api.patch(f"/api/v1/nodes/{source}", {"spec": {"unschedulable": True}}).expect()
    manifests.apply(
        world.api, sidecar_policy(f"{POLICY}-{world.namespace}", namespace=world.namespace, cpu="500m")
    )
    world.wait(lambda: containers(world) == 2)
    return pods


def containers(world):
    """How many containers a new pod has: a policy is in force some time after it was created."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": {"app": "probe"}},
        "spec": world.spec(),
    }
    created = world.api.create(world.path("pods"), pod, dryRun="All").expect().body
    return len(created["spec"]["containers"])


def moved(world, account, pods, targets, ttl="25s"):
    """The final status of each move."""
    with running(account.transport, interval="1h"):
        names = [world.migrate(pod, target, ttl=ttl) for pod, target in zip(pods, targets, strict=True)]

        def ended():
            found = [world.move_status(name) for name in names]
            return found if all(s.get("phase") in ("Succeeded", "Failed") for s in found) else None

        return world.wait(ended, 90)


def pending(world):
    return [p["metadata"]["name"] for p in world.pods("web") if not node_of(p)]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_in_a_loose_cluster_every_replacement_has_its_room(world, account, kind):
    pods = four_pods(world, kind)
    target = world.node("target", cpu="8")
    found = moved(world, account, pods, [target] * 4)
    assert [(s["phase"], s["nodeName"]) for s in found] == [("Succeeded", target)] * 4, found
    assert {condition({"status": s}, "ReplacementAdmitted")["status"] for s in found} == {"True"}
    assert all("cpu 1500m" in condition({"status": s}, "ReplacementAdmitted")["message"] for s in found)
    assert pending(world) == []
