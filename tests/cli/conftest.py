"""Shared pieces of the tests of the command line."""

import json
import signal
import time

import pytest
from click.testing import CliRunner

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from rescheduler.cli.main import main
from rescheduler.sandbox.sandbox import Sandbox
from rescheduler.testing.builders import node, pdb, replicaset

NOW = "2026-11-21T10:00:00Z"


@pytest.fixture
def command():
    """Runs one command line in this process. A fault of the program is raised, never swallowed."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(*words, **more):
        result = CliRunner().invoke(main, [str(word) for word in words], **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The sandbox with everything of ``manifests/`` installed: (its API, path of a kubeconfig)."""
    kubeconfig = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with Sandbox(clock=time.time) as cluster:
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, manifests.load())
        yield api, str(kubeconfig)


@pytest.fixture
def untidy():
    """Manifests of a small cluster: two pods on a tainted node, one of them behind a budget that is used up."""
    web = replicaset("web", "shop").cpu("500m").replicas(2)
    api = replicaset("api", "shop").cpu("250m").replicas(2)
    objects = [
        node("n1").zone("a").taint("maintenance"),
        node("n2").zone("a"),
        node("n3").zone("b"),
        web,
        web.pod("web-1").on("n1"),
        web.pod("web-2").on("n2"),
        api,
        api.pod("api-1").on("n1"),
        api.pod("api-2").on("n2"),
        pdb("api", "shop").allows(0),
    ]
    return [each if isinstance(each, dict) else each.manifest() for each in objects]


@pytest.fixture
def dump(tmp_path):
    """Writes a List as kubectl does."""

    def write(items, name="dump.json"):
        path = tmp_path / name
        document = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
        path.write_text(json.dumps(document))
        return path

    return write
