"""Discovery: version, groups and resources of the server. Clients that ask for all of it in one answer get it in several."""

from __future__ import annotations

from typing import Final

from kube_sandbox.apiserver.errors import Json, unknown_path
from kube_sandbox.apiserver.registry import Registry, ResourceType

VERSION: Json = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+kube_sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-08-26T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "any/python",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
}


def about(registry: Registry, parts: list[str]) -> Json:
    """The answer to a discovery path. Raises 404."""
    groups = {name: _group(name, versions) for name, versions in registry.versions().items() if name}
    match parts:
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
        case ["apis", name] if name in groups:
            return {**groups[name], "kind": "APIGroup", "apiVersion": "v1"}
        case ["api", version]:
            return _resource_list(registry, version)
        case ["apis", name, version]:
            return _resource_list(registry, f"{name}/{version}")
    raise unknown_path()


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(registry: Registry, api_version: str) -> Json:
    found = sorted((r for r in registry if r.api_version == api_version), key=lambda r: r.plural)
    if not found:
        raise unknown_path()
    resources = [entry for resource in found for entry in (_entry(resource), *_subresources(resource))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }


def _entry(resource: ResourceType) -> Json:
    entry = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
    }
    return {key: value for key, value in entry.items() if value != []}


def _subresources(resource: ResourceType) -> list[Json]:
    changed = ["get", "patch", "update"]
    found: list[tuple[str, str, list[str]]] = [
        (name, kind, ["create"]) for name, kind in resource.subresources
    ]
    found += [("scale", "Scale", changed)] * resource.scale + [
        ("status", resource.kind, changed)
    ] * resource.status
    return [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
            **_SUB_GROUPS.get(kind, {}),
        }
        for name, kind, verbs in sorted(found)
    ]


_SUB_GROUPS: Final = {
    "Scale": {"group": "autoscaling", "version": "v1"},
    "Eviction": {"group": "policy", "version": "v1"},
}
