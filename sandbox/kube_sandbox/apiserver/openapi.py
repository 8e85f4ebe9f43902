"""As much OpenAPI v3 as kubectl asks for before it writes: that the server validates the fields of each kind."""

from __future__ import annotations

from kube_sandbox.apiserver.errors import Json, unknown_path
from kube_sandbox.apiserver.registry import Registry, ResourceType

_MEDIA = "application/merge-patch+json"


def answer(registry: Registry, rest: list[str]) -> Json:
    """GET below /openapi. Raises 404: there is no v2, and kubectl works without it."""
    match rest:
        case ["v3"]:
            paths = {
                f"apis/{g}/{v}" if g else f"api/{v}" for g, vs in registry.versions().items() for v in vs
            }
            mark = registry.generation
            return {
                "paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}?hash={mark}"} for p in sorted(paths)}
            }
        case ["v3", "api", version]:
            group = ""
        case ["v3", "apis", group, version]:
            pass
        case _:
            raise unknown_path()
    found = [r for r in registry if (r.group, r.version) == (group, version) and "patch" in r.verbs]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": {f"/{resource.plural}/{{name}}": {"patch": _patch(resource)} for resource in found},
    }


def _patch(resource: ResourceType) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
        "requestBody": {"content": {_MEDIA: {"schema": {"type": "object"}}}},
        "responses": {},
    }
