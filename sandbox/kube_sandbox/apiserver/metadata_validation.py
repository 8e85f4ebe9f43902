"""Validation of metadata, for every kind."""

from __future__ import annotations

import re

from kube_sandbox.apiserver.errors import FieldError, Json, forbidden_field, invalid_value, required
from kube_sandbox.apiserver.registry import ResourceType

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ALLOWED = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_MAX_NAME = 253
_MAX_LABEL = 63
_FREE_NAMES = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_LABEL_NAMES = frozenset({"namespaces", "services"})


def validate_metadata(resource: ResourceType, obj: Json) -> list[FieldError]:
    """Errors in name, labels, annotations and owner references."""
    metadata = obj["metadata"]
    return [
        *_name_faults(resource, metadata.get("name", "")),
        *_label_faults(metadata.get("labels") or {}),
        *_annotation_faults(metadata.get("annotations") or {}),
        *_owner_faults(metadata.get("ownerReferences") or ()),
    ]


def validate_finalizers(new: Json, old: Json) -> list[FieldError]:
    """Errors for finalizers that are added to a terminating object."""
    if not old["metadata"].get("deletionTimestamp"):
        return []
    had = old["metadata"].get("finalizers") or ()
    added = [f for f in new["metadata"].get("finalizers") or () if f not in had]
    if not added:
        return []
    listed = ", ".join(f'"{f}"' for f in added)
    text = (
        "no new finalizers can be added if the object is being deleted, found new finalizers "
        f"[]string{{{listed}}}"
    )
    return [forbidden_field("metadata.finalizers", text)]


def _name_faults(resource: ResourceType, name: str) -> list[FieldError]:
    if resource.plural in _FREE_NAMES:
        return []
    short = resource.plural in _LABEL_NAMES
    pattern, limit = (_LABEL, _MAX_LABEL) if short else (_SUBDOMAIN, _MAX_NAME)
    if len(name) > limit:
        return [invalid_value("metadata.name", name, f"must be no more than {limit} characters")]
    if not pattern.fullmatch(name):
        return [invalid_value("metadata.name", name, _ALLOWED)]
    return []


def _qualified_name(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (_SUBDOMAIN.fullmatch(prefix) and len(prefix) <= _MAX_NAME):
        return False
    return bool(_QUALIFIED.fullmatch(name)) and len(name) <= _MAX_LABEL


def _label_faults(labels: Json) -> list[FieldError]:
    faults = []
    for key, value in labels.items():
        if not _qualified_name(key):
            faults.append(invalid_value("metadata.labels", key, _ALLOWED))
        if not isinstance(value, str) or (value and not _QUALIFIED.fullmatch(value)):
            faults.append(invalid_value("metadata.labels", value, _ALLOWED))
        elif len(value) > _MAX_LABEL:
            faults.append(invalid_value("metadata.labels", value, "must be no more than 63 bytes"))
    return faults


def _annotation_faults(annotations: Json) -> list[FieldError]:
    return [
        invalid_value("metadata.annotations", key, _ALLOWED)
        for key in annotations
        if not _qualified_name(key.lower())
    ]


def _owner_faults(owners: list[Json] | tuple[Json, ...]) -> list[FieldError]:
    faults = []
    controllers = 0
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        faults += [
            required(f"{path}.{key}", "must not be empty")
            for key in ("apiVersion", "kind", "name", "uid")
            if not owner.get(key)
        ]
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        text = "Only one reference can have Controller set to true. Found more than one"
        faults.append(forbidden_field("metadata.ownerReferences", text))
    return faults
