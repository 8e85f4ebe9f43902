"""/healthz, /readyz and /metrics on a port of their own.

Health means that the loop runs, not that the API server answers (a restart would not help against that). Readiness means
that the caches are complete and fresh, not that this process leads (a rollout would wait for ever). Functions that are
passed in compute the answers; a slow client does not block the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import structlog

from rescheduler.controller.metrics import CONTENT_TYPE
from rescheduler.errors import ReschedulerError

DEFAULT_HEARTBEAT_LIMIT_S: Final = 120.0
_CLIENT_TIMEOUT_S: Final = 10.0


class CannotListenError(ReschedulerError):
    """A server cannot have its port; the administrator must free it or configure another."""

    def __init__(self, server: str, port: int, key: str, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(
            f"{server} cannot listen on port {port}: {reason} (free it, or configure another: {key})"
        )
        self.port = port
        self.key = key


@contextlib.contextmanager
def listening(server: str, *, port: int, key: str) -> Iterator[None]:
    """A context for code that listens on ``port``, which is configured by ``key``.

    Raises:
        CannotListenError: the port cannot be taken.
    """
    try:
        yield
    except OSError as error:
        raise CannotListenError(server, port, key, error) from error


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The answer to a probe."""

    ok: bool
    reason: str = "ok"
    """One line, sent as the body of the answer."""


class Heartbeat:
    """Records when the last turn of the loop began; the process is healthy while that was not too long ago."""

    def __init__(
        self, limit_s: float = DEFAULT_HEARTBEAT_LIMIT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._last_s = clock()

    def beat(self) -> None:
        """Called at the beginning of each turn."""
        self._last_s = self._clock()

    def report(self) -> HealthReport:
        """Not ok if the last turn began longer ago than the limit."""
        age_s = self._clock() - self._last_s
        if age_s > self._limit_s:
            return HealthReport(ok=False, reason=f"the loop has stood still for {age_s:.0f} s")
        return HealthReport(ok=True)


class Server:
    """The HTTP server, on threads. ``port`` 0 takes a free one."""

    def __init__(
        self,
        *,
        port: int,
        health: Callable[[], HealthReport],
        ready: Callable[[], HealthReport],
        metrics: Callable[[], bytes],
        host: str = "0.0.0.0",  # noqa: S104 - probes and Prometheus come from outside the pod
    ) -> None:
        handler = _handler({"/healthz": health, "/livez": health, "/readyz": ready}, metrics)
        self._http = _HttpServer((host, port), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and free the port."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join(_CLIENT_TIMEOUT_S)
        self._http.server_close()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


def _handler(
    reports: dict[str, Callable[[], HealthReport]], metrics: Callable[[], bytes]
) -> type[BaseHTTPRequestHandler]:
    log = structlog.get_logger("rescheduler.server")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _CLIENT_TIMEOUT_S
        wbufsize = -1  # headers and body in one packet
        disable_nagle_algorithm = True
        server_version = "rescheduler"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, metrics(), CONTENT_TYPE)
            elif path in reports:
                report = reports[path]()
                status = HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, f"{report.reason}\n".encode())
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"/healthz /readyz /metrics\n")

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
            with contextlib.suppress(ConnectionError, TimeoutError):  # the client went away
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            log.debug("A request was answered", request=format % args)

    return Handler
