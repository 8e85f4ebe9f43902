"""Over HTTP: the official client, keep-alive, watches that end."""

import contextlib
import json
import socket
import threading

import pytest
import urllib3

from kube_sandbox.apiserver import ApiServer, InProcessTransport, serve
from rescheduler.kube.transport import Request

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def server():
    with_http = serve(ApiServer())
    yield with_http
    with_http.close()


def test_one_connection_serves_many_requests(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(3):
            connection.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            assert head.startswith(b"HTTP/1.1 200 OK")


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
