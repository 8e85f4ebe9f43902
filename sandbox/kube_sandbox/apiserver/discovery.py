"""Discovery: version, groups and resources of the server, plain and aggregated."""

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

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


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
        verbs = {"binding": ["create"], "eviction": ["create"], "log": ["get"], "finalize": ["update"]}
        found.append((name, kind, verbs.get(name, ["get", "patch", "update"])))
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


def aggregated(registry: Registry, *, core: bool) -> Json:
    """GET /api or /apis as one ``APIGroupDiscoveryList`` (apidiscovery.k8s.io/v2)."""
    items = []
    for name, versions in registry.versions().items():
        if bool(name) is core:
            continue
        entries = [
            {"version": v, "freshness": "Current", "resources": _aggregated(registry, name, v)}
            for v in versions
        ]
        metadata: Json = {"creationTimestamp": None}
        if name:
            metadata["name"] = name
        items.append({"metadata": metadata, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated(registry: Registry, group_name: str, version: str) -> list[Json]:
    found = [r for r in registry if r.group == group_name and r.version == version]
    entries = []
    for resource in sorted(found, key=lambda r: r.plural):
        entry: Json = {
            "resource": resource.plural,
            "responseKind": _kind(resource.group, resource.version, resource.kind),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular_name,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.short_names),
            "categories": list(resource.categories),
            "subresources": [
                {"subresource": name, "responseKind": _sub_kind(resource, kind), "verbs": verbs}
                for name, kind, verbs in _subresources(resource)
            ],
        }
        entries.append({key: value for key, value in entry.items() if value != []})
    return entries


def _sub_kind(resource: ResourceType, kind: str) -> Json:
    group_name, version = _SUB_GROUPS.get(kind, (resource.group, resource.version))
    return _kind(group_name, version, kind)


def _kind(group_name: str, version: str, kind: str) -> Json:
    return {"group": group_name, "version": version, "kind": kind}
