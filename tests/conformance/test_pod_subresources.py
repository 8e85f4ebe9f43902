"""Eviction, binding and scale: the exact answers."""

import pytest

from harness.controlplane.world import node_of

WRONG_UID = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
def ready(world):
    """Two Ready pods of a ReplicaSet on one node."""
    world.node("a", cpu="8")
    world.workload("ReplicaSet", "web", 2)
    return world.wait_ready("web", 2)


def wait_budget(world, name, allowed, pods=2):
    """Until the budget allows so much because of all ``pods``, each Ready: before, it may have counted some of them."""
    path = world.path("poddisruptionbudgets", name, group="policy/v1")

    def seen():
        budget = world.api.get(path).body
        status = budget.get("status", {})
        counted = (status.get("expectedPods"), status.get("currentHealthy"), status.get("disruptionsAllowed"))
        current = status.get("observedGeneration") == budget["metadata"]["generation"]
        return current and counted == (pods, pods, allowed)

    world.wait(seen, 120)


def test_eviction_deletes_with_a_condition(world, ready):
    answer = world.evict(ready[0])
    assert (answer.status, answer.body["kind"], answer.body["status"]) == (201, "Status", "Success")
    current = world.api.get(world.path("pods", ready[0]["metadata"]["name"]))
    if current.ok:
        target = next(c for c in current.body["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    world.wait_gone(ready[0])


def test_a_dry_run_of_an_eviction_answers_and_does_nothing(world, ready):
    assert world.evict(ready[0], dryRun="All").status == 201
    assert "deletionTimestamp" not in world.get_pod(ready[0]["metadata"]["name"])["metadata"]


def test_the_uid_of_an_eviction_must_be_the_pods(world, ready):
    answer = world.evict(ready[0], uid=WRONG_UID)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "deletionTimestamp" not in world.get_pod(ready[0]["metadata"]["name"])["metadata"]


def test_a_budget_blocks_with_its_name(world, ready):
    world.budget("tight", "web", maxUnavailable=0)
    wait_budget(world, "tight", 0)
    for query in ({}, {"dryRun": "All"}):
        answer = world.evict(ready[0], **query)
        assert (answer.status, answer.body["reason"]) == (429, "TooManyRequests")
        cause = answer.body["details"]["causes"][0]
        assert cause["reason"] == "DisruptionBudget"
        assert cause["message"] == "The disruption budget tight needs 2 healthy pods and has 2 currently"
        assert "retry-after" not in answer.headers


def test_an_eviction_uses_the_budget_up(world, ready):
    world.budget("one", "web", minAvailable=1)
    wait_budget(world, "one", 1)
    assert world.evict(ready[0]).status == 201
    assert world.evict(ready[1]).status == 429
    wait_budget(world, "one", 1)


def test_two_budgets_on_one_pod_are_an_error(world, ready):
    for name in ("first", "second"):
        world.budget(name, "web", minAvailable=0)
        wait_budget(world, name, 2)
    for query in ({}, {"dryRun": "All"}):
        answer = world.evict(ready[0], **query)
        assert answer.status == 500
        assert "more than one PodDisruptionBudget" in answer.body["message"]


def test_the_eviction_of_an_unknown_pod_is_not_found(world):
    pod = {"metadata": {"name": "nothing", "uid": WRONG_UID}}
    assert world.evict(pod).status == 404


def test_a_terminating_pod_is_evicted_again(world):
    node = world.node("a")
    pod = world.pod("slow", nodeName=node, grace=5, annotations={"sandbox.rescheduler.dev/stop-after": "1.5"})
    world.wait(lambda: world.get_pod("slow")["status"].get("phase") == "Running")
    assert world.evict(pod).status == 201
    assert world.evict(pod).status == 201


def test_a_pending_pod_is_evicted_past_a_budget(world):
    world.budget("all", "web", maxUnavailable=0)
    wait_budget(world, "all", 0, pods=0)
    pod = world.pod("gated", gates=["example.com/wait"], labels={"app": "web"})
    assert world.evict(pod).status == 201
    assert world.api.get(world.path("pods", "gated")).status == 404


def bind(world, name, node, **metadata):
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return world.api.create(world.path("pods", name, "binding"), body)


def test_a_binding_sets_the_node_once(world):
    node = world.node("a")
    pod = world.pod("p", schedulerName="nobody")
    assert bind(world, "p", node, uid=WRONG_UID).status == 409
    assert bind(world, "p", node, uid=pod["metadata"]["uid"]).status == 201
    assert node_of(world.get_pod("p")) == node
    assert bind(world, "p", node).status == 409
    scheduled = next(c for c in world.get_pod("p")["status"]["conditions"] if c["type"] == "PodScheduled")
    assert scheduled["status"] == "True"


def test_a_gated_pod_cannot_be_bound(world):
    node = world.node("a")
    world.pod("p", gates=["example.com/wait"])
    answer = bind(world, "p", node)
    assert answer.status == 409
    assert "scheduling gates" in answer.body["message"].lower() or "schedulingGates" in answer.body["message"]


def test_binding_clears_the_nomination(world):
    node = world.node("a")
    pod = world.pod("p", schedulerName="nobody")
    world.nominate(pod, node).expect(200)
    bind(world, "p", node).expect(201)
    assert "nominatedNodeName" not in world.get_pod("p")["status"]


def test_scale_reads_and_writes_replicas(world):
    world.workload("Deployment", "web", 1, gates=["example.com/wait"])
    path = world.path("deployments", "web", "scale", group="apps/v1")
    scale = world.api.get(path).expect(200).body
    assert (scale["kind"], scale["apiVersion"], scale["spec"]["replicas"]) == ("Scale", "autoscaling/v1", 1)
    world.api.patch(path, {"spec": {"replicas": 3}}).expect(200)
    assert world.api.get(world.path("deployments", "web", group="apps/v1")).body["spec"]["replicas"] == 3
    stale = {**scale, "spec": {"replicas": 5}}
    assert world.api.update(path, stale).status == 409
