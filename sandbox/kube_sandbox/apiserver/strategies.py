"""Strategies: how an object is prepared before it is stored (defaults, cleared fields, generation) and validated.

The generic rules are here. Defaults of a built-in kind are looked up by resource name; only pods are validated. Of the
schema of a custom resource neither types nor CEL rules are checked; a real server does.
"""

from __future__ import annotations

from typing import Any, Final

from kube_sandbox.apiserver.defaults import DEFAULTS, NEW_STATUS
from kube_sandbox.apiserver.errors import FieldError, Json
from kube_sandbox.apiserver.json_values import deep_copy
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.validation import validate_metadata, validate_pod, validate_pod_change

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_ALLOWED_TOP = frozenset({"metadata", "status"})


def default(resource: ResourceType, obj: Json) -> None:
    """Write the kind's defaults into ``obj``."""
    obj["apiVersion"] = resource.api_version if not resource.storage else "v1"
    obj["kind"] = resource.kind
    if resource.schema is not None:
        prune(obj, resource.schema)
        default_fields(obj, resource.schema)
        tidy(obj["metadata"])
        drop_empty(obj["metadata"])
        return
    tidy(obj)
    fill = DEFAULTS.get(resource.name)
    if fill is not None:
        fill(obj)


def prepare_create(resource: ResourceType, obj: Json) -> None:
    """Write defaults, the first generation, and the initial status."""
    if resource.status and not (resource.schema is None and resource.name in _KEEPS_STATUS):
        obj.pop("status", None)
    default(resource, obj)
    make = NEW_STATUS.get(resource.name)
    if make is not None:
        obj["status"] = make(obj)
    if resource.generation:
        obj["metadata"]["generation"] = 1


def new_status(resource: ResourceType, obj: Json) -> Json:
    """The initial status of an object."""
    make = NEW_STATUS.get(resource.name)
    return make(obj) if make is not None else {}


def prepare_update(resource: ResourceType, new: Json, old: Json, subresource: str) -> None:
    """Restore the fields that this endpoint may not change, and increment the generation."""
    if subresource == "status":
        _only_status(resource, new, old)
    elif resource.status:
        _restore(new, old, "status")
    default(resource, new)
    if resource.generation and subresource != "status" and _spec_of(resource, new) != _spec_of(resource, old):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1


def validate_new(resource: ResourceType, obj: Json) -> list[FieldError]:
    """Errors of a new object."""
    return validate_metadata(obj) + (validate_pod(obj) if resource.name == "pods" else [])


def validate_change(resource: ResourceType, new: Json, old: Json, subresource: str) -> list[FieldError]:
    """Errors of a changed object."""
    checked = resource.name == "pods" and subresource != "status"
    return validate_metadata(new) + (validate_pod_change(new, old) if checked else [])


def _only_status(resource: ResourceType, new: Json, old: Json) -> None:
    for key in {*new, *old} - _ALLOWED_TOP - {"apiVersion", "kind"}:
        _restore(new, old, key)
    if resource.schema is not None:
        new["metadata"] = deep_copy(old["metadata"])
    elif "ownerReferences" in old["metadata"]:
        new["metadata"]["ownerReferences"] = deep_copy(old["metadata"]["ownerReferences"])
    else:
        new["metadata"].pop("ownerReferences", None)


def tidy(obj: Json) -> None:
    """Remove what Go's ``omitempty`` omits: nulls everywhere, empty maps and lists in metadata."""
    for key in [key for key, value in obj.items() if value is None and key not in _SHOWN_NULLS]:
        del obj[key]
    for key, value in obj.items():
        if isinstance(value, dict):
            tidy(value)
            if (
                key == "metadata"
            ):  # only there are all maps and lists omitempty; a spec may have meaningful empty ones
                drop_empty(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    tidy(item)


def drop_empty(metadata: Json) -> None:
    """Remove empty maps and lists of metadata."""
    for empty in [k for k in _OMITTED_EMPTY if k in metadata and not metadata[k]]:
        del metadata[empty]


_SHOWN_NULLS = frozenset({"lastProbeTime", "lastTransitionTime"})
_OMITTED_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")
_KEEPS_STATUS = frozenset({"nodes", "persistentvolumes", "namespaces"})
"""Kinds whose status may be set at creation."""


def _restore(new: Json, old: Json, key: str) -> None:
    if key in old:
        new[key] = deep_copy(old[key])
    else:
        new.pop(key, None)


def _spec_of(resource: ResourceType, obj: Json) -> Any:
    parts = {k: v for k, v in obj.items() if k not in _ALLOWED_TOP}
    if resource.name == "deployments.apps":
        parts["annotations"] = obj["metadata"].get("annotations") or {}
    return parts


def prune(value: Any, schema: Json, *, root: bool = True, path: str = "") -> list[str]:
    """Drop fields that the schema does not have, in place; returns their paths."""
    if isinstance(value, list):
        below = schema.get("items") or {}
        return [
            p for i, item in enumerate(value) for p in prune(item, below, root=False, path=f"{path}[{i}]")
        ]
    if not isinstance(value, dict):
        return []
    dropped: list[str] = []
    known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for key in list(value):
        if (root or schema.get(_EMBEDDED)) and key in _IDENTITY:
            continue  # apiVersion, kind and metadata are kept although schemas usually do not declare them
        place = f"{path}.{key}" if path else key
        below = known.get(key, extra if isinstance(extra, dict) else None)
        if below is not None:
            dropped += prune(value[key], below, root=False, path=place)
        elif not schema.get(_PRESERVE) and extra is not True:
            del value[key]
            dropped.append(place)
    return dropped


def default_fields(value: Any, schema: Json) -> None:
    """Write the schema's defaults for missing fields, and drop nulls that are not nullable, in place."""
    if isinstance(value, list):
        for item in value:
            default_fields(item, schema.get("items") or {})
        return
    if not isinstance(value, dict):
        return
    known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, below in known.items():
        if key in value and value[key] is None and not below.get("nullable"):
            del value[key]
        if key not in value and "default" in below:
            value[key] = deep_copy(below["default"])
    for key, item in value.items():
        below = known.get(key, extra)
        if isinstance(below, dict):
            default_fields(item, below)  # a default value may itself lack fields with defaults
