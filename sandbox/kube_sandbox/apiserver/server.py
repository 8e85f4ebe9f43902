"""The API server of the sandbox, without sockets and threads, and a ``Transport`` to it within the process.

Every response is that of a real API server to the same request, as far as the clients of this project can observe
(``tests/conformance`` compares them).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from email.utils import formatdate

import msgspec
import structlog

from kube_sandbox.apiserver import discovery, openapi
from kube_sandbox.apiserver.admission import acting_as, managing
from kube_sandbox.apiserver.admission_plugins import SYSTEM_PRIORITIES, BuiltinAdmission
from kube_sandbox.apiserver.admission_policies import PolicyEngine
from kube_sandbox.apiserver.builtin_resources import builtin_registry
from kube_sandbox.apiserver.definitions import Definitions
from kube_sandbox.apiserver.errors import Json, StatusError, bad_request, unknown_path
from kube_sandbox.apiserver.handlers import Handlers, JsonAnswer
from kube_sandbox.apiserver.read_handlers import Query, is_true, watch_objects
from kube_sandbox.apiserver.request_parsing import parse_request_info
from kube_sandbox.apiserver.request_selectors import parse_predicate
from kube_sandbox.apiserver.store import Clock, ObjectStore
from kube_sandbox.apiserver.strategies import Strategies
from kube_sandbox.apiserver.tables import ResponseForm
from kube_sandbox.apiserver.watch import WatchStream
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
        history_per_resource: int = 20_000,
        bookmark_every_s: float = 60.0,
    ) -> None:
        self.registry = builtin_registry()
        self.store = ObjectStore(
            clock=clock,
            rng=rng if rng is not None else random.Random(),  # noqa: S311 - identifiers, not secrets
            registry=self.registry,
            strategies=Strategies(),
            history_per_resource=history_per_resource,
        )
        self.definitions = Definitions(self.store)
        self.store.admission = BuiltinAdmission(self.store, PolicyEngine(self.store))
        self._endpoints = Handlers(self.store)
        self._bookmark_every_s = bookmark_every_s
        self._bootstrap()

    def handle(self, request: Request, headers: Mapping[str, str] | None = None) -> Response:
        """The response to one request. A malformed request never raises."""
        known = headers or {}
        try:
            user = known.get("impersonate-user", "")
            manager = request.query.get("fieldManager", "")
            with acting_as(user) if user else nullcontext(), managing(manager):
                answer = self._answer(request, known)
        except StatusError as error:
            return _json(error.code, error.status_object, error.headers)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            _log.warning("request with a malformed object", path=request.path, fault=repr(error))
            refused = bad_request(f"the object provided is malformed: {error!r}")
            return _json(refused.code, refused.status_object)
        if isinstance(answer, Response):
            return answer
        return _json(answer.code, answer.body, answer.headers)

    def is_watch(self, request: Request) -> bool:
        """True if the request is a watch."""
        return request.method == "GET" and is_true(request.query.get("watch", ""))

    def open_watch(self, request: Request, headers: Mapping[str, str] | None = None) -> WatchStream:
        """Opens a watch. Raises StatusError if it is refused."""
        query = _getter(request)
        target = parse_request_info(self.registry, request.path)
        if "watch" not in target.resource.verbs:
            raise unknown_path()
        chosen = parse_predicate(query, target.namespace, target.resource.fields)
        shape = ResponseForm(target.resource, (headers or {}).get("accept", ""), self.store.clock)
        return watch_objects(
            self.store, target.resource, chosen, query, shape, bookmark_every_s=self._bookmark_every_s
        )

    def _answer(self, request: Request, headers: Mapping[str, str]) -> JsonAnswer | Response:
        path = request.path
        parts = path.strip("/").split("/")
        if (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and len(parts) > 3):  # noqa: PLR2004 - below a group and version
            if self.is_watch(request):
                return Response(
                    200, self.open_watch(request, headers).read_all(), {"content-type": "application/json"}
                )
            if not self._serves_group(parts):
                return _nothing()
            target = parse_request_info(self.registry, path)
            return self._endpoints.answer(target, request, headers.get("accept", ""))
        if request.method not in {"GET", "HEAD"}:
            return _nothing()
        return self._about(parts)

    def _about(self, parts: list[str]) -> JsonAnswer | Response:
        match parts:
            case ["version"]:
                return JsonAnswer(200, discovery.VERSION)
            case ["healthz" | "livez" | "readyz", *_]:
                return Response(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
            case ["openapi", *rest]:
                return JsonAnswer(200, openapi.answer(self.registry, rest))
            case ["api" | "apis", *_] if len(parts) == 1 or self._serves_group(parts):
                return JsonAnswer(200, discovery.about(self.registry, parts))
            case _:
                return _nothing()

    def _serves_group(self, parts: list[str]) -> bool:
        """True if the group, and the version if there is one, is served."""
        group, versions = ("", parts[1:2]) if parts[0] == "api" else (parts[1], parts[2:3])
        served = self.registry.versions().get(group)
        return served is not None and (not versions or versions[0] in served)

    def _bootstrap(self) -> None:
        namespaces = self.registry.named("namespaces")
        for name in _NAMESPACES:
            self.store.create(namespaces, "", {"metadata": {"name": name}})
        classes = self.registry.named("priorityclasses.scheduling.k8s.io")
        for name, value in SYSTEM_PRIORITIES.items():
            self.store.create(classes, "", {"metadata": {"name": name}, "value": value})


def _getter(request: Request) -> Query:
    return lambda name: request.query.get(name, "")


def _nothing() -> Response:
    return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})


def _json(code: int, body: Json, headers: Mapping[str, str] | None = None) -> Response:
    found = {"content-type": "application/json", **{k.lower(): v for k, v in (headers or {}).items()}}
    return Response(code, msgspec.json.encode(body), found)


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
        except StatusError:
            return RefusedStream(self._server.handle(request))
