"""The API server of the sandbox; a ``Transport`` to it within the process, and an HTTP/1.1 server (keep-alive, chunked watches).

Every response is that of a real API server to the same request, as far as the clients of this project can observe
(``tests/conformance`` compares them). Over HTTP it listens on the loopback interface by default, and asks nobody who they are.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import structlog
import yaml

from kube_sandbox.apiserver import registry as resources
from kube_sandbox.apiserver.admission import acting_as, managing
from kube_sandbox.apiserver.admission_policies import SYSTEM_PRIORITIES, BuiltinAdmission, PolicyEngine
from kube_sandbox.apiserver.definitions import Definitions
from kube_sandbox.apiserver.errors import StatusError, bad_request, unknown_path
from kube_sandbox.apiserver.handlers import answer, json_response, refusal
from kube_sandbox.apiserver.registry import builtin_registry
from kube_sandbox.apiserver.requests import parse_request_info
from kube_sandbox.apiserver.selectors import parse_predicate
from kube_sandbox.apiserver.store import Clock, ObjectStore
from kube_sandbox.apiserver.watch import WatchStream, is_true, watch_objects
from rescheduler.kube.bounded_server import BoundedHandler, BoundedHttpServer
from rescheduler.kube.transport import Request, Response, Stream

_log = structlog.get_logger(__name__)
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """One API server with its store. Thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.registry = builtin_registry()
        self.store = ObjectStore(
            clock=clock,
            rng=rng if rng is not None else random.Random(),  # noqa: S311 - identifiers, not secrets
            registry=self.registry,
        )
        self.definitions = Definitions(self.store)
        self.store.admission = BuiltinAdmission(self.store, PolicyEngine(self.store))
        self._bootstrap()

    def handle(self, request: Request, headers: Mapping[str, str] | None = None) -> Response:
        """The response to one request. A malformed request never raises."""
        known = headers or {}
        try:
            user = known.get("impersonate-user", "")
            manager = request.query.get("fieldManager", "")
            with acting_as(user) if user else nullcontext(), managing(manager):
                return self._answer(request, known)
        except StatusError as error:
            return refusal(error)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            _log.warning("request with a malformed object", path=request.path, fault=repr(error))
            return refusal(bad_request(f"the object provided is malformed: {error!r}"))

    def is_watch(self, request: Request) -> bool:
        """True if the request is a watch."""
        return request.method == "GET" and is_true(request.query.get("watch"))

    def open_watch(self, request: Request) -> WatchStream:
        """Opens a watch. Raises StatusError if it is refused."""
        target = parse_request_info(self.registry, request.path)
        if "watch" not in target.resource.verbs:
            raise unknown_path()
        chosen = parse_predicate(request.query, target.namespace, target.resource.fields)
        return watch_objects(self.store, target.resource, chosen, request.query)

    def _answer(self, request: Request, headers: Mapping[str, str]) -> Response:
        path = request.path
        parts = path.strip("/").split("/")
        if (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and len(parts) > 3):  # noqa: PLR2004 - below a group and version
            if not self._serves_group(parts):
                return _nothing()
            target = parse_request_info(self.registry, path)
            return answer(self.store, target, request, headers.get("accept", ""))
        if request.method not in {"GET", "HEAD"}:
            return _nothing()
        return self._about(parts)

    def _about(self, parts: list[str]) -> Response:
        match parts:
            case ["version"]:
                return json_response(200, resources.VERSION)
            case ["healthz" | "livez" | "readyz", *_]:
                return Response(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
            case ["openapi", *rest]:
                return json_response(200, resources.openapi(self.registry, rest))
            case ["api" | "apis", *_] if len(parts) == 1 or self._serves_group(parts):
                return json_response(200, resources.about(self.registry, parts))
            case _:
                return _nothing()

    def _serves_group(self, parts: list[str]) -> bool:
        """True if the group, and the version if there is one, is served."""
        group, version = ("", parts[1:2]) if parts[0] == "api" else (parts[1], parts[2:3])
        return self.registry.serves(group, version[0] if version else None)

    def _bootstrap(self) -> None:
        namespaces = self.registry.named("namespaces")
        for name in _NAMESPACES:
            self.store.create(namespaces, "", {"metadata": {"name": name}})
        classes = self.registry.named("priorityclasses.scheduling.k8s.io")
        for name, value in SYSTEM_PRIORITIES.items():
            self.store.create(classes, "", {"metadata": {"name": name}, "value": value})


def _nothing() -> Response:
    return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})


