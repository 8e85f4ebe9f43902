"""Handlers: a request by verb and subresource: create, update, patch and delete, status and scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

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
from kube_sandbox.apiserver.selectors import Query, parse_predicate
from kube_sandbox.apiserver.store import ObjectStore, WriteOptions
from kube_sandbox.apiserver.tables import ResponseForm
from kube_sandbox.apiserver.watch import list_objects
from rescheduler.kube.transport import Request, Response


def json_response(code: int, body: Json, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON body."""
    found = {"content-type": "application/json", **{k.lower(): v for k, v in (headers or {}).items()}}
    return Response(code, msgspec.json.encode(body), found)


def refusal(error: StatusError) -> Response:
    """The response to a rejected request."""
    return json_response(error.code, error.status_object, error.headers)


def answer(store: ObjectStore, target: RequestInfo, request: Request, accept: str) -> Response:
    """The response to one request below a group and version. Raises StatusError."""
    if target.subresource and not _serves(target):
        raise unknown_path()
    form = ResponseForm(target.resource, accept, store.clock)
    if not target.name:
        return _collection(store, target, request, form)
    if target.subresource in {"binding", "eviction"}:
        return _pod_action(store, target, request)
    if target.subresource == "scale":
        return _scale(store, target, request)
    return _object(store, target, request, form)


def _collection(store: ObjectStore, target: RequestInfo, request: Request, form: ResponseForm) -> Response:
    resource = target.resource
    if request.method == "POST":
        if "list" not in resource.verbs:
            body = decode_object(request.body, request.content_type)
            check_identity(resource, body)
            # The only user of the sandbox is allowed everything.
            return json_response(201, {"metadata": {}, **body, "status": {"allowed": True}})
        return json_response(201, form.one(_create(store, target, request)))
    chosen = parse_predicate(request.query, target.namespace, resource.fields)
    if request.method == "GET" and "list" in resource.verbs:
        return json_response(200, list_objects(store, resource, chosen, request.query, form))
    raise method_not_allowed()


def _object(store: ObjectStore, target: RequestInfo, request: Request, form: ResponseForm) -> Response:
    code, resource = 200, target.resource
    match request.method:
        case "GET":
            found = store.find(resource.table, target.namespace, target.name)
            if found is None:
                raise not_found(resource.group, resource.plural, target.name)
        case "PUT":
            found = _update(store, target, request)
        case "PATCH":
            found, made = _patch(store, target, request)
            code = 201 if made else 200
        case "DELETE" if not target.subresource:
            found = _delete(store, target, request)
            if found.get("kind") == "Status":
                return json_response(200, found)
        case _:
            raise method_not_allowed()
    return json_response(code, form.one(found))


def _pod_action(store: ObjectStore, target: RequestInfo, request: Request) -> Response:
    if request.method != "POST":
        raise method_not_allowed()
    body, query = decode_object(request.body, request.content_type), request.query
    if target.subresource == "binding":
        bind(store, target.namespace, target.name, body, dry_run=is_dry_run(query))
        return json_response(201, _success(201))
    name = dig(body, "metadata", "name")
    if name and name != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    given = body.get("deleteOptions") or {}
    tried = is_dry_run(query) or bool(given.get("dryRun"))  # the query is that of the Eviction's creation
    options = replace(delete_options(given, query), dry_run=tried)
    evict(store, target.namespace, target.name, options)
    return json_response(201, _success(201))


def _scale(store: ObjectStore, target: RequestInfo, request: Request) -> Response:
    resource = target.resource
    if request.method == "GET":
        return json_response(
            200, get_scale(resource, store.get(resource.name, target.namespace, target.name))
        )
    if request.method == "PUT":
        wanted = decode_object(request.body, request.content_type)
        return json_response(200, _set_scale(store, target, lambda _: wanted, request.query))
    if request.method == "PATCH":
        plain = replace(resource, encode=None, decode=None)
        change = change_of(plain, patch_type(request.content_type), decode_value(request.body))
        return json_response(200, _set_scale(store, target, change, request.query))
    raise method_not_allowed()


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


def _read(target: RequestInfo, request: Request) -> Json:
    """The object of a body, in the stored form."""
    resource = target.resource
    obj = decode_object(request.body, request.content_type)
    check_identity(resource, obj)
    check_fields(resource, obj, request.query)
    return resource.decode(obj) if resource.decode is not None else obj


def _create(store: ObjectStore, target: RequestInfo, request: Request) -> Json:
    if target.resource.namespaced and not target.namespace:
        raise StatusError(405, "MethodNotAllowed", "a namespace is needed to create this kind")
    obj = _read(target, request)
    meta(obj).pop("managedFields", None)
    options = WriteOptions(dry_run=is_dry_run(request.query))
    return store.create(target.resource, target.namespace, obj, options)


def _update(store: ObjectStore, target: RequestInfo, request: Request) -> Json:
    new = _read(target, request)
    options = WriteOptions(
        dry_run=is_dry_run(request.query), subresource=target.subresource, uid_is_precondition=True
    )
    return store.update(target.resource, target.namespace, target.name, lambda _: new, options)


def _patch(store: ObjectStore, target: RequestInfo, request: Request) -> tuple[Json, bool]:
    """A patch of any type; returns the object, and whether server-side apply created it."""
    resource, query = target.resource, request.query
    media = patch_type(request.content_type)
    if media == _APPLY:
        return _apply(store, target, request.body, query)
    asked = change_of(resource, media, decode_value(request.body))

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
    if not query.get("fieldManager"):
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


def _delete(store: ObjectStore, target: RequestInfo, request: Request) -> Json:
    """The object that was deleted or is terminating, or a Status."""
    resource = target.resource
    body = decode_object(request.body, request.content_type) if request.body else {}
    options = delete_options(body, request.query)
    done = delete(store, resource, target.namespace, target.name, options)
    if not done.gone or resource.returns_deleted:
        return done.obj
    metadata = done.obj["metadata"]
    details = {"name": metadata["name"], "kind": resource.plural, "uid": metadata["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


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


def _set_scale(store: ObjectStore, target: RequestInfo, change: Callable[[Json], Json], query: Query) -> Json:
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
