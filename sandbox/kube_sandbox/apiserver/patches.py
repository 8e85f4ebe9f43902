"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on decoded JSON.

Neither function changes its arguments. A patch that cannot be applied is an ``StatusError``.
"""

from __future__ import annotations

from typing import Any

from kube_sandbox.apiserver.errors import Json, StatusError, bad_request
from kube_sandbox.apiserver.json_values import deep_copy


class PatchRefused(StatusError):  # noqa: N818 - a refusal is an answer
    """422: an operation that does not apply. Only ``why`` names it, not the response, as on a real server."""

    def __init__(self, why: str) -> None:
        text = "the server rejected our request due to an error in our request"
        super().__init__(422, "Invalid", text, details={})
        self.why = why


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
    if kind in {"move", "copy"}:
        source = _pointer(operation.get("from", ""))
        value = deep_copy(_lookup(document, source))
        if kind == "move":
            document = _remove(document, source)
        return _add(document, path, value)
    if kind == "add":
        return _add(document, path, deep_copy(operation.get("value")))
    if kind == "remove":
        return _remove(document, path)
    if kind == "replace":
        _lookup(document, path)
        return _replace(document, path, deep_copy(operation.get("value")))
    if kind == "test":
        if _lookup(document, path) != operation.get("value"):
            raise _refused(f"testing value {operation['path']} failed")
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
    raise _refused(f"missing path: {part}")


def _index(part: str, last: int) -> int:
    if not part.isdigit() or int(part) > last:
        raise _refused(f"unable to access invalid index: {part}")
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
        raise _refused(f"add operation does not apply: doc is missing path: {'/'.join(path)}")
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _lookup(document, path[:-1])
    parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _lookup(document, path)
    parent = _lookup(document, path[:-1])
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]
    return document


def _refused(message: str) -> StatusError:
    return PatchRefused(message)
