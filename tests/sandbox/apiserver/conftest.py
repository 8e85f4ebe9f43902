"""An API server of its own for each test, in process and with a clock that the test moves."""

import json
import random

import pytest

from kube_sandbox.apiserver import ApiServer
from rescheduler.kube.transport import Request

MERGE = "application/merge-patch+json"


class Client:
    """Requests in process; answers are (status, body)."""

    def __init__(self, server, clock):
        self.server = server
        self.clock = clock

    def call(self, method, path, body=None, content_type="application/json", **query):
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"accept": query.pop("accept")} if "accept" in query else {}
        request = Request(method=method, path=path, query=query, body=data, content_type=content_type)
        answer = self.server.handle(request, headers)
        return answer.status, json.loads(answer.body) if answer.body else {}

    def get(self, path, **query):
        return self.call("GET", path, **query)

    def post(self, path, body, **query):
        return self.call("POST", path, body, **query)

    def put(self, path, body, **query):
        return self.call("PUT", path, body, **query)

    def patch(self, path, body, content_type=MERGE, **query):
        return self.call("PATCH", path, body, content_type, **query)

    def delete(self, path, body=None, **query):
        return self.call("DELETE", path, body, **query)

    def watch(self, path, **query):
        return self.server.open_watch(Request(method="GET", path=path, query={"watch": "1", **query}))

    @staticmethod
    def events(stream):
        return [json.loads(line) for line in stream.drain()]


class Clock:
    def __init__(self):
        self.now_s = 1_800_000_000.0

    def __call__(self):
        return self.now_s


class Made:
    """Objects for requests."""

    @staticmethod
    def pod(name="p", labels=None, **spec):
        body = {"containers": [{"name": "c", "image": "registry.example/app:1"}], **spec}
        metadata = {"name": name, "labels": labels or {"app": "web"}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}

    @staticmethod
    def config_map(name, **data):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}

    @staticmethod
    def binding(name, node):
        target = {"kind": "Node", "name": node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


@pytest.fixture(scope="session")
def made():
    return Made


@pytest.fixture(scope="session")
def make_client():
    def make():
        clock = Clock()
        return Client(ApiServer(clock=clock, rng=random.Random(7)), clock)  # noqa: S311 - reproducible

    return make


@pytest.fixture
def client(make_client):
    return make_client()
