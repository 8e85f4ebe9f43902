"""The HTTPS server over real sockets: one packet, one certificate after another, no client that holds it up."""

import http.client
import socket
import ssl
import struct
import time

import pytest

from rescheduler.webhook.certificates import renewed
from rescheduler.webhook.https_server import MOST_BYTES, WebhookServer
from rescheduler.webhook.review import UnreadableReviewError
from tests.waiting import until


def echo(body):
    if body == b"nonsense":
        raise UnreadableReviewError("nonsense")
    return b"seen " + body


@pytest.fixture
def material():
    return renewed(None, ("127.0.0.1",), time.time())


@pytest.fixture
def server(material):
    server = WebhookServer(port=0, routes={"/gate": echo}, host="127.0.0.1")
    server.start()
    server.use(material.certificate, material.key)
    yield server
    server.stop()


def client(server, material):
    context = ssl.create_default_context(cadata=material.bundle.decode())
    return http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=5)


def post(connection, body, path="/gate?timeout=1s"):
    connection.request("POST", path, body=body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_many_reviews_over_one_connection(server, material):
    connection = client(server, material)
    assert [post(connection, b"%d" % n) for n in range(5)] == [(200, b"seen %d" % n) for n in range(5)]
    connection.close()


def test_headers_and_body_come_in_one_record(server, material):
    context = ssl.create_default_context(cadata=material.bundle.decode())
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"POST /gate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        assert connection.recv(65_536).endswith(b"seen hi")


@pytest.mark.parametrize(("body", "path", "status"), [(b"nonsense", "/gate", 400), (b"x", "/elsewhere", 400)])
def test_what_cannot_be_answered_is_refused_and_the_server_goes_on(server, material, body, path, status):
    connection = client(server, material)
    assert post(connection, body, path)[0] == status
    connection.close()
    connection = client(server, material)
    assert post(connection, b"next") == (200, b"seen next")
    connection.close()


@pytest.mark.parametrize(("header", "status"), [
    (("Content-Length", str(MOST_BYTES + 1)), 413),
    (("Content-Length", "-1"), 400),
    (("Transfer-Encoding", "chunked"), 400),
    (("Content-Length ", "2"), 400),
    (("Content-Length", "2\u00b2"), 400),
    (("Content-Length", "2\r\nContent-Length: 3"), 400),
    (("Content-Length", "2\r\nTransfer-Encoding: chunked"), 400),
])  # fmt: skip
def test_a_body_without_measure_is_not_read(server, material, header, status):
    connection = client(server, material)
    connection.putrequest("POST", "/gate")
    name, value = header
    connection._buffer.append(f"{name}: {value}".encode("latin-1"))  # also what its client refuses to send
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == status
    answer.read()
    connection.close()


def test_a_silent_client_and_one_without_tls_hold_nobody_up(server, material):
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=5),
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as rude,
    ):
        rude.sendall(b"GET / HTTP/1.1\r\n\r\n")
        connection = client(server, material)
        assert post(connection, b"me") == (200, b"seen me")
        connection.close()


def test_a_client_that_leaves_before_the_answer_leaves_nothing_open(server, material):
    context = ssl.create_default_context(cadata=material.bundle.decode())
    for _ in range(5):
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(b"POST /gate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: not server._http.connections, 5)


def test_a_new_certificate_serves_the_next_connection_and_the_open_one_goes_on(server, material):
    old = client(server, material)
    assert post(old, b"1")[0] == 200
    other = renewed(None, ("127.0.0.1",), time.time())
    server.use(other.certificate, other.key)
    assert post(old, b"2")[0] == 200
    old.close()
    new = client(server, other)
    assert post(new, b"3")[0] == 200
    new.close()
    distrusting = client(server, material)
    with pytest.raises(ssl.SSLCertVerificationError):
        post(distrusting, b"4")
    distrusting.close()


def test_stopping_hangs_up_on_idle_clients_too(server, material):
    connection = client(server, material)
    assert post(connection, b"1")[0] == 200
    server.stop()
    connection.auto_open = 0
    with pytest.raises((OSError, http.client.HTTPException)):
        post(connection, b"2")
    connection.close()


def test_without_a_certificate_the_handshake_fails():
    server = WebhookServer(port=0, routes={}, host="127.0.0.1")
    server.start()
    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain, pytest.raises(OSError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")
    server.stop()
