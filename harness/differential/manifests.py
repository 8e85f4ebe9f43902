"""Common pieces of manifests."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def metadata(name: str, *, labels: dict[str, str] | None = None) -> Manifest:
    """Metadata with a uid that the name gives."""
    return {
        "name": name,
        "uid": f"uid-{name}",
        "labels": labels or {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }


def namespaced(version: str, kind: str, namespace: str, name: str, spec: Manifest) -> Manifest:
    """A namespaced object."""
    meta = {**metadata(name), "namespace": namespace, "uid": f"uid-{kind}-{namespace}-{name}"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
