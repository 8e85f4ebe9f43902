"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch on decoded JSON.

No function changes its arguments. A patch that cannot be applied is a ``StatusError``. The merge keys of the built-in types are looked up by the name of the list's
field and, where a name is ambiguous, by the field above it; of directives ``$patch: delete`` is known, and others are passed over. Server-side apply merges in the same way. Of JSON
patches move and copy are not known.
"""

from __future__ import annotations

from typing import Any

from kube_sandbox.apiserver.errors import Json, StatusError, bad_request
from kube_sandbox.apiserver.json_values import deep_copy


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` after a merge patch; null removes a field."""
    if not isinstance(patch, dict):
        return deep_copy(patch)
    result = deep_copy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Json, operations: Any) -> Json:
    """``target`` after the operations. Raises 400 for malformed ones, 422 for those that do not apply."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    document: Any = deep_copy(target)
    for operation in operations:
        if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
            raise bad_request("error decoding patch: an operation needs op and path")
        document = _apply(document, operation)
    if not isinstance(document, dict):
        raise bad_request("the patch does not leave an object")
    return document


def _apply(document: Any, operation: Json) -> Any:
    kind, path = operation["op"], _pointer(operation["path"])
    if kind == "add":
        return _add(document, path, deep_copy(operation.get("value")))
    if kind == "remove":
        return _remove(document, path)
    if kind == "replace":
        _lookup(document, path)
        return _replace(document, path, deep_copy(operation.get("value")))
    if kind == "test":
        if _lookup(document, path) != operation.get("value"):
            raise _refused()
        return document
    raise bad_request(f"unexpected kind of operation: {kind}")


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise bad_request(f"invalid JSON pointer: {text}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _lookup(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _child(node: Any, part: str) -> Any:
    if isinstance(node, dict) and part in node:
        return node[part]
    if isinstance(node, list):
        return node[_index(part, len(node) - 1)]
    raise _refused()


def _index(part: str, last: int) -> int:
    if not part.isdigit() or int(part) > last:
        raise _refused()
    return int(part)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _lookup(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent)), value)
    else:
        raise _refused()
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    parent = _lookup(document, path[:-1])
    parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _lookup(document, path)
    parent = _lookup(document, path[:-1])
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]
    return document


def _refused() -> StatusError:
    """422: an operation that does not apply; the answer does not name it, as on a real server."""
    text = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", text, details={})


_DIRECTIVE = "$patch"


def strategic_patch(target: Json, patch: Json) -> Json:
    """``target`` after the patch; neither argument is changed."""
    result = _merge_object(target, patch, "")
    return result if result is not None else {}


def _merge_object(target: Any, patch: Json, field: str) -> Json | None:
    if patch.get(_DIRECTIVE) == "delete":
        return None
    result: Json = deep_copy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(result, key, value, field)
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
    if field in _PRIMITIVE:
        return [*deep_copy(current), *(item for item in patch if item not in current)]
    key = _merge_key(field, parent)
    return _merge_keyed(current, patch, key, field) if key else deep_copy(patch)


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


_KEYS: dict[str, str] = {
    **dict.fromkeys(
        ("containers", "initContainers", "ephemeralContainers", "volumes", "env", "imagePullSecrets"), "name"
    ),
    **dict.fromkeys(("schedulingGates", "resourceClaims", "secrets", "matchConditions", "variables"), "name"),
    **dict.fromkeys(("evictionResponders", "requesters", "targetResponders", "responders"), "name"),
    **dict.fromkeys(("conditions", "addresses"), "type"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "hostAliases": "ip",
}
_PRIMITIVE = frozenset({"finalizers", "podCIDRs"})
"""Lists of plain values to which a patch adds, instead of replacing the list."""


def _merge_key(field: str, parent: str) -> str:
    """Key of the list ``field`` in ``parent``; empty if the list is replaced as a whole."""
    if field == "ports":
        return "containerPort" if parent in {"containers", "initContainers"} else "port"
    return _KEYS.get(field, "")
