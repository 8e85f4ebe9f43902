"""Decodes what ``kubectl create`` sends for a namespace, a deployment and a pdb, which is protobuf with no other choice.

Field numbers are those of the published ``generated.proto``. A field that is not known here may be empty; one with a
value is rejected, never ignored. Answers are always JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_sandbox.apiserver.errors import Json, bad_request, unsupported_media

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2

Field = tuple[str, str]
"""JSON name and form: string, int, bool (dropped when zero), ``int?`` (kept), map, strings, quantities, intstr, a
message name, or ``[message]``."""

_META: Field = ("metadata", "ObjectMeta")
_MESSAGES: dict[str, dict[int, Field]] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "bytes"), 3: ("contentEncoding", "string"), 4: ("contentType", "string")},
    "TypeMeta": {1: ("apiVersion", "string"), 2: ("kind", "string")},
    "ObjectMeta": {1: ("name", "string"), 3: ("namespace", "string"), 11: ("labels", "map"), 12: ("annotations", "map")},
    "LabelSelector": {1: ("matchLabels", "map"), 2: ("matchExpressions", "[Requirement]")},
    "Requirement": {1: ("key", "string"), 2: ("operator", "string"), 3: ("values", "strings")},
    "Namespace": {1: _META},
    "PodDisruptionBudget": {1: _META, 2: ("spec", "BudgetSpec")},
    "BudgetSpec": {1: ("minAvailable", "intstr"), 2: ("selector", "LabelSelector"), 3: ("maxUnavailable", "intstr")},
    "Deployment": {1: _META, 2: ("spec", "DeploymentSpec")},
    "DeploymentSpec": {1: ("replicas", "int?"), 2: ("selector", "LabelSelector"), 3: ("template", "PodTemplate")},
    "PodTemplate": {1: _META, 2: ("spec", "PodSpec")},
    "PodSpec": {2: ("containers", "[Container]")},
    "Container": {
        1: ("name", "string"), 2: ("image", "string"), 3: ("command", "strings"), 4: ("args", "strings"),
        6: ("ports", "[Port]"), 8: ("resources", "Resources"),
    },
    "Port": {3: ("containerPort", "int"), 4: ("protocol", "string")},
    "Resources": {1: ("limits", "quantities"), 2: ("requests", "quantities")},
    "Quantity": {1: ("string", "string")},
    "IntOrString": {1: ("type", "int"), 2: ("intVal", "int"), 3: ("strVal", "string")},
}  # fmt: skip
_KINDS = frozenset({"Namespace", "PodDisruptionBudget", "Deployment"})


def decode(body: bytes) -> Json:
    """The object of a protobuf body. Raises 400 if it is damaged, 415 for an unknown kind or field."""
    if not body.startswith(_MAGIC):
        raise bad_request("the protobuf body does not begin with its mark")
    try:
        envelope = _message(memoryview(body)[len(_MAGIC) :], "Unknown")
        identity = envelope.get("typeMeta") or {}
        if identity.get("kind") not in _KINDS:
            raise unsupported_media(f"protobuf is not read for kind {identity.get('kind')}; send JSON")
        return {**identity, **_message(memoryview(envelope.get("raw", b"")), identity["kind"])}
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body is damaged: {error}") from error


def _message(data: memoryview, name: str) -> Json:
    known = _MESSAGES[name]
    result: Json = {}
    for number, value in _fields(data):
        if number in known:
            _put(result, *known[number], value)
        elif not _empty(value):
            raise unsupported_media(f"protobuf field {number} of {name} is not read; send JSON")
    return result


def _empty(value: Any) -> bool:
    """True for zero, and for a message without a value: the Go encoder writes all fields that are no pointers."""
    if isinstance(value, int) or not value:
        return not value
    try:
        return all(_empty(below) for _, below in _fields(value))
    except (IndexError, TypeError):
        return False


def _put(result: Json, key: str, form: str, value: Any) -> None:
    if form.startswith("["):
        result.setdefault(key, []).append(_message(value, form[1:-1]))
    elif form == "strings":
        result.setdefault(key, []).append(str(value, "utf-8"))
    elif form in {"map", "quantities"}:
        entry = dict(_fields(value))
        item = entry.get(2, b"")
        read = str(item, "utf-8") if form == "map" else _message(item, "Quantity").get("string", "0")
        result.setdefault(key, {})[str(entry.get(1, b""), "utf-8")] = read
    elif form == "intstr":
        either = _message(value, "IntOrString")
        result[key] = either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
    elif form in _MESSAGES:
        result[key] = _message(value, form)
    else:
        plain = value if isinstance(value, int) else bytes(value) if form == "bytes" else str(value, "utf-8")
        if plain or form.endswith("?"):
            result[key] = plain


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire = tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
        elif wire == _BYTES:
            size, position = _varint(data, position)
            if position + size > len(data):
                raise IndexError("a field is cut off")
            yield tag >> 3, data[position : position + size]
            position += size
        else:
            raise unsupported_media(f"protobuf wire type {wire} is not read; send JSON")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return value, position
        shift += 7
