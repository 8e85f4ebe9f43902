"""Deletion, finalizers, patches, server-side apply, pods' rules."""

import pytest

PODS = "/api/v1/namespaces/default/pods"


def bound(client, made, name="p", **spec):
    client.post(PODS, made.pod(name, **spec))
    client.post(f"{PODS}/{name}/binding", made.binding(name, "n1"))


def test_a_bound_pod_goes_after_its_grace(client, made):
    bound(client, made, terminationGracePeriodSeconds=7)
    status, body = client.delete(f"{PODS}/p")
    assert status == 200
    assert body["metadata"]["deletionGracePeriodSeconds"] == 7
    assert body["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:07Z"
    assert client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})[0] == 200
    assert client.get(f"{PODS}/p")[0] == 404


def test_a_later_deletion_may_only_shorten_the_grace(client, made):
    bound(client, made)
    client.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})
    assert (
        client.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})[1]["metadata"]["deletionGracePeriodSeconds"]
        == 10
    )
    assert (
        client.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})[1]["metadata"]["deletionGracePeriodSeconds"]
        == 5
    )


def test_an_unbound_pod_goes_at_once(client, made):
    client.post(PODS, made.pod())
    client.delete(f"{PODS}/p")
    assert client.get(f"{PODS}/p")[0] == 404


def test_nothing_is_made_in_a_namespace_that_is_missing_or_terminating(client, made):
    assert client.post("/api/v1/namespaces/none/configmaps", made.config_map("a"))[0] == 404
    client.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}})
    client.delete("/api/v1/namespaces/t")
    status, body = client.post("/api/v1/namespaces/t/configmaps", made.config_map("a"))
    assert (status, body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


def test_priorities_come_from_their_class(client, made):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 7,
    }
    client.post(classes, {**body, "preemptionPolicy": "Never"})
    spec = client.post(PODS, made.pod(priorityClassName="high"))[1]["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    assert client.post(PODS, made.pod("q", priorityClassName="none"))[0] == 403
    client.post(classes, {**body, "metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    assert client.post(PODS, made.pod("r"))[1]["spec"]["priorityClassName"] == "usual"


@pytest.mark.parametrize("body", [
    [],
    {"apiVersion": "v1", "kind": "Pod", "metadata": []},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": ["a"]}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": "none"}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [7]}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},
])  # fmt: skip
def test_malformed_objects_are_refused_in_words(client, body):
    status, answer = client.post(PODS, body)
    assert (status, answer["kind"], answer["reason"]) in (
        (400, "Status", "BadRequest"),
        (422, "Status", "Invalid"),
    )
    assert client.get(PODS)[1]["items"] == []


def test_events_are_one_in_both_groups(client):
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
    }
    assert client.post("/apis/events.k8s.io/v1/namespaces/default/events", new)[1]["note"] == "hello"
    old = client.get("/api/v1/namespaces/default/events/e")[1]
    assert (old["message"], old["involvedObject"]["name"], old["apiVersion"]) == ("hello", "p", "v1")
    listed = client.get("/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=p")[1]
    assert len(listed["items"]) == 1
