"""Connections go to a server that is there, and end with it."""

import socket
import threading
from contextlib import contextmanager

import pytest

from harness.controlplane.balancer import Balancer

LIMIT_S = 120.0


@contextmanager
def server(word):
    """Answers each line with a word; yields its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client, client.makefile("rb") as lines:
                for _ in lines:
                    client.sendall(word)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def ask(balancer):
    port = int(balancer.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        try:
            client.sendall(b"?\n")
            return client.recv(16)
        except ConnectionError:
            return b""


@pytest.fixture
def balancer():
    with Balancer() as found:
        yield found


def test_connections_go_to_the_servers_in_turn(balancer):
    with server(b"one") as one, server(b"two") as two:
        balancer.ports = [one, two]
        assert {ask(balancer) for _ in range(4)} == {b"one", b"two"}


def test_a_server_that_has_ended_gets_none(balancer):
    with server(b"one") as one:
        with server(b"two") as two:
            balancer.ports = [one, two]
        assert [ask(balancer) for _ in range(4)] == [b"one"] * 4


def test_without_a_server_a_connection_ends(balancer):
    assert ask(balancer) == b""
