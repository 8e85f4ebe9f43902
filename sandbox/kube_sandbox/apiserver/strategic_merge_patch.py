"""Strategic merge patch: merge by key, ``$patch``, ``$deleteFromPrimitiveList``. The order of merged lists is not asked for.

The merge keys of the built-in types are looked up by the name of the list's field and, where a name is ambiguous, by
the field above it. Server-side apply uses them too.
"""

from __future__ import annotations

from typing import Any

from kube_sandbox.apiserver.errors import Json, bad_request
from kube_sandbox.apiserver.json_values import deep_copy

_DIRECTIVE = "$patch"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_patch(target: Json, patch: Json) -> Json:
    """``target`` after the patch; neither argument is changed. Raises 400 for an unknown directive."""
    result = _merge_object(target, patch, "")
    return result if result is not None else {}


def _merge_object(target: Any, patch: Json, field: str) -> Json | None:
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return None
    if directive == "replace":
        return {k: deep_copy(v) for k, v in patch.items() if k != _DIRECTIVE}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found: {directive}")
    result: Json = deep_copy(target) if isinstance(target, dict) else {}
    # Deletions come second: they are about the list after the values of the patch were merged.
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(result, key, value, field)
    for key, value in patch.items():
        if key.startswith(_DELETE):
            name = key[len(_DELETE) :]
            result[name] = [item for item in result.get(name) or () if item not in value]
    return result


def _merge_field(result: Json, key: str, value: Any, parent: str) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        merged = _merge_object(result.get(key), value, key)
        if merged is None:
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list):
        result[key] = _merge_list(result.get(key) or [], value, key, parent)
    else:
        result[key] = value


def _merge_list(current: list[Any], patch: list[Any], field: str, parent: str) -> list[Any]:
    if merges_as_set(field):
        return [*deep_copy(current), *(item for item in patch if item not in current)]
    keys = merge_keys(field, parent)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [
            _without_directives(item)
            for item in patch
            if not (isinstance(item, dict) and set(item) == {_DIRECTIVE})
        ]
    if not keys:
        return [_without_directives(item) for item in patch]
    return _merge_keyed(deep_copy(current), patch, keys[0], field)


def _merge_keyed(current: list[Any], patch: list[Any], key: str, field: str) -> list[Any]:
    result = deep_copy(current)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        position = next((i for i, have in enumerate(result) if have.get(key) == item[key]), None)
        merged = _merge_object(result[position] if position is not None else {}, item, field)
        if position is None:
            if merged is not None:
                result.append(merged)
        elif merged is None:
            del result[position]
        else:
            result[position] = merged
    return result


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if not k.startswith("$")}
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value


_BY_FIELD: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "secrets": ("name",),
    "matchConditions": ("name",),
    "variables": ("name",),
    "evictionResponders": ("name",),
    "requesters": ("name",),
    "targetResponders": ("name",),
    "responders": ("name",),
}
_PORTS = {"containers": ("containerPort", "protocol"), "initContainers": ("containerPort", "protocol")}
_PRIMITIVE = frozenset({"finalizers", "podCIDRs"})


def merge_keys(field: str, parent: str, *, apply: bool = False) -> tuple[str, ...]:
    """Keys of the list ``field`` in ``parent``; empty if the list is replaced as a whole.

    A strategic merge uses only the first key; server-side apply (``apply``) uses all of them.
    """
    keys: tuple[str, ...]
    keys = _PORTS.get(parent, ("port", "protocol")) if field == "ports" else _BY_FIELD.get(field, ())
    return keys if apply else keys[:1]


def merges_as_set(field: str) -> bool:
    """True for lists of plain values to which a patch adds, instead of replacing the list."""
    return field in _PRIMITIVE
