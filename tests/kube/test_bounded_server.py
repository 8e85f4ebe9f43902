"""Threads for connections are bounded, and slow clients keep nobody out."""

import http.client
import socket
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler

import pytest

from rescheduler.controller.server import HealthReport, Server, probes
from rescheduler.kube.bounded_server import BoundedHandler, BoundedHttpServer


class Small(BoundedHttpServer):
    most_connections = 4
    request_s = 0.6


def serving(server):
    thread = threading.Thread(target=lambda: server.serve_forever(0.05), daemon=True)
    thread.start()
    return server.server_address[1]


def handler(answer):
    class Handler(BoundedHandler, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def do_GET(self):
            self.answering()
            answer()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Nothing."""

    return Handler


@pytest.fixture
def small():
    held = threading.Event()
    held.set()
    server = Small(("127.0.0.1", 0), handler(lambda: held.wait(5)))
    port = serving(server)
    yield server, port, held
    held.set()
    server.shutdown()
    server.server_close()
    server.end_all()


def status(port, timeout=3.0):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status
    finally:
        client.close()


def slow(port, stack, count, text=b"GET /healthz HTTP/1.1\r\nHost: x\r\n"):
    clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
    for client in clients:
        client.sendall(text)
    return clients


def send_slowly(client, until):
    while time.monotonic() < until:
        client.sendall(b"X")
        time.sleep(0.05)


def test_slow_clients_have_a_bound_and_keep_nobody_out(small):
    server, port, _ = small
    with ExitStack() as stack:
        slow(port, stack, 40)
        assert status(port) == 204
        assert server.connections <= Small.most_connections


def test_a_request_that_comes_byte_by_byte_ends(small):
    server, port, _ = small
    with ExitStack() as stack:
        (client,) = slow(port, stack, 1, b"GET /healthz HTTP/1.1\r\n")
        began = time.monotonic()
        with pytest.raises(OSError):
            send_slowly(client, until=began + 5)
        assert time.monotonic() - began < 3
        assert server.connections == 0


def test_what_is_being_answered_is_never_cut_off_for_others(small):
    _, port, held = small
    held.clear()
    found = []
    askers = [threading.Thread(target=lambda: found.append(status(port, 8))) for _ in range(4)]
    for asker in askers:
        asker.start()
    time.sleep(0.9)  # longer than a request may take to arrive
    with pytest.raises((OSError, http.client.HTTPException)):
        status(port)
    held.set()
    for asker in askers:
        asker.join()
    assert found == [204] * 4


def test_the_probes_of_the_kubelet_are_answered_in_a_crowd_of_slow_clients():
    server = Server(
        port=0,
        host="127.0.0.1",
        routes=probes(
            health=lambda: HealthReport(ok=True), ready=lambda: HealthReport(ok=True), metrics=lambda: b""
        ),
    )
    server.start()
    try:
        with ExitStack() as stack:
            before = threading.active_count()
            slow(server.port, stack, 150)
            assert status(server.port) == 200
            assert threading.active_count() - before <= BoundedHttpServer.most_connections + 1
    finally:
        server.stop()
