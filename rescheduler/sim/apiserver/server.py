"""The API server as one object: requests in, answers and watches out, all state inside.

Promises: no socket, no thread and no clock of its own; every answer is what a real API server would say to
the same request, as far as this project's clients can tell (``tests/conformance`` compares them).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import msgspec
import structlog

from rescheduler.kube.transport import Request, Response
from rescheduler.sim.apiserver import discovery, openapi
from rescheduler.sim.apiserver.builtin import builtin_registry
from rescheduler.sim.apiserver.definitions import Definitions
from rescheduler.sim.apiserver.endpoints import Answer, Endpoints
from rescheduler.sim.apiserver.errors import ApiError, Json, bad_request, unknown_path
from rescheduler.sim.apiserver.plugins import SYSTEM_PRIORITIES, BuiltinAdmission
from rescheduler.sim.apiserver.policies import PolicyEngine
from rescheduler.sim.apiserver.reading import Query, is_true, watch_objects
from rescheduler.sim.apiserver.routing import parse_target
from rescheduler.sim.apiserver.selecting import parse_selection
from rescheduler.sim.apiserver.showing import negotiate
from rescheduler.sim.apiserver.store import Clock, Store
from rescheduler.sim.apiserver.strategies import Strategies
from rescheduler.sim.apiserver.watching import WatchStream

_log = structlog.get_logger(__name__)
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """One embedded API server. Thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock = time.time,
        rng: random.Random | None = None,
        history_per_resource: int = 20_000,
        bookmark_every_s: float = 60.0,
    ) -> None:
        self.registry = builtin_registry()
        self.store = Store(
            clock=clock,
            rng=rng if rng is not None else random.Random(),  # noqa: S311 - identifiers, not secrets
            registry=self.registry,
            strategies=Strategies(),
            history_per_resource=history_per_resource,
        )
        self.definitions = Definitions(self.store)
        self.store.admission = BuiltinAdmission(self.store, PolicyEngine(self.store))
        self._endpoints = Endpoints(self.store)
        self._bookmark_every_s = bookmark_every_s
        self._bootstrap()

    def handle(self, request: Request, headers: Mapping[str, str] | None = None) -> Response:
        """One answer; never raises for what a client sends."""
        known = headers or {}
        try:
            answer = self._answer(request, known)
        except ApiError as error:
            return _json(error.code, error.status_object, error.headers)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            _log.warning("request with a malformed object", path=request.path, fault=repr(error))
            refused = bad_request(f"the object provided is malformed: {error!r}")
            return _json(refused.code, refused.status_object)
        if isinstance(answer, Response):
            return answer
        return _json(answer.code, answer.body, answer.headers)

    def is_watch(self, request: Request) -> bool:
        """True if the request asks for a stream of events."""
        return request.method == "GET" and is_true(request.query.get("watch", ""))

    def open_watch(self, request: Request, headers: Mapping[str, str] | None = None) -> WatchStream:
        """Opens a watch. Raises ApiError if it is refused."""
        query = _getter(request)
        target = parse_target(self.registry, request.path)
        if "watch" not in target.resource.verbs:
            raise unknown_path()
        chosen = parse_selection(query, target.namespace, target.resource.fields)
        shape = negotiate(
            (headers or {}).get("accept", ""), target.resource, self.store.clock, query("includeObject")
        )
        return watch_objects(
            self.store, target.resource, chosen, query, shape, bookmark_every_s=self._bookmark_every_s
        )

    def _answer(self, request: Request, headers: Mapping[str, str]) -> Answer | Response:
        path = request.path
        parts = path.strip("/").split("/")
        if (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and len(parts) > 3):  # noqa: PLR2004 - below a group and version
            if self.is_watch(request):
                return Response(
                    200, self.open_watch(request, headers).read_all(), {"content-type": "application/json"}
                )
            if not self._serves_group(parts):
                return _nothing()
            target = parse_target(self.registry, path)
            return self._endpoints.answer(target, request, headers.get("accept", ""))
        if request.method not in {"GET", "HEAD"}:
            return _nothing()
        return self._about(parts, headers.get("accept", ""))

    def _about(self, parts: list[str], accept: str) -> Answer | Response:
        wants_aggregated = "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")
        match parts:
            case ["version"]:
                return Answer(200, discovery.VERSION)
            case ["healthz" | "livez" | "readyz", *_]:
                return Response(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
            case ["api" | "apis"] if wants_aggregated:
                body = discovery.aggregated(self.registry, core=parts == ["api"])
                return _json(200, body, {"content-type": discovery.AGGREGATED})
            case ["openapi", *rest]:
                return openapi.answer(self.registry, rest, accept)
            case ["api" | "apis", *_] if len(parts) == 1 or self._serves_group(parts):
                return Answer(200, discovery.about(self.registry, parts))
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
