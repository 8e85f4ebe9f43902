"""Handlers: dispatch of a request by verb and subresource; create, update, patch and delete, status and scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kube_sandbox.apiserver.deletion import bind, delete, evict
from kube_sandbox.apiserver.errors import (
    Json,
    StatusError,
    bad_options,
    bad_request,
    invalid,
    invalid_value,
    method_not_allowed,
    not_found,
    required,
    unknown_path,
    unsupported_media,
)
from kube_sandbox.apiserver.json_values import deep_copy, dig, meta
from kube_sandbox.apiserver.patches import json_patch, merge_patch, strategic_patch
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.requests import (
    RequestInfo,
    check_fields,
    check_identity,
    decode_object,
    decode_value,
    delete_options,
    is_dry_run,
    patch_type,
)
from kube_sandbox.apiserver.selectors import parse_predicate
from kube_sandbox.apiserver.store import ObjectStore, WriteOptions
from kube_sandbox.apiserver.tables import ResponseForm
from kube_sandbox.apiserver.watch import Query, list_objects
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
            obj = create(store, target, request.body, request.content_type, query)
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
            obj = update(store, target, body, content_type, query)
            return JsonAnswer(200, shape.one(self._shown(target, obj)))
        if request.method == "PATCH":
            obj, made = patch(store, target, body, content_type, query)
            return JsonAnswer(201 if made else 200, shape.one(self._shown(target, obj)))
        if request.method == "DELETE" and not target.subresource:
            code, result = remove(store, target, body, content_type, query)
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
            return JsonAnswer(200, get_scale(resource, found))
        if request.method == "PUT":
            wanted = decode_object(request.body, request.content_type)
            return JsonAnswer(200, set_scale(store, target, lambda _: wanted, query))
        if request.method == "PATCH":
            plain = replace(resource, encode=None, decode=None)
            change = change_of(plain, patch_type(request.content_type), decode_value(request.body))
            return JsonAnswer(200, set_scale(store, target, change, query))
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


_APPLY = "application/apply-patch+yaml"


def create(store: ObjectStore, target: RequestInfo, body: bytes, content_type: str, query: Query) -> Json:
    """POST to a collection."""
    resource = target.resource
    obj = decode_object(body, content_type)
    check_identity(resource, obj)
    namespace = target.namespace
    if resource.namespaced and not namespace:
        raise StatusError(405, "MethodNotAllowed", "a namespace is needed to create this kind")
    check_fields(resource, obj, query)
    if resource.decode is not None:
        obj = resource.decode(obj)
    meta(obj).pop("managedFields", None)
    return store.create(resource, namespace, obj, WriteOptions(dry_run=is_dry_run(query)))


def update(store: ObjectStore, target: RequestInfo, body: bytes, content_type: str, query: Query) -> Json:
    """PUT of an object or its status."""
    resource = target.resource
    new = decode_object(body, content_type)
    check_identity(resource, new)
    check_fields(resource, new, query)
    if resource.decode is not None:
        new = resource.decode(new)
    options = WriteOptions(
        dry_run=is_dry_run(query), subresource=target.subresource, uid_is_precondition=True
    )
    return store.update(resource, target.namespace, target.name, lambda _: new, options)


def patch(
    store: ObjectStore, target: RequestInfo, body: bytes, content_type: str, query: Query
) -> tuple[Json, bool]:
    """PATCH of any type; returns the object, and whether server-side apply created it."""
    resource = target.resource
    media = patch_type(content_type)
    if media == _APPLY:
        return _apply(store, target, body, query)
    asked = change_of(resource, media, decode_value(body))

    def change(current: Json) -> Json:
        changed = asked(current)
        check_fields(resource, changed, query)
        return changed

    options = WriteOptions(dry_run=is_dry_run(query), subresource=target.subresource)
    return store.update(resource, target.namespace, target.name, change, options), False


def change_of(resource: ResourceType, media: str, value: Any) -> Callable[[Json], Json]:
    """The function that applies a patch. Raises 400 and 415."""
    if media == "application/json-patch+json":
        return _in_version(resource, lambda current: json_patch(current, value))
    if not isinstance(value, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into an object")
    if media == "application/merge-patch+json":
        return _in_version(resource, lambda current: merge_patch(current, value))
    if resource.schema is not None:
        raise unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    return _in_version(resource, lambda current: strategic_patch(current, value))


def _in_version(resource: ResourceType, change: Callable[[Json], Json]) -> Callable[[Json], Json]:
    def changed(current: Json) -> Json:
        shown = resource.encode(current) if resource.encode else current
        result = change(shown)
        meta(result)
        return resource.decode(result) if resource.decode else result

    return changed


def _apply(store: ObjectStore, target: RequestInfo, body: bytes, query: Query) -> tuple[Json, bool]:
    if not query("fieldManager"):
        raise bad_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    resource, applied = target.resource, decode_object(body, "")
    check_identity(resource, applied)
    meta(applied).setdefault("name", target.name)
    options = WriteOptions(dry_run=is_dry_run(query), subresource=target.subresource)

    # Lists merge by their keys, without ownership of fields: an apply never conflicts, and what is no longer applied stays.
    merge = merge_patch if resource.schema is not None else strategic_patch
    wanted = {key: value for key, value in applied.items() if key not in ("apiVersion", "kind")}

    def change(current: Json) -> Json:
        merged: Json = merge(current, wanted)
        return merged

    with store.lock:
        if store.find(resource.table, target.namespace, target.name) is not None:
            return store.update(resource, target.namespace, target.name, change, options), False
        if target.subresource or applied["metadata"].get("uid"):
            raise not_found(resource.group, resource.plural, target.name)
        fresh = change({"metadata": {"name": target.name}})
        return store.create(resource, target.namespace, fresh, options), True


def remove(
    store: ObjectStore, target: RequestInfo, body: bytes, content_type: str, query: Query
) -> tuple[int, Json]:
    """DELETE of one object; returns the HTTP status and the body."""
    resource = target.resource
    options = delete_options(decode_object(body, content_type) if body else {}, query)
    done = delete(store, resource, target.namespace, target.name, options)
    if not done.gone or resource.returns_deleted:
        return 200, done.obj
    metadata = done.obj["metadata"]
    details = {"name": metadata["name"], "kind": resource.plural, "uid": metadata["uid"]}
    if resource.group:
        details["group"] = resource.group
    return 200, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def get_scale(resource: ResourceType, obj: Json) -> Json:
    """The Scale of a workload (autoscaling/v1)."""
    metadata = obj["metadata"]
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kept = {
        k: metadata[k]
        for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if k in metadata
    }
    scale: Json = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    selector = spec.get("selector") or {}
    labels = selector.get("matchLabels", selector) if resource.group else selector
    if isinstance(labels, dict) and labels:
        scale["status"]["selector"] = ",".join(f"{k}={v}" for k, v in sorted(labels.items()))
    return scale


def set_scale(store: ObjectStore, target: RequestInfo, change: Callable[[Json], Json], query: Query) -> Json:
    """Write ``spec.replicas`` of a Scale to its workload."""
    resource = target.resource

    def changed(current: Json) -> Json:
        scale = change(get_scale(resource, current))
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            fault = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", target.name, [fault])
        wanted = deep_copy(current)
        wanted["spec"]["replicas"] = replicas
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version:
            wanted["metadata"]["resourceVersion"] = version
        return wanted

    options = WriteOptions(dry_run=is_dry_run(query))
    return get_scale(resource, store.update(resource, target.namespace, target.name, changed, options))
