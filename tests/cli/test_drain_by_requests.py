"""``drain --evict-with request``: it files EvictionRequests, and withdraws them however the wait ends."""

import json

import pytest

from harness import builders as b
from rescheduler.cli import draining
from rescheduler.cli.draining import NotDrainedError, evict_by_requests, eviction_requests
from rescheduler.cli.errors import CommandError
from rescheduler.kube.errors import AlreadyExistsError


class Server:
    """Serves these versions; keeps what is filed."""

    def __init__(self, *versions):
        self.versions, self.filed, self.bodies = versions, [], []

    def get(self, path):
        assert path == "/apis"
        versions = [{"groupVersion": version} for version in self.versions]
        return json.dumps({"kind": "APIGroupList", "groups": [{"versions": versions}]}).encode()

    def create(self, path, body):
        key = f"{path}/{body['metadata']['name']}"
        if key in self.filed:
            raise AlreadyExistsError(409, "AlreadyExists", "it exists")
        self.filed.append(key)
        self.bodies.append(body)

    def delete(self, path):
        self.filed.remove(path)


POD = b.pod("web-1", namespace="shop").on("node-1").build()


def test_where_the_api_is_missing_nothing_is_begun():
    with pytest.raises(CommandError, match="does not serve EvictionRequests"):
        eviction_requests(Server("apps/v1"))


def test_a_pod_that_stays_has_its_request_withdrawn(monkeypatch):
    monkeypatch.setattr(draining, "pods_on", lambda _api, _nodes: [POD])
    api = Server("lifecycle.k8s.io/v1beta1")
    with pytest.raises(NotDrainedError, match=r"shop/web-1\nrun it again"):
        evict_by_requests(api, eviction_requests(api), [POD], 0.0, "run it again")
    assert api.filed == []
    (body,) = api.bodies
    assert body["apiVersion"] == "lifecycle.k8s.io/v1beta1"
    assert body["spec"] == {
        "target": {"pod": {"name": "web-1", "uid": POD.uid}},
        "requester": "rescheduler.dev/drain",
        "intent": "Eviction",
    }


def test_an_interruption_withdraws_them_too_and_what_a_killed_drain_left_is_taken_over(monkeypatch):
    api = Server("lifecycle.k8s.io/v1")
    where = eviction_requests(api)

    def interrupted(_api, _nodes):
        assert len(api.filed) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(draining, "pods_on", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evict_by_requests(api, where, [POD], 60.0, "")
    folder = f"/apis/lifecycle.k8s.io/{where.version}/namespaces/shop/evictionrequests"
    left = f"{folder}/{api.bodies[0]['metadata']['name']}"
    api.filed.append(left)
    with pytest.raises(KeyboardInterrupt):
        evict_by_requests(api, where, [POD], 60.0, "")
    assert api.filed == []


def test_it_ends_once_its_pods_are_gone_whoever_came_meanwhile(monkeypatch):
    other = b.pod("new", namespace="shop").on("node-1").build()
    monkeypatch.setattr(draining, "pods_on", lambda _api, _nodes: [other])
    api = Server("lifecycle.k8s.io/v1alpha1")
    evict_by_requests(api, eviction_requests(api), [POD], 60.0, "")
    assert api.filed == []
