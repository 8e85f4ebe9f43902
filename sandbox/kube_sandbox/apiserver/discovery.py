"""Discovery: version, groups and resources of the server. Clients that ask for all of it in one answer get it in several."""

from __future__ import annotations

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
    """The answer to a plain discovery path. Raises 404."""
    found: Json | None
    match parts:
        case ["api"]:
            found = core_versions()
        case ["apis"]:
            found = group_list(registry)
        case ["apis", name]:
            found = group(registry, name)
        case ["api", version]:
            found = resource_list(registry, "", version)
        case ["apis", name, version]:
            found = resource_list(registry, name, version)
        case _:
            found = None
    if found is None:
        raise unknown_path()
    return found


def core_versions() -> Json:
    """GET /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(registry: Registry) -> Json:
    """GET /apis."""
    groups = [_group(name, versions) for name, versions in registry.versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Json | None:
    """GET /apis/GROUP, or None."""
    versions = registry.versions().get(name) if name else None
    return {**_group(name, versions), "kind": "APIGroup", "apiVersion": "v1"} if versions else None


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(registry: Registry, group_name: str, version: str) -> Json | None:
    """GET /api/v1 or /apis/GROUP/VERSION, or None."""
    found = [r for r in registry if r.group == group_name and r.version == version]
    if not found:
        return None
    entries: list[Json] = []
    for resource in sorted(found, key=lambda r: r.plural):
        entries.append(_entry(resource))
        entries += [_sub_entry(resource, name, kind, verbs) for name, kind, verbs in _subresources(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_name}/{version}" if group_name else version,
        "resources": entries,
    }


def _entry(resource: ResourceType) -> Json:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresources(resource: ResourceType) -> list[tuple[str, str, list[str]]]:
    found: list[tuple[str, str, list[str]]] = []
    for name, kind in resource.subresources:
        found.append((name, kind, ["create"]))
    if resource.scale:
        found.append(("scale", "Scale", ["get", "patch", "update"]))
    if resource.status:
        found.append(("status", resource.kind, ["get", "patch", "update"]))
    return sorted(found)


_SUB_GROUPS = {"Scale": ("autoscaling", "v1"), "Eviction": ("policy", "v1")}


def _sub_entry(resource: ResourceType, name: str, kind: str, verbs: list[str]) -> Json:
    entry: Json = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": verbs,
    }
    if kind in _SUB_GROUPS:
        entry["group"], entry["version"] = _SUB_GROUPS[kind]
    return entry
