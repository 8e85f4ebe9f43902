"""Handlers: dispatch of a request by verb and subresource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kube_sandbox.apiserver import write_handlers
from kube_sandbox.apiserver.errors import (
    Json,
    bad_request,
    method_not_allowed,
    not_found,
    unknown_path,
)
from kube_sandbox.apiserver.eviction import bind, evict
from kube_sandbox.apiserver.json_values import dig
from kube_sandbox.apiserver.read_handlers import Query, list_objects
from kube_sandbox.apiserver.request_parsing import (
    RequestInfo,
    check_identity,
    decode_object,
    decode_value,
    delete_options,
    is_dry_run,
    patch_type,
)
from kube_sandbox.apiserver.request_selectors import parse_predicate
from kube_sandbox.apiserver.store import ObjectStore
from kube_sandbox.apiserver.tables import ResponseForm
from rescheduler.kube.transport import Request, Response


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """A response with a JSON body."""

    code: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


class Handlers:
    """Handles all requests below a group and version."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def answer(self, target: RequestInfo, request: Request, accept: str) -> JsonAnswer | Response:
        """The response to one request. Raises StatusError."""

        def query(name: str) -> str:
            return request.query.get(name, "")

        resource = target.resource
        if target.subresource and not _serves(target):
            raise unknown_path()
        shape = ResponseForm(resource, accept, self._store.clock)
        if not target.name:
            return self._collection(target, request, query, shape)
        if target.subresource in {"binding", "eviction"}:
            return self._pod_action(target, request, query)
        if target.subresource == "scale":
            return self._scale(target, request, query)
        return self._object(target, request, query, shape)

    def _collection(
        self, target: RequestInfo, request: Request, query: Query, shape: ResponseForm
    ) -> JsonAnswer:
        resource, store = target.resource, self._store
        if request.method == "POST":
            if "list" not in resource.verbs:
                body = decode_object(request.body, request.content_type)
                check_identity(resource, body)
                # The only user of the sandbox is allowed everything.
                return JsonAnswer(201, {"metadata": {}, **body, "status": {"allowed": True}})
            obj = write_handlers.create(store, target, request.body, request.content_type, query)
            return JsonAnswer(201, shape.one(self._shown(target, obj)))
        chosen = parse_predicate(query, target.namespace, resource.fields)
        if request.method == "GET" and "list" in resource.verbs:
            return JsonAnswer(200, list_objects(store, resource, chosen, query, shape))
        raise method_not_allowed()

    def _object(self, target: RequestInfo, request: Request, query: Query, shape: ResponseForm) -> JsonAnswer:
        store, resource = self._store, target.resource
        body, content_type = request.body, request.content_type
        if request.method == "GET":
            found = store.find(resource.table, target.namespace, target.name)
            if found is None:
                raise not_found(resource.group, resource.plural, target.name)
            return JsonAnswer(200, shape.one(self._shown(target, found)))
        if request.method == "PUT":
            obj = write_handlers.update(store, target, body, content_type, query)
            return JsonAnswer(200, shape.one(self._shown(target, obj)))
        if request.method == "PATCH":
            obj, made = write_handlers.patch(store, target, body, content_type, query)
            return JsonAnswer(201 if made else 200, shape.one(self._shown(target, obj)))
        if request.method == "DELETE" and not target.subresource:
            code, result = write_handlers.remove(store, target, body, content_type, query)
            if result.get("kind") == "Status":
                return JsonAnswer(code, result)
            return JsonAnswer(code, shape.one(self._shown(target, result)))
        raise method_not_allowed()

    def _pod_action(self, target: RequestInfo, request: Request, query: Query) -> JsonAnswer:
        if request.method != "POST":
            raise method_not_allowed()
        body = decode_object(request.body, request.content_type)
        if target.subresource == "binding":
            bind(self._store, target.namespace, target.name, body, dry_run=is_dry_run(query))
            return JsonAnswer(201, _success(201))
        name = dig(body, "metadata", "name")
        if name and name != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = delete_options(body.get("deleteOptions") or {}, query)
        if (body.get("deleteOptions") or {}).get("dryRun") not in (None, []) and query("dryRun") == "":
            options = replace(options, dry_run=True)
        evict(self._store, target.namespace, target.name, options)
        return JsonAnswer(201, _success(201))

    def _scale(self, target: RequestInfo, request: Request, query: Query) -> JsonAnswer:
        store, resource = self._store, target.resource
        if request.method == "GET":
            found = store.get(resource.name, target.namespace, target.name)
            return JsonAnswer(200, write_handlers.get_scale(resource, found))
        if request.method == "PUT":
            wanted = decode_object(request.body, request.content_type)
            return JsonAnswer(200, write_handlers.set_scale(store, target, lambda _: wanted, query))
        if request.method == "PATCH":
            plain = replace(resource, encode=None, decode=None)
            change = write_handlers.change_of(
                plain, patch_type(request.content_type), decode_value(request.body)
            )
            return JsonAnswer(200, write_handlers.set_scale(store, target, change, query))
        raise method_not_allowed()

    @staticmethod
    def _shown(target: RequestInfo, obj: Json) -> Json:
        return target.resource.encode(obj) if target.resource.encode else obj


def _serves(target: RequestInfo) -> bool:
    resource, wanted = target.resource, target.subresource
    if wanted == "status":
        return resource.status
    if wanted == "scale":
        return resource.scale
    return any(name == wanted for name, _ in resource.subresources)


def _success(code: int) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
