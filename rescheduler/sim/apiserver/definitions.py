"""CustomResourceDefinitions: each stored one becomes resources of the registry, with its schema and columns."""

from __future__ import annotations

import re
from typing import Any

from rescheduler.sim.apiserver import schemas
from rescheduler.sim.apiserver.celrules import check_rules, has_rules
from rescheduler.sim.apiserver.columns import Cell, age, at
from rescheduler.sim.apiserver.errors import FieldError, Json, invalid_value
from rescheduler.sim.apiserver.jsonpath import deep_copy
from rescheduler.sim.apiserver.mvcc import Change
from rescheduler.sim.apiserver.resources import Column, ResourceType
from rescheduler.sim.apiserver.store import Store

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
"""Faults after which the CEL rules are not tried."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)


class CustomKind:
    """One version of a custom resource: what its schema does to objects."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._list_keys: dict[str, tuple[str, ...]] = {}
        self._collect(schema)
        self._has_rules = has_rules(schema)

    def prune_and_default(self, obj: Json) -> None:
        """Drops unknown fields and writes defaults, in place."""
        schemas.prune(obj, self.schema, root=True)
        schemas.default(obj, self.schema)
        schemas.drop_nulls(obj, self.schema)

    def unknown_fields(self, obj: Json) -> list[str]:
        """Paths of what pruning would drop."""
        return schemas.prune(deep_copy(obj), self.schema, root=True)

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Faults by the schema; by its rules only if the schema itself is met."""
        faults = schemas.validate(obj, self.schema, "")
        if not any(fault.reason in _BLOCKING for fault in faults):
            return faults + check_rules(obj, old, self.schema)
        if self._has_rules:
            faults.append(invalid_value("<nil>", None, _UNCHECKED))
        return faults

    def list_keys(self, field: str) -> tuple[str, ...]:
        """Keys by which a list of that name is merged; empty if it is replaced."""
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
    """Follows the stored definitions: a deleted one takes its objects with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.subscribe([RESOURCE], self._changed)

    def _changed(self, change: Change) -> None:
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
    """The resource that a version of a definition stands for."""
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
        generation=True,
        fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        columns=_columns(version.get("additionalPrinterColumns") or []),
        custom=CustomKind(schema),
    )


def _columns(given: list[Json]) -> tuple[Column, ...]:
    name = Column("Name", "string", at("metadata.name"), format="name")
    if not given:
        return (name, Column("Age", "date", age()))
    return (
        name,
        *(
            Column(
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
