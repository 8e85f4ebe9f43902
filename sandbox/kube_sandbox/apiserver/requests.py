"""Parses requests: the path (RequestInfo), the body (JSON, protobuf) and the options. Errors are 400, 404, 415."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from kube_sandbox.apiserver import protobuf
from kube_sandbox.apiserver.deletion import DeleteOptions
from kube_sandbox.apiserver.errors import (
    Json,
    bad_options,
    bad_request,
    not_supported,
    unknown_path,
    unsupported_media,
)
from kube_sandbox.apiserver.json_values import deep_copy
from kube_sandbox.apiserver.registry import Registry, ResourceType
from kube_sandbox.apiserver.selectors import Query
from kube_sandbox.apiserver.strategies import prune

_JSON = frozenset({"", "application/json", "*/*"})
_PATCHES = frozenset(
    {
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    }
)


def decode_object(body: bytes, content_type: str) -> Json:
    """The one object of a body."""
    media = content_type.partition(";")[0].strip()
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode(body)
    if media not in _JSON:
        raise unsupported_media(
            f"the body of the request was in an unknown format - accepted media types include: application/json: {media}"
        )
    value = decode_value(body)
    if not isinstance(value, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {_go_type(value)} into Go value of type struct"
        )
    return value


def decode_value(body: bytes) -> Any:
    """Any JSON value."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def check_identity(resource: ResourceType, obj: Json) -> None:
    """Raises 400 unless apiVersion and kind are those of the endpoint. Built-in kinds may omit them."""
    if resource.schema is None:
        obj["apiVersion"] = obj.get("apiVersion") or resource.api_version
        obj["kind"] = obj.get("kind") or resource.kind
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if not version or not kind:
        text = "Object 'Kind' is missing in body" if not kind else "Object 'apiVersion' is missing in body"
        raise bad_request(text)
    if version != resource.api_version or kind != resource.kind:
        short = version.rpartition("/")[2]
        raise bad_request(
            f'{kind} in version "{short}" cannot be handled as a {resource.kind}: unknown conversion'
        )


def check_fields(resource: ResourceType, obj: Json, query: Query) -> None:
    """With ``fieldValidation=Strict``: raises 400 for fields that a custom resource does not have."""
    if query.get("fieldValidation") != "Strict" or resource.schema is None:
        return
    unknown = prune(deep_copy(obj), resource.schema)
    if unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        kind, version = resource.kind, resource.version
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {listed}'
        )


def _go_type(value: Any) -> str:
    return {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")


def patch_type(content_type: str) -> str:
    """The media type of a patch. Raises 415."""
    media = content_type.partition(";")[0].strip()
    if media not in _PATCHES:
        raise unsupported_media("415: Unsupported Media Type", {})
    return media


def is_dry_run(query: Query, options: str = "CreateOptions") -> bool:
    """True for ``dryRun=All``. Raises 422 for anything else; ``options`` names the kind of options."""
    text = query.get("dryRun", "")
    if text not in {"", "All"}:
        raise bad_options(options, not_supported("dryRun", [text], ["All"]))
    return text == "All"


def delete_options(body: Json, query: Query) -> DeleteOptions:
    """Options from the body; where there is none, from the query."""
    grace = body.get("gracePeriodSeconds")
    if not body and query.get("gracePeriodSeconds"):
        try:
            grace = int(query["gracePeriodSeconds"])
        except ValueError as error:
            raise bad_request("gracePeriodSeconds is not a number") from error
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_s=grace,
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        dry_run=body.get("dryRun") == ["All"] if body else is_dry_run(query, "DeleteOptions"),
    )


_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The resource that a path names."""

    resource: ResourceType
    namespace: str
    name: str
    """Empty: the collection."""
    subresource: str


def parse_request_info(registry: Registry, path: str) -> RequestInfo:
    """The RequestInfo of a path below /api or /apis. Raises 404."""
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
    return RequestInfo(resource, namespace, name, subresource)
