"""/healthz, /readyz and /metrics on a port of their own.

Health is the heart-beat of the loop, not the reach of the API server (a restart would not bring that
back). Readiness is complete and fresh caches, not leadership (or roll-outs would wait for ever). The
answers are computed by functions that are handed in; a slow or stuck client holds no other one up.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import structlog

from rescheduler.controller.metrics import CONTENT_TYPE

DEFAULT_HEARTBEAT_LIMIT_S: Final = 120.0
_CLIENT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer to "are you well?". ``reason``: one line for people."""

    ok: bool
    reason: str = "ok"


class Heartbeat:
    """The loop beats it at every turn; health is how long ago that was."""

    def __init__(
        self, limit_s: float = DEFAULT_HEARTBEAT_LIMIT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._last_s = clock()

    def beat(self) -> None:
        """The loop turns."""
        self._last_s = self._clock()

    def verdict(self) -> Verdict:
        """Not ok once the loop stood still for longer than the limit."""
        age_s = self._clock() - self._last_s
        if age_s > self._limit_s:
            return Verdict(ok=False, reason=f"the loop has stood still for {age_s:.0f} s")
        return Verdict(ok=True)


class Server:
    """The HTTP server, on threads. ``port`` 0 takes a free one."""

    def __init__(
        self,
        *,
        port: int,
        health: Callable[[], Verdict],
        ready: Callable[[], Verdict],
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
    verdicts: dict[str, Callable[[], Verdict]], metrics: Callable[[], bytes]
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
            elif path in verdicts:
                verdict = verdicts[path]()
                status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, f"{verdict.reason}\n".encode())
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
