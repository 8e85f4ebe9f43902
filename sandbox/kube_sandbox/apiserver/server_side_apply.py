"""Server-side apply: merge by keys, field ownership, conflicts, removal of fields that are no longer applied.

``metadata.managedFields`` has only the managers that apply. On a real server other writers own fields too, so here
an apply succeeds in a few cases in which a real server needs ``force``.
"""

from __future__ import annotations

import json
from typing import Any

from kube_sandbox.apiserver.errors import Json, StatusError
from kube_sandbox.apiserver.json_values import deep_copy, meta
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.strategic_merge_patch import merge_keys, merges_as_set
from rescheduler.errors import ReschedulerError

_IDENTITY = frozenset({"apiVersion", "kind"})
_IDENTITY_META = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}
)
Path = tuple[str, ...]
_Keys = tuple[str, ...]


def drop_ownership(obj: Json) -> None:
    """Remove the managedFields that a client sent with a creation."""
    meta(obj).pop("managedFields", None)


class AtomicChange(ReschedulerError):  # noqa: N818 - names what was tried
    """An apply configuration of a policy sets an atomic list or map."""


_ATOMIC_MAPS = frozenset({"nodeSelector", "labelSelector", "matchLabels", "selector"})


def merge_applied(resource: ResourceType, current: Json, applied: Json) -> Json:
    """``current`` merged with a policy's apply configuration. Raises AtomicChange, which a real server rejects too."""
    keys = _KeyFinder(resource)
    wanted = {key: value for key, value in applied.items() if key not in _IDENTITY}
    _refuse_atomic(wanted, "", "", keys, "")
    merged: Json = _merge(current, wanted, "", "", keys)
    return merged


def _refuse_atomic(value: Any, field: str, parent: str, keys: _KeyFinder, path: str) -> None:
    if isinstance(value, dict):
        if field in _ATOMIC_MAPS:
            raise AtomicChange(f"may not mutate atomic arrays, maps or structs: {path}")
        for key, below in value.items():
            _refuse_atomic(below, key, field, keys, f"{path}.{key}")
    elif isinstance(value, list):
        if not (keys.keys(field, parent) or keys.is_set(field)):
            raise AtomicChange(f"may not mutate atomic arrays, maps or structs: {path}")
        for item in value:
            _refuse_atomic(item, field, field, keys, path)


def apply_patch(
    resource: ResourceType,
    current: Json,
    applied: Json,
    manager: str,
    now: str,
    *,
    force: bool,
    subresource: str,
) -> Json:
    """``current`` merged with ``applied``. Raises 409 with one cause for each field that another manager owns."""
    keys = _KeyFinder(resource)
    wanted = _strip_identity(applied)
    fields = _own_fields(wanted, keys)
    entries = list(current["metadata"].get("managedFields") or ())
    others = [e for e in entries if not _same_owner(e, manager, subresource)]
    mine = next((e for e in entries if _same_owner(e, manager, subresource)), None)
    if not force:
        _check_conflicts(current, wanted, fields, others)
    result: Json = _merge(current, wanted, "", "", keys)
    if mine is not None:
        _drop_unapplied(result, mine["fieldsV1"], fields, others)
    metadata = result["metadata"]
    for key in ("uid", "resourceVersion"):
        if key in applied["metadata"]:
            metadata[key] = applied["metadata"][key]
    if mine is not None and mine["fieldsV1"] == fields:
        metadata["managedFields"] = entries
        return result
    if force:
        others = [{**e, "fieldsV1": _subtract(e["fieldsV1"], current, wanted, fields)} for e in others]
    metadata["managedFields"] = [*others, _entry(resource, manager, now, subresource, fields)]
    return result


def _drop_unapplied(result: Json, before: Json, fields: Json, others: list[Json]) -> None:
    """Remove fields that this manager applied before but not now, unless another manager owns them."""
    kept = [set(_flatten(e["fieldsV1"])) for e in others]
    gone = set(_flatten(before)) - set(_flatten(fields))
    for path in sorted(gone, key=len, reverse=True):
        if not any(path in owned for owned in kept):
            _delete_path(result, path)


def _entry(resource: ResourceType, manager: str, now: str, subresource: str, fields: Json) -> Json:
    entry: Json = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": resource.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def _same_owner(entry: Json, manager: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == subresource
    )


def _strip_identity(applied: Json) -> Json:
    wanted = {k: deep_copy(v) for k, v in applied.items() if k not in _IDENTITY}
    metadata = {k: v for k, v in (wanted.get("metadata") or {}).items() if k not in _IDENTITY_META}
    wanted["metadata"] = metadata
    if not metadata:
        del wanted["metadata"]
    return wanted


class _KeyFinder:
    """Merge keys of lists: from the schema of a custom resource, else from the built-in table."""

    def __init__(self, resource: ResourceType) -> None:
        self._custom = resource.custom

    def keys(self, field: str, parent: str) -> _Keys:
        if self._custom is not None and field != "ownerReferences":
            found: _Keys = self._custom.list_keys(field)
            return found
        return merge_keys(field, parent, apply=True)

    def is_set(self, field: str) -> bool:
        return merges_as_set(field)


