"""CustomResourceDefinitions: the versions of a stored definition are served."""

from __future__ import annotations

from typing import Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.store import ObjectStore, StoredChange

RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """Serves the stored definitions. When a definition is deleted, its objects are deleted too."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        store.subscribe(RESOURCE, self._changed)

    def _changed(self, change: StoredChange) -> None:
        spec = change.object["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        self._store.registry.remove(group, plural)
        if change.type == "DELETED":
            table = f"{plural}.{group}"
            for obj in list(self._store.objects.items(table)):
                metadata = obj["metadata"]
                self._store.objects.remove(table, (metadata.get("namespace", ""), metadata["name"]))
            return
        for version in spec["versions"]:
            if version.get("served"):
                self._store.registry.add(resource_of(spec, version))


def resource_of(spec: Json, version: Json) -> ResourceType:
    """The resource of one version of a definition."""
    names, subresources = spec["names"], version.get("subresources") or {}
    return ResourceType(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=subresources.get("scale", {}).get("specReplicasPath") == ".spec.replicas",
        generation=True,
        fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"},
    )
