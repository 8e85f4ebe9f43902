"""Which function answers which verb on which subresource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rescheduler.kube.transport import Request, Response
from rescheduler.sim.apiserver import writing
from rescheduler.sim.apiserver.bodies import (
    check_identity,
    decode_object,
    decode_value,
    delete_options,
    is_dry_run,
    patch_type,
)
from rescheduler.sim.apiserver.errors import (
    Json,
    bad_request,
    method_not_allowed,
    not_found,
    unknown_path,
)
from rescheduler.sim.apiserver.eviction import bind, evict
from rescheduler.sim.apiserver.jsonpath import deep_copy, dig
from rescheduler.sim.apiserver.reading import Query, list_objects
from rescheduler.sim.apiserver.reviews import review
from rescheduler.sim.apiserver.routing import Target
from rescheduler.sim.apiserver.selecting import parse_selection
from rescheduler.sim.apiserver.showing import Shape, negotiate
from rescheduler.sim.apiserver.store import Store, Write


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a JSON body."""

    code: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


class Endpoints:
    """Answers everything below a group and version."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def answer(self, target: Target, request: Request, accept: str) -> Answer | Response:
        """The answer to one request. Raises ApiError."""

        def query(name: str) -> str:
            return request.query.get(name, "")

        resource = target.resource
        if target.subresource and not _serves(target):
            raise unknown_path()
        shape = negotiate(accept, resource, self._store.clock, query("includeObject"))
        if not target.name:
            return self._collection(target, request, query, shape)
        if target.subresource == "log":
            return self._log(target, request)
        if target.subresource in {"binding", "eviction"}:
            return self._pod_action(target, request, query)
        if target.subresource == "scale":
            return self._scale(target, request, query)
        if target.subresource == "finalize":
            return self._finalize(target, request, query)
        return self._object(target, request, query, shape)

    def _collection(self, target: Target, request: Request, query: Query, shape: Shape) -> Answer:
        resource, store = target.resource, self._store
        if request.method == "POST":
            if "list" not in resource.verbs:
                return self._virtual(target, request, query)
            obj = writing.create(store, target, request.body, request.content_type, query)
            return Answer(201, shape.one(self._shown(target, obj)))
        chosen = parse_selection(query, target.namespace, resource.fields)
        if request.method == "GET" and "list" in resource.verbs:
            return Answer(200, list_objects(store, resource, chosen, query, shape))
        if request.method == "DELETE" and "deletecollection" in resource.verbs:
            gone = writing.remove_collection(
                store, target, request.body, request.content_type, query, chosen=chosen
            )
            metadata = {"resourceVersion": str(store.objects.version)}
            return Answer(200, shape.many([self._shown(target, obj) for obj in gone], metadata))
        raise method_not_allowed()

    def _virtual(self, target: Target, request: Request, query: Query) -> Answer:
        body = decode_object(request.body, request.content_type)
        check_identity(target.resource, body)
        if target.resource.kind == "Binding":
            bind(
                self._store,
                target.namespace,
                dig(body, "metadata", "name") or "",
                body,
                dry_run=is_dry_run(query),
            )
            return Answer(201, _success(201))
        return Answer(201, review(target.resource, body))

    def _object(self, target: Target, request: Request, query: Query, shape: Shape) -> Answer:
        store, resource = self._store, target.resource
        body, content_type = request.body, request.content_type
        if request.method == "GET":
            found = store.find(resource.table, target.namespace, target.name)
            if found is None:
                raise not_found(resource.group, resource.plural, target.name)
            return Answer(200, shape.one(self._shown(target, found)))
        if request.method == "PUT":
            obj = writing.update(store, target, body, content_type, query)
            return Answer(200, shape.one(self._shown(target, obj)))
        if request.method == "PATCH":
            obj, made = writing.patch(store, target, body, content_type, query)
            return Answer(201 if made else 200, shape.one(self._shown(target, obj)))
        if request.method == "DELETE" and not target.subresource:
            code, result = writing.remove(store, target, body, content_type, query)
            if result.get("kind") == "Status":
                return Answer(code, result)
            return Answer(code, shape.one(self._shown(target, result)))
        raise method_not_allowed()

    def _pod_action(self, target: Target, request: Request, query: Query) -> Answer:
        if request.method != "POST":
            raise method_not_allowed()
        body = decode_object(request.body, request.content_type)
        if target.subresource == "binding":
            bind(self._store, target.namespace, target.name, body, dry_run=is_dry_run(query))
            return Answer(201, _success(201))
        name = dig(body, "metadata", "name")
        if name and name != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = delete_options(body.get("deleteOptions") or {}, query)
        if (body.get("deleteOptions") or {}).get("dryRun") not in (None, []) and query("dryRun") == "":
            options = replace(options, dry_run=True)
        evict(self._store, target.namespace, target.name, options)
        return Answer(201, _success(201))

    def _scale(self, target: Target, request: Request, query: Query) -> Answer:
        store, resource = self._store, target.resource
        if request.method == "GET":
            found = store.get(resource.name, target.namespace, target.name)
            return Answer(200, writing.get_scale(resource, found))
        if request.method == "PUT":
            wanted = decode_object(request.body, request.content_type)
            return Answer(200, writing.set_scale(store, target, lambda _: wanted, query))
        if request.method == "PATCH":
            plain = replace(resource, encode=None, decode=None)
            change = writing.change_of(plain, patch_type(request.content_type), decode_value(request.body))
            return Answer(200, writing.set_scale(store, target, change, query))
        raise method_not_allowed()

    def _finalize(self, target: Target, request: Request, query: Query) -> Answer:
        if request.method != "PUT":
            raise method_not_allowed()
        body = decode_object(request.body, request.content_type)

        def finalized(current: Json) -> Json:
            new = deep_copy(current)
            new.setdefault("spec", {})["finalizers"] = dig(body, "spec", "finalizers") or []
            return new

        options = Write(dry_run=is_dry_run(query), subresource="finalize")
        return Answer(200, self._store.update(target.resource, "", target.name, finalized, options))

    def _log(self, target: Target, request: Request) -> Response:
        if request.method != "GET":
            raise method_not_allowed()
        self._store.get("pods", target.namespace, target.name)
        return Response(200, b"", {"content-type": "text/plain"})

    @staticmethod
    def _shown(target: Target, obj: Json) -> Json:
        return target.resource.encode(obj) if target.resource.encode else obj


def _serves(target: Target) -> bool:
    resource, wanted = target.resource, target.subresource
    if wanted == "status":
        return resource.status
    if wanted == "scale":
        return resource.scale
    return any(name == wanted for name, _ in resource.subresources)


def _success(code: int) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