def _identity(item: Json, keys: _Keys) -> str:
    chosen = {k: item[k] for k in keys if k in item}
    if "protocol" in keys:
        chosen.setdefault("protocol", "TCP")
    return "k:" + json.dumps(chosen, sort_keys=True, separators=(",", ":"))


def _own_fields(value: Any, keys: _KeyFinder, field: str = "", parent: str = "") -> Json:
    """The ``fieldsV1`` of a value."""
    if isinstance(value, dict):
        return {f"f:{k}": _own_fields(v, keys, k, field) for k, v in value.items()}
    if isinstance(value, list):
        by = keys.keys(field, parent)
        if by and all(isinstance(item, dict) for item in value):
            return {_identity(item, by): {".": {}, **_own_fields(item, keys, field, field)} for item in value}
        if keys.is_set(field):
            return {"v:" + json.dumps(item): {} for item in value}
    return {}


def _flatten(fields: Json, prefix: Path = ()) -> list[Path]:
    found: list[Path] = []
    for key, below in fields.items():
        if key == ".":
            continue
        path = (*prefix, key)
        inner = _flatten(below, path)
        if not inner or key.startswith("k:"):
            found.append(path)
        found += inner
    return found


def _merge(current: Any, wanted: Any, field: str, parent: str, keys: _KeyFinder) -> Any:
    if isinstance(wanted, dict):
        result = deep_copy(current) if isinstance(current, dict) else {}
        for key, value in wanted.items():
            result[key] = _merge(result.get(key), value, key, field, keys)
        return result
    if isinstance(wanted, list) and isinstance(current, list):
        by = keys.keys(field, parent)
        if by and all(isinstance(item, dict) for item in wanted):
            return _merge_keyed(current, wanted, by, field, keys)
        if keys.is_set(field):
            return [*deep_copy(current), *(item for item in wanted if item not in current)]
    return deep_copy(wanted)


def _merge_keyed(current: list[Any], wanted: list[Any], by: _Keys, field: str, keys: _KeyFinder) -> list[Any]:
    result = deep_copy(current)
    places = {_identity(item, by): index for index, item in enumerate(result)}
    for item in wanted:
        index = places.get(_identity(item, by))
        if index is None:
            result.append(deep_copy(item))
        else:
            result[index] = _merge(result[index], item, field, field, keys)
    return list(result)


def _step(node: Any, part: str) -> Any:
    if part.startswith("f:"):
        return node.get(part[2:]) if isinstance(node, dict) else None
    if part.startswith("k:") and isinstance(node, list):
        wanted = json.loads(part[2:])
        for item in node:
            if all(item.get(k, "TCP" if k == "protocol" else None) == v for k, v in wanted.items()):
                return item
    if part.startswith("v:") and isinstance(node, list):
        value = json.loads(part[2:])
        return value if value in node else None
    return None


def _value_at(node: Any, path: Path) -> Any:
    for part in path:
        node = _step(node, part)
        if node is None:
            return None
    return node


def _delete_path(root: Json, path: Path) -> None:
    parent = _value_at(root, path[:-1]) if path[:-1] else root
    last = path[-1]
    target = _step(parent, last)
    if target is None:
        return
    if last.startswith("f:"):
        parent.pop(last[2:], None)
        if not parent and len(path) > 1 and path[-2].startswith("f:"):
            _delete_path(root, path[:-1])
    elif isinstance(parent, list):
        parent.remove(target)


def _contested(current: Json, wanted: Json, fields: Json, other: Json) -> list[Path]:
    ours = {path for path in _flatten(fields) if not path[-1].startswith("k:")}
    shared = ours & set(_flatten(other.get("fieldsV1") or {}))
    return sorted(path for path in shared if _value_at(current, path) != _value_at(wanted, path))


def _subtract(owned: Json, current: Json, wanted: Json, fields: Json) -> Json:
    result = deep_copy(owned)
    for path in _contested(current, wanted, fields, {"fieldsV1": owned}):
        node = result
        for part in path[:-1]:
            node = node[part]
        node.pop(path[-1], None)
    return dict(result)


def _check_conflicts(
    current: Json,
    wanted: Json,
    fields: Json,
    others: list[Json],
) -> None:
    causes: list[Json] = []
    for other in others:
        for path in _contested(current, wanted, fields, other):
            shown = "".join(f".{p[2:]}" if p.startswith("f:") else f"[{p[2:]}]" for p in path)
            message = f'conflict with "{other["manager"]}"'
            causes.append({"reason": "FieldManagerConflict", "message": message, "field": shown})
    if not causes:
        return
    count = len(causes)
    listed = "; ".join(f"{c['message']}: {c['field']}" for c in causes)
    text = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {listed}"
    raise StatusError(409, "Conflict", text, details={"causes": causes})