class RefusedStream:
    """The stream of a rejected watch: a status and a body, no events."""

    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    def __iter__(self) -> Iterator[bytes]:
        yield self._body

    def read_all(self) -> bytes:
        """The body."""
        return self._body

    def close(self) -> None:
        """Do nothing: there is no connection."""


class InProcessTransport:
    """Sends requests to an ``ApiServer`` in this process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def send(self, request: Request) -> Response:
        """Send one request. The answer has the server's time, as over HTTP."""
        answer = self._server.handle(request)
        date = formatdate(self._server.store.clock(), usegmt=True)
        return replace(answer, headers={**answer.headers, "date": date})

    def stream(self, request: Request) -> Stream:
        """Open a watch."""
        try:
            return self._server.open_watch(request)
        except StatusError as error:
            return RefusedStream(refusal(error))


_LARGEST_BODY = 3 * 1024 * 1024


class HttpServer:
    """A running server. Clients connect by ``url`` or ``kubeconfig_text``; ``close`` ends it and its watches."""

    def __init__(self, app: ApiServer, host: str, port: int) -> None:
        self._http = _Listener((host, port), _Handler)
        self._http.app = app
        self._http.streams = set()
        self.port: int = self._http.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, name="apiserver", daemon=True)
        self._thread.start()

    @property
    def kubeconfig_text(self) -> str:
        """A kubeconfig with one context, ``sandbox``."""
        context = {"cluster": "sandbox", "user": "sandbox", "namespace": "default"}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "sandbox", "cluster": {"server": self.url}}],
                "users": [{"name": "sandbox", "user": {}}],
                "contexts": [{"name": "sandbox", "context": context}],
                "current-context": "sandbox",
            },
            sort_keys=False,
        )

    def close(self) -> None:
        """Stop accepting, and end open watches and connections."""
        self._http.shutdown()
        for stream in tuple(self._http.streams):
            stream.close()
        self._http.end_all()
        self._http.server_close()
        self._thread.join(timeout=5)


def serve(app: ApiServer, *, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    """Start serving ``app``. ``port`` 0: a free port."""
    return HttpServer(app, host, port)


class _Listener(BoundedHttpServer):
    most_connections = 1024
    request_s = 120.0  # longer than clients keep an idle connection
    request_queue_size = 256
    app: ApiServer
    streams: set[WatchStream]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that clients drop."""


class _Handler(BoundedHandler):
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Do not log requests."""

    def _serve(self) -> None:
        split = urlsplit(self.path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        length = int(headers.get("content-length") or 0)
        if length > _LARGEST_BODY:
            self.close_connection = True
            self._send(refusal(StatusError(413, "RequestEntityTooLarge", "the body is larger than 3 MiB")))
            return
        request = Request(
            method=self.command,
            path=split.path,
            query=dict(parse_qsl(split.query, keep_blank_values=True)),
            body=self.rfile.read(length) if length else b"",
            content_type=headers.get("content-type", ""),
        )
        self.answering()
        if self.server.app.is_watch(request):
            self._watch(request)
        else:
            self._send(self.server.app.handle(request, headers))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815 - http.server

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        self.send_header("audit-id", "00000000-0000-0000-0000-000000000000")
        self.send_header("cache-control", "no-cache, private")
        self.send_header("date", formatdate(self.server.app.store.clock(), usegmt=True))
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()

    def _send(self, answer: Response) -> None:
        self._head(answer.status, {**answer.headers, "content-length": str(len(answer.body))})
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _watch(self, request: Request) -> None:
        try:
            stream = self.server.app.open_watch(request)
        except StatusError as error:
            self._send(refusal(error))
            return
        self.server.streams.add(stream)
        try:
            self._head(200, {"content-type": "application/json", "transfer-encoding": "chunked"})
            self.wfile.flush()
            for line in stream:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            stream.close()
            self.server.streams.discard(stream)
