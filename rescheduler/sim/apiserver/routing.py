"""From the path of a request to what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from rescheduler.sim.apiserver.errors import unknown_path
from rescheduler.sim.apiserver.resources import Registry, ResourceType

_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class Target:
    """A resource, and how far the path goes into it. Empty ``name``: the collection."""

    resource: ResourceType
    namespace: str
    name: str
    subresource: str


def parse_target(registry: Registry, path: str) -> Target:
    """The target of a path below /api or /apis. Raises 404."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > _MOST_PARTS:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise unknown_path()
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in {"status", "finalize"}:  # noqa: PLR2004 - namespaces/NS/RESOURCE
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > _MOST_PARTS:
        raise unknown_path()
    plural, name, subresource = [*rest, "", ""][:3]
    resource = registry.find(group, version, plural)
    if resource is None or bool(namespace) > resource.namespaced:
        raise unknown_path()
    if resource.namespaced and not namespace and name:
        raise unknown_path()
    return Target(resource, namespace, name, subresource)
