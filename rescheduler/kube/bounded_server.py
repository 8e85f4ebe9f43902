"""An HTTP server with a thread for each connection, and a bound on both.

Promises: never more than ``most_connections`` threads answer, whoever connects. Where all are taken, the connection that has waited
longest for its client is closed for the new one, so slow clients keep nobody out who asks and goes. A request that has not
arrived after ``request_s`` ends its connection, however slowly the client goes on sending. If every thread is at work on an
answer, the new connection is closed.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

_PATIENCE_S: Final = 0.5
"""How long a connection that is closed for another one may take to end its thread."""


@dataclass(slots=True, eq=False)
class _Client:
    connection: socket.socket
    since_s: float | None
    """Since when its thread waits for it; None: the thread is at work on an answer."""


class BoundedHttpServer(ThreadingHTTPServer):
    """Handlers say by ``answering`` and ``waiting`` whether their thread works or waits for its client."""

    most_connections: ClassVar[int] = 64
    request_s: ClassVar[float] = 10.0
    """Longest time that a request may take to arrive; of a connection that is kept, from the last answer on."""
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        """As the base class."""
        self._changed = threading.Condition()
        self._clients: list[_Client] = []
        self._own = threading.local()
        super().__init__(address, handler)

    @property
    def connections(self) -> int:
        """How many there are now, each with a thread."""
        with self._changed:
            return len(self._clients)

    def waiting(self, connection: socket.socket) -> None:
        """This thread waits for a request on the connection from now on."""
        client: _Client = self._own.client
        client.connection, client.since_s = connection, time.monotonic()

    def answering(self) -> None:
        """Its request has arrived."""
        self._own.client.since_s = None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, if there may be one more."""
        with self._changed:
            if len(self._clients) >= self.most_connections:
                self._end_longest()
                self._changed.wait_for(lambda: len(self._clients) < self.most_connections, _PATIENCE_S)
            full = len(self._clients) >= self.most_connections
            if not full:
                client = _Client(request, time.monotonic())
                self._clients.append(client)
        if full:
            self.shutdown_request(request)
            return
        name = f"{threading.current_thread().name}-client"
        threading.Thread(target=self._serve, args=(client, client_address), name=name, daemon=True).start()

    def service_actions(self) -> None:
        """End connections whose request does not arrive; called by ``serve_forever`` every half second."""
        end_s = time.monotonic() - self.request_s
        with self._changed:
            late = [c for c in self._clients if c.since_s is not None and c.since_s < end_s]
        for client in late:
            _end(client)

    def end_all(self) -> None:
        """End all connections, the idle ones included."""
        with self._changed:
            clients = list(self._clients)
        for client in clients:
            _end(client)

    def _serve(self, client: _Client, client_address: Any) -> None:
        self._own.client = client
        try:
            self.process_request_thread(client.connection, client_address)
        finally:
            with self._changed:
                self._clients.remove(client)
                self._changed.notify_all()

    def _end_longest(self) -> None:
        idle = [(client.since_s, n) for n, client in enumerate(self._clients) if client.since_s is not None]
        if idle:
            _end(self._clients[min(idle)[1]])


class BoundedHandler(BaseHTTPRequestHandler):
    """A handler for such a server; it calls ``answering`` once it has a request."""

    server: BoundedHttpServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet
    disable_nagle_algorithm = True
    server_version = "rescheduler"
    sys_version = ""

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self.server.waiting(self.connection)
        super().handle_one_request()

    def answering(self) -> None:
        """The request has arrived: from now on the time of the answer is ours."""
        self.server.answering()


def _end(client: _Client) -> None:
    """Wake the thread that reads from it. The plain call, without the closing messages of TLS."""
    with suppress(OSError):
        socket.socket.shutdown(client.connection, socket.SHUT_RDWR)
