"""Evictions under budgets, and scale: what the controllers behind them make of it. Single answers: ``test_apiserver_same_answers``."""

import pytest


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


def test_a_pending_pod_is_evicted_past_a_budget(world):
    world.budget("all", "web", maxUnavailable=0)
    wait_budget(world, "all", 0, pods=0)
    pod = world.pod("gated", gates=["example.com/wait"], labels={"app": "web"})
    assert world.evict(pod).status == 201
    assert world.api.get(world.path("pods", "gated")).status == 404


def test_scale_reads_and_writes_replicas(world):
    world.workload("Deployment", "web", 1, gates=["example.com/wait"])
    path = world.path("deployments", "web", "scale", group="apps/v1")
    scale = world.api.get(path).expect(200).body
    assert (scale["kind"], scale["apiVersion"], scale["spec"]["replicas"]) == ("Scale", "autoscaling/v1", 1)
    world.api.patch(path, {"spec": {"replicas": 3}}).expect(200)
    assert world.api.get(world.path("deployments", "web", group="apps/v1")).body["spec"]["replicas"] == 3
    stale = {**scale, "spec": {"replicas": 5}}
    assert world.api.update(path, stale).status == 409
