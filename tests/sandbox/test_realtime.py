"""The sandbox in real time, behind HTTP."""

import json
import threading
import time
import urllib.request

import yaml

from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox


def fetch(url, path, body=None):
    request = urllib.request.Request(  # noqa: S310 - the test's own server
        url + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
        return json.load(answer)


def test_workload_made_over_http_runs_and_the_kubeconfig_names_the_server(tmp_path, objects):
    with Sandbox([SandboxNode(name="n1")], clock=time.time) as cluster:
        server = cluster.start(kubeconfig=tmp_path / "config")
        fetch(
            server.url,
            "/apis/apps/v1/namespaces/default/deployments",
            objects.workload("Deployment", "web", 2),
        )
        pods = "/api/v1/namespaces/default/pods"
        cluster.wait_for(lambda: sum(objects.is_ready(p) for p in fetch(server.url, pods)["items"]) == 2, 20)
        config = yaml.safe_load((tmp_path / "config").read_text())
        assert config["clusters"][0]["cluster"]["server"] == server.url


def test_stopped_cluster_leaves_no_thread_behind():
    others = set(threading.enumerate())
    with Sandbox([SandboxNode(name="n1")], clock=time.time) as cluster:
        cluster.start()
        own = {t.name for t in set(threading.enumerate()) - others}
        assert own >= {"sandbox", "apiserver"}
    left = {t.name for t in set(threading.enumerate()) - others}
    assert not left & own
