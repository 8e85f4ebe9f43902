"""CustomResourceDefinitions: the versions of a stored definition are served, with their schema."""

from __future__ import annotations

from kube_sandbox.apiserver import structural_schema
from kube_sandbox.apiserver.cel.schema_rules import validate_rules
from kube_sandbox.apiserver.errors import FieldError, Json
from kube_sandbox.apiserver.json_values import deep_copy
from kube_sandbox.apiserver.mvcc import StoredChange
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.store import ObjectStore

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"


class CustomKind:
    """One version of a custom resource: pruning, defaults, validation and merge keys by its schema."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._list_keys: dict[str, tuple[str, ...]] = {}
        self._collect(schema)

    def prune_and_default(self, obj: Json) -> None:
        """Drop unknown fields and write defaults, in place."""
        structural_schema.prune(obj, self.schema, root=True)
        structural_schema.default(obj, self.schema)
        structural_schema.drop_nulls(obj, self.schema)

    def unknown_fields(self, obj: Json) -> list[str]:
        """Paths of the fields that pruning would drop."""
        return structural_schema.prune(deep_copy(obj), self.schema, root=True)

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Errors of the CEL rules of the schema."""
        return validate_rules(obj, old, self.schema)

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
        printed=tuple(
            (column["name"], column["type"], column["jsonPath"], column.get("priority", 0))
            for column in version.get("additionalPrinterColumns") or ()
        ),
        custom=CustomKind(schema),
    )
