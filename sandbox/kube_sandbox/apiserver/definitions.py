"""CustomResourceDefinitions: the versions of a stored definition are served, with their schema and columns."""

from __future__ import annotations

import re
from typing import Any

from kube_sandbox.apiserver import structural_schema
from kube_sandbox.apiserver.cel.schema_rules import has_rules, validate_rules
from kube_sandbox.apiserver.errors import FieldError, Json, invalid_value
from kube_sandbox.apiserver.json_values import deep_copy
from kube_sandbox.apiserver.mvcc import StoredChange
from kube_sandbox.apiserver.printer_columns import Cell, age, at
from kube_sandbox.apiserver.registry import PrinterColumn, ResourceType
from kube_sandbox.apiserver.store import ObjectStore

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
_STEP = re.compile(
    r"\.(?P<name>(?:\\.|[A-Za-z0-9_/-])+)|\[(?P<index>\d+)\]|\['(?P<quoted>[^']+)'\]|\[\?\(@\.(?P<key>[\w.]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\)\]|\[(?P<all>\*)\]"
)


_BLOCKING = frozenset(
    {
        "FieldValueRequired",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Errors after which the CEL rules are not evaluated."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)


class CustomKind:
    """One version of a custom resource: pruning, defaults, validation and merge keys by its schema."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._list_keys: dict[str, tuple[str, ...]] = {}
        self._collect(schema)
        self._has_rules = has_rules(schema)

    def prune_and_default(self, obj: Json) -> None:
        """Drop unknown fields and write defaults, in place."""
        structural_schema.prune(obj, self.schema, root=True)
        structural_schema.default(obj, self.schema)
        structural_schema.drop_nulls(obj, self.schema)

    def unknown_fields(self, obj: Json) -> list[str]:
        """Paths of the fields that pruning would drop."""
        return structural_schema.prune(deep_copy(obj), self.schema, root=True)

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Errors by the schema; its CEL rules are evaluated only if the object is valid by the schema."""
        faults = structural_schema.validate(obj, self.schema, "")
        if not any(fault.reason in _BLOCKING for fault in faults):
            return faults + validate_rules(obj, old, self.schema)
        if self._has_rules:
            faults.append(invalid_value("<nil>", None, _UNCHECKED))
        return faults

    def list_keys(self, field: str) -> tuple[str, ...]:
        """Merge keys of a list field; empty if the list is replaced."""
        return self._list_keys.get(field, ())

    def _collect(self, schema: Json) -> None:
        for name, below in (schema.get("properties") or {}).items():
            if below.get("x-kubernetes-list-type") == "map":
                self._list_keys[name] = tuple(below.get("x-kubernetes-list-map-keys") or ())
            self._collect(below)
        for part in (schema.get("items"), schema.get("additionalProperties")):
            if isinstance(part, dict):
                self._collect(part)


class Definitions:
    """Serves the stored definitions. When a definition is deleted, its objects are deleted too."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        store.subscribe([RESOURCE], self._changed)

    def _changed(self, change: StoredChange) -> None:
        spec = change.obj["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        if change.kind == "DELETED":
            table = f"{plural}.{group}"
            for obj in list(self._store.objects.items(table)):
                metadata = obj["metadata"]
                self._store.objects.remove(table, (metadata.get("namespace", ""), metadata["name"]))
            self._store.registry.remove(group, plural)
            return
        self._store.registry.remove(group, plural)
        for version in spec["versions"]:
            if version.get("served"):
                self._store.registry.add(resource_of(spec, version))


def resource_of(spec: Json, version: Json) -> ResourceType:
    """The resource of one version of a definition."""
    names = spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    return ResourceType(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in (version.get("subresources") or {}),
        scale=(version.get("subresources") or {}).get("scale", {}).get("specReplicasPath")
        == ".spec.replicas",
        generation=True,
        fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        columns=_columns(version.get("additionalPrinterColumns") or []),
        custom=CustomKind(schema),
    )


def _columns(given: list[Json]) -> tuple[PrinterColumn, ...]:
    name = PrinterColumn("Name", "string", at("metadata.name"), format="name")
    if not given:
        return (name, PrinterColumn("Age", "date", age()))
    return (
        name,
        *(
            PrinterColumn(
                c["name"],
                c["type"],
                _cell(c["jsonPath"], c["type"]),
                c.get("priority", 0),
                c.get("format", ""),
                c.get("description", ""),
            )
            for c in given
        ),
    )


def _cell(path: str, kind: str) -> Cell:
    steps = [m.groupdict() for m in _STEP.finditer(path)]
    if kind == "date":
        plain = path.lstrip(".")
        return age(plain)

    def cell(obj: Json, _now: float) -> Any:
        found: list[Any] = [obj]
        for step in steps:
            found = [result for node in found for result in _follow(node, step)]
        return found[0] if found else None

    return cell


def _follow(node: Any, step: dict[str, str | None]) -> list[Any]:
    name = step["name"] or step["quoted"]
    if name is not None:
        name = name.replace("\\.", ".")
        return [node[name]] if isinstance(node, dict) and node.get(name) is not None else []
    if not isinstance(node, list):
        return []
    if step["index"] is not None:
        return node[int(step["index"]) :][:1]
    if step["all"] is not None:
        return list(node)
    return [
        item for item in node if isinstance(item, dict) and str(item.get(step["key"] or "")) == step["value"]
    ]
