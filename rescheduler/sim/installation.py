"""Puts the project's manifests into the embedded cluster: CRDs, roles, ConfigMaps, admission policies.

All but the Deployment: the controller runs outside of the embedded cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from rescheduler.kube.client import KubeApi
from rescheduler.kube.transport import Transport

_PACKAGED: Final = Path(__file__).resolve().parents[1] / "_manifests"
_CHECKOUT: Final = Path(__file__).resolve().parents[2] / "manifests"
_PLURALS: Final = {"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "PriorityClass": "priorityclasses"}
_NAMESPACED: Final = frozenset({"ServiceAccount", "ConfigMap", "Role", "RoleBinding"})
_LEFT_OUT: Final = frozenset({"Deployment", "Service"})
_FIRST: Final = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "PriorityClass", "ConfigMap")


def folder() -> Path:
    """Where the manifests are: in the package, or beside it in a checkout."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def install(transport: Transport) -> None:
    """Apply everything. Raises ApiError, TransportError."""
    api = KubeApi(transport)
    objects = [obj for obj in _read(folder()) if obj["kind"] not in _LEFT_OUT]
    for obj in sorted(objects, key=lambda o: _FIRST.index(o["kind"]) if o["kind"] in _FIRST else len(_FIRST)):
        api.apply(_path(obj), msgspec.json.encode(obj))


def _path(obj: dict[str, Any]) -> str:
    version, kind, metadata = obj["apiVersion"], obj["kind"], obj["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    middle = f"/namespaces/{metadata.get('namespace', 'default')}" if kind in _NAMESPACED else ""
    return f"{root}{middle}/{_PLURALS.get(kind, kind.lower() + 's')}/{metadata['name']}"


def _read(place: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization, following its ``resources``; ours have no patches in the base."""
    kustomization = yaml.safe_load((place / "kustomization.yaml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = []
    for name in kustomization.get("resources", ()):
        path = (place / name).resolve()
        if path.is_dir():
            found += _read(path)
        else:
            found += [obj for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")) if obj]
    return found
