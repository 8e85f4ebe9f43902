"""Apply configurations, of requests and of admission policies: merged by the keys of lists, without ownership of fields.

So an apply never conflicts here, and what is no longer applied stays; a real server tells managers apart.
"""

from __future__ import annotations

import json
from typing import Any, Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.json_values import deep_copy
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.strategic_merge_patch import merge_keys, merges_as_set
from rescheduler.errors import ReschedulerError

_IDENTITY: Final = frozenset({"apiVersion", "kind"})
_SYSTEM: Final = frozenset({"creationTimestamp", "generation", "managedFields"})
_ATOMIC_MAPS: Final = frozenset({"nodeSelector", "labelSelector", "matchLabels", "selector"})


class AtomicChange(ReschedulerError):  # noqa: N818 - names what was tried
    """An apply configuration of a policy sets an atomic list or map."""


def apply_patch(resource: ResourceType, current: Json, applied: Json) -> Json:
    """``current`` merged with what a client applies."""
    wanted = {key: value for key, value in applied.items() if key not in _IDENTITY}
    wanted["metadata"] = {k: v for k, v in applied["metadata"].items() if k not in _SYSTEM}
    merged: Json = _merge(current, wanted, "", "", resource)
    return merged


def merge_applied(resource: ResourceType, current: Json, applied: Json) -> Json:
    """``current`` merged with a policy's apply configuration. Raises AtomicChange, which a real server rejects too."""
    wanted = {key: value for key, value in applied.items() if key not in _IDENTITY}
    _refuse_atomic(wanted, "", "", resource, "")
    merged: Json = _merge(current, wanted, "", "", resource)
    return merged


def _refuse_atomic(value: Any, field: str, parent: str, resource: ResourceType, path: str) -> None:
    refused = AtomicChange(f"may not mutate atomic arrays, maps or structs: {path}")
    if isinstance(value, dict):
        if field in _ATOMIC_MAPS:
            raise refused
        for key, below in value.items():
            _refuse_atomic(below, key, field, resource, f"{path}.{key}")
    elif isinstance(value, list):
        if not (_keys(resource, field, parent) or merges_as_set(field)):
            raise refused
        for item in value:
            _refuse_atomic(item, field, field, resource, path)


def _keys(resource: ResourceType, field: str, parent: str) -> tuple[str, ...]:
    """Merge keys of a list: from the schema of a custom resource, else from the built-in table."""
    if resource.custom is not None and field != "ownerReferences":
        return resource.custom.list_keys(field)
    return merge_keys(field, parent, apply=True)


def _merge(current: Any, wanted: Any, field: str, parent: str, resource: ResourceType) -> Any:
    if isinstance(wanted, dict):
        result = deep_copy(current) if isinstance(current, dict) else {}
        for key, value in wanted.items():
            result[key] = _merge(result.get(key), value, key, field, resource)
        return result
    if isinstance(wanted, list) and isinstance(current, list):
        keys = _keys(resource, field, parent)
        if keys and all(isinstance(item, dict) for item in wanted):
            return _merge_keyed(current, wanted, keys, field, resource)
        if merges_as_set(field):
            return [*deep_copy(current), *(item for item in wanted if item not in current)]
    return deep_copy(wanted)


def _merge_keyed(
    current: list[Any], wanted: list[Any], keys: tuple[str, ...], field: str, resource: ResourceType
) -> list[Any]:
    result = deep_copy(current)
    places = {_identity(item, keys): index for index, item in enumerate(result)}
    for item in wanted:
        index = places.get(_identity(item, keys))
        if index is None:
            result.append(deep_copy(item))
        else:
            result[index] = _merge(result[index], item, field, field, resource)
    return list(result)


def _identity(item: Json, keys: tuple[str, ...]) -> str:
    chosen = {key: item[key] for key in keys if key in item}
    if "protocol" in keys:
        chosen.setdefault("protocol", "TCP")
    return json.dumps(chosen, sort_keys=True)
