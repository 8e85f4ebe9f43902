"""The eviction subresource against budgets (answers as measured on a real API server)."""

import pytest

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
READY = [{"type": "Ready", "status": "True"}]


@pytest.fixture
def running(client, made):
    """A running, ready pod; returns its uid."""
    client.post(PODS, made.pod())
    client.post(f"{PODS}/p/binding", made.binding("p", "n1"))
    client.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": READY}})
    return client.get(f"{PODS}/p")[1]["metadata"]["uid"]


def evict(client, uid="", **more):
    options = {"preconditions": {"uid": uid}} if uid else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        "deleteOptions": options,
    }
    return client.post(f"{PODS}/p/eviction", body, **more)


def budget(client, name="b", allowed=0, healthy=1, desired=1, **spec):
    body = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1, **spec}
    client.post(
        BUDGETS,
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": body},
    )
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
    }
    client.patch(f"{BUDGETS}/{name}/status", {"status": status})


def test_without_a_budget_a_pod_starts_to_terminate(client, running):
    status, body = evict(client, running)
    assert (status, body["status"]) == (201, "Success")
    found = client.get(f"{PODS}/p")[1]
    assert found["metadata"]["deletionTimestamp"]
    target = next(c for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert evict(client, running)[0] == 201


def test_another_uid_is_a_conflict_and_nothing_happens(client, running):
    budget(client, allowed=1)
    assert evict(client, "another")[0] == 409
    assert "deletionTimestamp" not in client.get(f"{PODS}/p")[1]["metadata"]
    assert client.get(f"{BUDGETS}/b")[1]["status"]["disruptionsAllowed"] == 1


def test_a_used_up_budget_answers_429_without_retry_after(client, running):
    budget(client, allowed=0)
    status, body = evict(client, running)
    assert (status, body["reason"]) == (429, "TooManyRequests")
    assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "retryAfterSeconds" not in body["details"]


def test_an_eviction_uses_the_budget_up(client, running):
    budget(client, allowed=1)
    assert evict(client, running)[0] == 201
    status = client.get(f"{BUDGETS}/b")[1]["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]


def test_a_stale_budget_says_when_to_come_back(client, running):
    budget(client, allowed=1)
    client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 2}})
    status, body = evict(client, running)
    assert (status, body["details"]["retryAfterSeconds"]) == (429, 10)


def test_several_budgets_are_a_server_error_even_in_a_dry_run(client, running):
    budget(client, "a", allowed=1)
    budget(client, "b", allowed=1)
    assert evict(client, running)[0] == 500
    assert evict(client, running, dryRun="All")[0] == 500


def test_a_dry_run_changes_neither_budget_nor_pod(client, running):
    budget(client, allowed=1)
    before = client.get(f"{PODS}/p")[1], client.get(f"{BUDGETS}/b")[1]
    assert evict(client, running, dryRun="All")[0] == 201
    assert (client.get(f"{PODS}/p")[1], client.get(f"{BUDGETS}/b")[1]) == before


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_budgets_do_not_hold_pods_that_do_not_run(client, running, phase):
    budget(client, allowed=0)
    client.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
    assert evict(client, running)[0] == 201


@pytest.mark.parametrize(
    ("policy", "healthy", "code"), [("AlwaysAllow", 0, 201), (None, 1, 201), (None, 0, 429)]
)
def test_pods_that_are_not_ready(client, running, policy, healthy, code):
    budget(client, allowed=0, healthy=healthy, unhealthyPodEvictionPolicy=policy)
    client.patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert evict(client, running)[0] == code


def test_the_name_in_the_body_must_be_the_one_in_the_path(client, running):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    assert client.post(f"{PODS}/p/eviction", body)[0] == 400
    body["metadata"]["name"] = "gone"
    assert client.post(f"{PODS}/gone/eviction", body)[0] == 404
