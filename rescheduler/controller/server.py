"""/healthz, /readyz, /metrics, and the live page where it is on, on a port of their own.

Health means that the loop runs, not that the API server answers (a restart would not help against that). Readiness means
that the caches are complete and fresh, not that this process leads (a rollout would wait for ever). Functions that are
passed in compute the answers; slow clients, however many, do not block the others. Nothing can be changed here: GET and HEAD only.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final

import structlog

from rescheduler.controller.metrics import CONTENT_TYPE
from rescheduler.errors import ReschedulerError
from rescheduler.kube.bounded_server import BoundedHandler, BoundedHttpServer

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a path answers."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    gzipped: bytes | None = None
    """The same body for clients that take it so; None: it is not compressed."""
    etag: str = ""
    """Names this very content: a client that has it already gets no body. "": it is sent each time."""
    headers: Mapping[str, str] = field(default_factory=dict)


Routes = Mapping[str, Callable[[], HttpAnswer]]
"""What computes the answer of each path, on the thread of the request."""


def probes(
    *, health: Callable[[], HealthReport], ready: Callable[[], HealthReport], metrics: Callable[[], bytes]
) -> Routes:
    """The paths for the kubelet and Prometheus."""

    def told(report: Callable[[], HealthReport]) -> Callable[[], HttpAnswer]:
        def answer() -> HttpAnswer:
            found = report()
            status = HTTPStatus.OK if found.ok else HTTPStatus.SERVICE_UNAVAILABLE
            return HttpAnswer(body=f"{found.reason}\n".encode(), status=status)

        return answer

    return {
        "/healthz": told(health),
        "/livez": told(health),
        "/readyz": told(ready),
        "/metrics": lambda: HttpAnswer(body=metrics(), content_type=CONTENT_TYPE),
    }


class Server:
    """The HTTP server, on threads. ``port`` 0 takes a free one.

    ``hosts``: names that requests must address it by, without the port; None: any. On loopback it keeps pages of
    strangers, which can have their own name resolve to 127.0.0.1, from reading what is served.
    """

    def __init__(
        self,
        *,
        port: int,
        routes: Routes,
        host: str = "0.0.0.0",  # noqa: S104 - probes and Prometheus come from outside the pod
        hosts: frozenset[str] | None = None,
    ) -> None:
        self._http = _HttpServer((host, port), _handler(routes, hosts))
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


class _HttpServer(BoundedHttpServer):
    request_s = _CLIENT_TIMEOUT_S


def _handler(routes: Routes, hosts: frozenset[str] | None) -> type[BaseHTTPRequestHandler]:
    log = structlog.get_logger("rescheduler.server")
    nothing_here = HttpAnswer(body=f"{' '.join(sorted(routes))}\n".encode(), status=HTTPStatus.NOT_FOUND)

    class Handler(BoundedHandler, BaseHTTPRequestHandler):
        timeout = _CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            self.answering()
            if hosts is not None and _host_name(self.headers.get("Host", "")) not in hosts:
                _send(self, HttpAnswer(body=b"not for this host name\n", status=HTTPStatus.FORBIDDEN))
                return
            route = routes.get(self.path.partition("?")[0])
            _send(self, route() if route is not None else nothing_here)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.close_connection = True  # its body is not read
            allow = {"Allow": "GET, HEAD"}
            _send(self, HttpAnswer(body=b"read only\n", status=HTTPStatus.METHOD_NOT_ALLOWED, headers=allow))

        do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            log.debug("A request was answered", request=format % args)

    return Handler


def _send(request: BaseHTTPRequestHandler, answer: HttpAnswer) -> None:
    known = bool(answer.etag) and request.headers.get("If-None-Match") == answer.etag
    packed = answer.gzipped if "gzip" in request.headers.get("Accept-Encoding", "") else None
    body = answer.body if packed is None else packed
    headers = dict(answer.headers)
    if answer.etag:
        headers["ETag"] = answer.etag
    if answer.gzipped is not None:
        headers["Vary"] = "Accept-Encoding"
    if not known:
        headers |= {"Content-Type": answer.content_type, "Content-Length": str(len(body))}
        headers |= {"Content-Encoding": "gzip"} if packed is not None else {}
    with contextlib.suppress(ConnectionError, TimeoutError):  # the client went away
        request.send_response(HTTPStatus.NOT_MODIFIED if known else answer.status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD" and not known:
            request.wfile.write(body)


def _host_name(header: str) -> str:
    """``Host`` without the port."""
    name, colon, port = header.rpartition(":")
    return name if colon and port.isdigit() else header
