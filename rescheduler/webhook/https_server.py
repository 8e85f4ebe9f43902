"""HTTPS server of the webhook, on threads of its own.

Promises: headers and body leave in one packet and at once (two writes cost 44 ms per pod, measured); a request
costs no more than its body (the standard library's parser of headers and its answer took half of the time); a new
certificate serves the next connection, without a restart; a slow client, a failed handshake or an oversized
body delay no other call. It keeps no state and sends no requests: answers are computed by the functions handed in.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import Any, ClassVar, Final

import structlog

from rescheduler.kube.bounded_server import BoundedHandler, BoundedHttpServer
from rescheduler.webhook.review import UnreadableReviewError

Respond = Callable[[bytes], bytes]
"""AdmissionReview -> AdmissionReview. Raises UnreadableReviewError."""

MOST_BYTES: Final = 8 * 1024 * 1024
_WORDS: Final = 3
"""Of a request's first line."""
_MOST_HEADERS: Final = 100
_LONGEST_LINE: Final = 65_536
_HANDSHAKE_S: Final = 5.0
_IDLE_S: Final = 120.0
"""Longer than API servers keep an idle connection (90 s), so that they close first and lose no call."""


class WebhookServer:
    """Listens from the start; until ``use`` was called, handshakes fail and pods are created unchanged."""

    def __init__(self, *, port: int, routes: Mapping[str, Respond], host: str = "") -> None:
        """An empty ``host``: all addresses, both families where the system has them. ``port`` 0 takes a free one."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        both = not host and socket.has_dualstack_ipv6()
        self._http = (_DualStackServer if both else _HttpsServer)((host, port), _handler(routes))
        self._http.context = self._context
        self._thread = threading.Thread(target=self._http.serve_forever, name="webhook", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    def use(self, certificate: bytes, key: bytes) -> None:
        """Serve with that certificate (PEM) from the next connection on."""
        # Only files are taken, and the root file system may be read-only: a file in memory.
        descriptor = os.memfd_create("webhook-certificate")
        with closing(os.fdopen(descriptor, "wb")) as file:
            file.write(certificate + key)
            file.flush()
            self._context.load_cert_chain(f"/proc/self/fd/{descriptor}")

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, free the port, and close all connections."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()
        self._http.end_all()  # API servers keep idle ones for minutes


class _HttpsServer(BoundedHttpServer):
    """One thread per connection; API servers keep a few open."""

    most_connections = 256
    request_s = _IDLE_S
    request_queue_size = 128
    context: ssl.SSLContext

    def server_bind(self) -> None:
        """As the base class does, but without a DNS query for the name of this host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "rescheduler", self.server_address[1]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake is made in the connection's own thread."""
        request.settimeout(_HANDSHAKE_S)
        with self.context.wrap_socket(request, server_side=True) as connection:
            self.RequestHandlerClass(connection, client_address, self)  # type: ignore[arg-type]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class gives both
        """A connection that failed; the API server creates the pod unchanged."""
        structlog.get_logger("rescheduler.webhook").debug("A connection failed", error=str(sys.exception()))


class _DualStackServer(_HttpsServer):
    address_family = socket.AF_INET6


def _headers(lines: BufferedIOBase) -> dict[bytes, bytes] | None:
    """By name in small letters; None if they cannot be read, or leave open where the body ends."""
    found: dict[bytes, bytes] = {}
    for _ in range(_MOST_HEADERS):
        line = lines.readline(_LONGEST_LINE)
        if line in (b"\r\n", b"\n"):
            return None if b"transfer-encoding" in found else found
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not (colon and line.endswith(b"\n") and name and name == name.strip()):
            return None
        if name == b"content-length" and name in found:
            return None
        found[name] = value.strip()
    return None


class _Handler(BoundedHandler, BaseHTTPRequestHandler):
    routes: ClassVar[Mapping[str, Respond]]
    timeout = _IDLE_S
    length = ""
    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Only what counts of a call; what is no POST over HTTP/1.1 is left to the base class, which refuses it."""
        words = self.raw_requestline.split()
        if len(words) != _WORDS or words[0] != b"POST" or words[2] != b"HTTP/1.1":
            self.length = ""
            return super().parse_request()
        headers = _headers(self.rfile)
        if headers is None:
            self._answer(HTTPStatus.BAD_REQUEST, b"headers that cannot be read")
            return False
        self.command, self.request_version = "POST", self.protocol_version
        self.path = words[1].decode("latin-1")
        self.length = headers.get(b"content-length", b"").decode("latin-1")
        self.close_connection = headers.get(b"connection", b"").lower() == b"close"
        return headers.get(b"expect", b"").lower() != b"100-continue" or self.handle_expect_100()

    def do_POST(self) -> None:
        respond = self.routes.get(self.path.partition("?")[0])
        size = self.length
        if respond is None or not (size.isascii() and size.isdecimal()):
            self._answer(HTTPStatus.BAD_REQUEST, b"no such path, or no length")
        elif int(size) > MOST_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"")
        else:
            body = self.rfile.read(int(size))
            self.answering()
            self._respond(respond, body)

    def _respond(self, respond: Respond, body: bytes) -> None:
        try:
            self._answer(HTTPStatus.OK, respond(body))
        except UnreadableReviewError as error:
            structlog.get_logger("rescheduler.webhook").warning(
                "An admission review cannot be read", error=str(error)
            )
            self._answer(HTTPStatus.BAD_REQUEST, str(error).encode())

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        if status is not HTTPStatus.OK:
            self.close_connection = True  # what is left of the body must not be read as a request
        closes = "Connection: close\r\n" if self.close_connection else ""
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{closes}\r\n"
        )
        with suppress(OSError):  # the client went away
            self.wfile.write(head.encode() + body)
            self.wfile.flush()

    def finish(self) -> None:
        with suppress(OSError):  # what could not be sent to a client that went away
            super().finish()
        self.rfile.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: one line for each pod would bury the others."""


def _handler(routes: Mapping[str, Respond]) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"routes": routes})
