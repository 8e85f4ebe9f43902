"""Minimal OpenAPI v3: enough for kubectl to validate on the server, to apply, and to explain.

The documents have every kind with its patch parameters. Schemas of custom resources are complete; those of built-in
kinds have only the top level. There is no v2 document; kubectl works without it.
"""

from __future__ import annotations

import hashlib

import msgspec

from kube_sandbox.apiserver.errors import Json, StatusError, unknown_path
from kube_sandbox.apiserver.registry import Registry, ResourceType
from rescheduler.kube.transport import Response


def answer(registry: Registry, rest: list[str], accept: str) -> Response:
    """GET below /openapi. Raises 404 and 406."""
    if rest[:1] != ["v3"]:
        raise StatusError(406, "NotAcceptable", "no OpenAPI v2 document is served; use /openapi/v3")
    if "json" not in accept and "*/*" not in accept and accept:
        raise StatusError(406, "NotAcceptable", "OpenAPI v3 is served as JSON only")
    if rest == ["v3"]:
        return _json(_index(registry))
    match rest[1:]:
        case ["api", version]:
            group = ""
        case ["apis", group, version]:
            pass
        case _:
            raise unknown_path()
    found = [r for r in registry if r.group == group and r.version == version]
    if not found:
        raise unknown_path()
    return _json(_document(found))


def _json(body: Json) -> Response:
    return Response(200, msgspec.json.encode(body), {"content-type": "application/json"})


def _index(registry: Registry) -> Json:
    mark = hashlib.sha256(str(registry.generation).encode()).hexdigest()[:16].upper()
    paths: Json = {}
    for group, versions in registry.versions().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
    return {"paths": paths}


def _document(found: list[ResourceType]) -> Json:
    paths: Json = {}
    schemas: Json = {}
    for resource in found:
        name = _schema_name(resource)
        schemas[name] = _schema(resource)
        if "patch" in resource.verbs:
            paths[_path(resource)] = {
                "patch": _operation(resource, "patch"),
                "get": _operation(resource, "get"),
            }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _path(resource: ResourceType) -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    middle = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{middle}/{resource.plural}/{{name}}"


def _gvk(resource: ResourceType) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: ResourceType) -> str:
    group = ".".join(reversed(resource.group.split("."))) or "io.k8s.api.core"
    return f"{group}.{resource.version}.{resource.kind}"


def _operation(resource: ResourceType, verb: str) -> Json:
    media = ["application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"]
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    operation: Json = {
        "operationId": f"{verb}{resource.kind}{resource.version}{resource.plural}",
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": _gvk(resource),
    }
    if verb == "patch":
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": kind}}
            for name, kind in (
                ("dryRun", "string"),
                ("fieldManager", "string"),
                ("fieldValidation", "string"),
                ("force", "boolean"),
            )
        ]
        operation["requestBody"] = {"content": {m: {"schema": {"type": "object"}} for m in media}}
    return operation


def _schema(resource: ResourceType) -> Json:
    schema: Json
    if resource.custom is not None:
        schema = dict(resource.custom.schema)
    else:
        schema = {
            "type": "object",
            "description": f"{resource.kind} of {resource.api_version}.",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": {"type": "object"},
                "status": {"type": "object"},
            },
        }
    schema["x-kubernetes-group-version-kind"] = [_gvk(resource)]
    return schema
