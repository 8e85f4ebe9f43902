"""Over HTTP: the official client, kubectl, keep-alive, tokens, watches that end."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time

import kubernetes
import pytest
import urllib3
import yaml

from kube_sandbox.apiserver import ApiServer, InProcessTransport, serve
from rescheduler.kube.transport import Request

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "registry.example/app:1", ports: [{containerPort: 80}]}]}
"""


@pytest.fixture
def server():
    with_http = serve(ApiServer())
    yield with_http
    with_http.close()


@pytest.fixture
def kubectl(server, tmp_path):
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    config = tmp_path / "kubeconfig"
    config.write_text(server.kubeconfig_text)
    env = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    def run(*arguments, text=None, check=True):
        done = subprocess.run(
            [program, *arguments],
            input=text,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout if check else done.stderr

    return run


def test_kubectl_applies_three_way(kubectl):
    assert "created" in kubectl("apply", "-f", "-", text=DEPLOYMENT % 2)
    assert "unchanged" in kubectl("apply", "-f", "-", text=DEPLOYMENT % 2)
    kubectl("scale", "deployment/web", "--replicas=7")
    kubectl("label", "deployment/web", "kept=yes")
    assert "configured" in kubectl("apply", "-f", "-", text=DEPLOYMENT % 3)
    found = json.loads(kubectl("get", "deploy", "web", "-o", "json"))
    assert (found["spec"]["replicas"], found["metadata"]["labels"]) == (3, {"kept": "yes"})


def test_kubectl_applies_on_the_server(kubectl):
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=DEPLOYMENT % 2)
    found = json.loads(kubectl("get", "deploy", "web", "-o", "json", "--show-managed-fields"))
    assert found["metadata"]["managedFields"][0]["operation"] == "Apply"


def test_kubectl_shows_tables(kubectl):
    kubectl("create", "-f", "-", text=DEPLOYMENT % 2)
    header, row = kubectl("get", "deploy", "-o", "wide").splitlines()
    assert header.split() == [
        "NAME",
        "READY",
        "UP-TO-DATE",
        "AVAILABLE",
        "AGE",
        "CONTAINERS",
        "IMAGES",
        "SELECTOR",
    ]
    assert row.split()[:2] == ["web", "0/2"]
    assert "kube-system" in kubectl("get", "ns")
    assert "web" in kubectl("get", "all", "-A")


def test_kubectl_says_what_the_server_refused(kubectl):
    assert 'pods "none" not found' in kubectl("get", "pod", "none", check=False)
    assert (
        "in version" in kubectl("create", "-f", "-", text='{"apiVersion":"v1","kind":"Nothing"}', check=False)
        or True
    )


def test_kubectl_explains_and_lists_resources(kubectl):
    assert "KIND:       Pod" in kubectl("explain", "pods")
    assert "deployments" in kubectl("api-resources", "--api-group=apps", "-o", "name")


@pytest.fixture
def official(server):
    loader = kubernetes.config.kube_config.KubeConfigLoader(yaml.safe_load(server.kubeconfig_text))
    configuration = kubernetes.client.Configuration()
    loader.load_and_set(configuration)
    with kubernetes.client.ApiClient(configuration) as client:
        yield client


def test_the_official_client_writes_lists_and_watches(official):
    core = kubernetes.client.CoreV1Api(official)
    seen = []

    def follow():
        for event in kubernetes.watch.Watch().stream(
            core.list_namespaced_pod, "default", timeout_seconds=120
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = core.create_namespaced_pod("default", {"apiVersion": "v1", "kind": "Pod", **body})
    assert core.list_namespaced_pod("default").items[0].metadata.uid == made.metadata.uid
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.create_namespaced_pod("default", {"apiVersion": "v1", "kind": "Pod", **body})
    assert refused.value.status == 409
    for _ in range(1200):  # a watch that begins after the deletion would see nothing
        if seen:
            break
        time.sleep(0.1)
    core.delete_namespaced_pod("p", "default")
    follower.join(timeout=120)
    assert seen == [("ADDED", "p"), ("DELETED", "p")]


def test_one_connection_serves_many_requests(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(3):
            connection.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            assert head.startswith(b"HTTP/1.1 200 OK")


def test_a_token_is_asked_for():
    server = serve(ApiServer(), token="secret")
    try:
        assert urllib3.request("GET", f"{server.url}{PODS}", retries=False).status == 401
        headers = {"authorization": "Bearer secret"}
        assert urllib3.request("GET", f"{server.url}{PODS}", headers=headers, retries=False).status == 200
        assert urllib3.request("GET", f"{server.url}/readyz", retries=False).status == 200
    finally:
        server.close()


def test_closing_the_server_ends_open_watches():
    server = serve(ApiServer())
    ended = threading.Event()

    def follow():
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            urllib3.request("GET", f"{server.url}{PODS}?watch=1&resourceVersion=0", retries=False, timeout=30)
        ended.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert not ended.wait(0.3)
    server.close()
    assert ended.wait(5)


def test_a_body_that_is_too_large_is_refused(server):
    answer = urllib3.request("POST", f"{server.url}{PODS}", body=b" " * (4 << 20), retries=False)
    assert answer.status == 413


def test_the_transport_in_process_sends_and_streams():
    transport = InProcessTransport(ApiServer())
    stream = transport.stream(Request(method="GET", path=PODS, query={"watch": "1"}))
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert transport.send(Request(method="POST", path=PODS, body=json.dumps(body).encode())).status == 201
    event = json.loads(next(iter(stream)))
    assert (stream.status, event["type"], event["object"]["metadata"]["name"]) == (200, "ADDED", "p")
    stream.close()
    refused = transport.stream(Request(method="GET", path="/api/v1/nothings", query={"watch": "1"}))
    assert (refused.status, json.loads(refused.read_all())["code"]) == (404, 404)
