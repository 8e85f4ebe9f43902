"""The eviction subresource against budgets (answers as measured on a real API server)."""

import pytest

from harness import documents

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
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options,
    }  # fmt: skip
    return client.post(f"{PODS}/p/eviction", body, **more)


def budget(client, name="b", allowed=0, healthy=1, desired=1, **spec):
    client.post(BUDGETS, documents.budget(name, "web", **{"maxUnavailable": 1, **spec}))
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
    }
    client.patch(f"{BUDGETS}/{name}/status", {"status": status})


def test_a_stale_budget_says_when_to_come_back(client, running):
    budget(client, allowed=1)
    client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 2}})
    status, body = evict(client, running)
    assert (status, body["details"]["retryAfterSeconds"]) == (429, 10)
