"""Workload controllers and budgets: who replaces an evicted pod, and what a budget counts."""

import pytest

from harness import documents
from harness.controlplane.world import is_ready, node_of


def uids(pods):
    return {pod["metadata"]["uid"] for pod in pods}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_an_evicted_pod_is_replaced(world, kind):
    world.node("a", cpu="8")
    before = world.running(kind, "web", 2)
    world.evict(before[0]).expect(201)
    world.wait_gone(before[0])
    after = world.wait_ready("web", 2)
    assert len(uids(after) & uids(before)) == 1
    same_name = before[0]["metadata"]["name"] in {pod["metadata"]["name"] for pod in after}
    assert same_name == (kind == "StatefulSet")
    controllers = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in after}
    assert controllers == {"StatefulSet" if kind == "StatefulSet" else "ReplicaSet"}


def test_a_job_replaces_an_evicted_pod_and_completes(world):
    world.node("a", cpu="8")
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum"},
        "spec": {
            "backoffLimit": 4,
            "podReplacementPolicy": "TerminatingOrFailed",
            "template": {
                "metadata": {
                    "labels": {"app": "sum"},
                    "annotations": {"sandbox.rescheduler.dev/run-for": "1.5"},
                },
                "spec": world.spec(restartPolicy="Never"),
            },
        },
    }
    path = world.path("jobs", group="batch/v1")
    world.api.create(path, body).expect(201)
    (first,) = world.wait_ready("sum", 1)
    world.evict(first).expect(201)
    world.wait(lambda: [pod for pod in world.pods("sum") if pod["metadata"]["uid"] not in uids([first])])
    status = world.wait(
        lambda: (s := world.api.get(f"{path}/sum").body["status"]).get("succeeded") == 1 and s, seconds=40
    )
    assert status.get("failed", 0) <= 1


def test_a_deployment_makes_a_replica_set_with_the_template_hash(world):
    world.node("a", cpu="8")
    (pod,) = world.running("Deployment", "web", 1)
    (replica_set,) = world.api.get(world.path("replicasets", group="apps/v1")).items
    digest = pod["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{digest}"
    assert replica_set["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == digest


def test_a_rollout_replaces_all_pods(world):
    world.node("a", cpu="8")
    before = world.running("Deployment", "web", 2)
    path = world.path("deployments", "web", group="apps/v1")
    world.api.patch(path, {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}).expect(200)

    def done():
        pods = world.pods("web")
        return len(pods) == 2 and all(map(is_ready, pods)) and not uids(pods) & uids(before)

    world.wait(done)
    world.wait(lambda: world.api.get(path).body["status"].get("updatedReplicas") == 2)


def test_scaling_down_removes_by_deletion_cost(world):
    world.node("a", cpu="8")
    pods = world.running("ReplicaSet", "web", 3)
    chosen = pods[1]["metadata"]["name"]
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
    world.api.patch(world.path("pods", chosen), cost).expect(200)
    world.api.patch(world.path("replicasets", "web", group="apps/v1"), {"spec": {"replicas": 2}}).expect(200)
    world.wait_gone(pods[1])
    assert uids(world.wait_ready("web", 2)) == uids([pods[0], pods[2]])


def test_a_replica_set_adopts_an_orphan_and_deletes_the_surplus(world):
    world.node("a", cpu="8")
    (first,) = world.running("ReplicaSet", "web", 1)
    orphan = world.pod("orphan", labels={"app": "web"})
    world.wait(lambda: len([p for p in world.pods("web") if "deletionTimestamp" not in p["metadata"]]) == 1)
    (kept,) = world.wait_ready("web", 1)
    assert kept["metadata"]["uid"] in uids([first, orphan])


def test_pods_of_a_deleted_owner_are_collected(world):
    world.node("a")
    world.running("ReplicaSet", "web", 1)
    world.api.delete(
        world.path("replicasets", "web", group="apps/v1"),
        {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
    ).expect(200)
    world.wait(lambda: not world.pods("web"))


def test_a_daemon_set_runs_once_on_each_node(world):
    nodes = {world.node("a"), world.node("b")}
    body = documents.workload("DaemonSet", "agent", 0, world.spec("100m"))
    world.api.create(world.path("daemonsets", group="apps/v1"), body).expect(201)
    assert {node_of(pod) for pod in world.wait_ready("agent", 2)} == nodes


@pytest.mark.parametrize(("spec", "allowed", "desired"), [
    ({"minAvailable": 2}, 2, 2),
    ({"minAvailable": "50%"}, 2, 2),
    ({"minAvailable": "60%"}, 1, 3),
    ({"maxUnavailable": 1}, 1, 3),
    ({"maxUnavailable": "25%"}, 1, 3),
    ({"maxUnavailable": "30%"}, 2, 2),
    ({"maxUnavailable": 0}, 0, 4),
    ({"minAvailable": 9}, 0, 9),
])  # fmt: skip
def test_a_budget_counts(world, spec, allowed, desired):
    world.node("a", cpu="8")
    world.running("Deployment", "web", 4)
    world.budget("b", "web", **spec)

    def status():
        found = world.api.get(world.path("poddisruptionbudgets", "b", group="policy/v1")).body.get(
            "status", {}
        )
        return found if found.get("currentHealthy") == 4 else None

    found = world.wait(status)
    assert (found["disruptionsAllowed"], found["desiredHealthy"], found["expectedPods"]) == (
        allowed,
        desired,
        4,
    )


def test_a_pod_that_is_not_ready_uses_a_budget_up(world):
    world.node("a", cpu="8")
    pods = world.running("ReplicaSet", "web", 2)
    world.budget("b", "web", minAvailable=1)
    path = world.path("poddisruptionbudgets", "b", group="policy/v1")
    world.wait(lambda: world.api.get(path).body.get("status", {}).get("disruptionsAllowed") == 1)
    flag = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    kind = "application/strategic-merge-patch+json"
    world.api.patch(world.path("pods", pods[0]["metadata"]["name"], "status"), flag, kind).expect(200)
    world.wait(lambda: world.api.get(path).body["status"]["currentHealthy"] == 1)
    assert world.evict(pods[1]).status == 429
    assert world.api.get(path).body["status"]["disruptionsAllowed"] == 0


def test_an_unhealthy_pod_may_go_if_the_budget_says_so(world):
    world.node("a", cpu="8")
    world.workload("ReplicaSet", "web", 2, annotations={"sandbox.rescheduler.dev/ready-after": "never"})
    pods = world.wait(
        lambda: (
            [p for p in world.pods("web") if p["status"].get("phase") == "Running"][1:] and world.pods("web")
        )
    )
    world.budget("strict", "web", minAvailable=2)
    path = world.path("poddisruptionbudgets", "strict", group="policy/v1")
    world.wait(lambda: world.api.get(path).body.get("status", {}).get("expectedPods") == 2)
    assert world.evict(pods[0]).status == 429
    world.api.patch(path, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}).expect(200)
    world.wait(lambda: world.evict(pods[0]).status == 201)
