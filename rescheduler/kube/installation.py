"""Reads the project's manifests.

Of a kustomization only ``resources`` is read: enough for ``manifests/``, ``base`` and ``crds``, which have no
patches. The manifests are in the package, or beside it in a checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

Manifest = dict[str, Any]

_PACKAGED: Final = Path(__file__).resolve().parents[1] / "_manifests"
_CHECKOUT: Final = Path(__file__).resolve().parents[2] / "manifests"
FOLDER: Final = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT

_PLURALS: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "PriorityClass": "priorityclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
_CLUSTER_SCOPED: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "FlowSchema",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
_FIRST: Final = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "PriorityClass", "ConfigMap")


def load(folder: Path = FOLDER) -> list[Manifest]:
    """All objects of a kustomization, in an order in which they can be created."""
    objects = _read(folder)
    return sorted(objects, key=lambda o: _FIRST.index(o["kind"]) if o["kind"] in _FIRST else len(_FIRST))


def path_of(obj: Manifest) -> str:
    """The path of the object in the API."""
    version, kind, metadata = obj["apiVersion"], obj["kind"], obj["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    middle = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{metadata.get('namespace', 'default')}"
    return f"{root}{middle}/{_PLURALS.get(kind, kind.lower() + 's')}/{metadata['name']}"


def everything(namespace: str) -> list[Manifest]:
    """Every object that any overlay or component installs, for a controller in ``namespace``."""
    found = (obj for path in sorted(FOLDER.rglob("*.yaml")) for obj in _documents(path))
    return [_placed(obj, namespace) for obj in found if obj["kind"] not in ("Kustomization", "Component")]


def _placed(obj: Manifest, namespace: str) -> Manifest:
    metadata = obj["metadata"]
    if obj["kind"] == "Namespace":
        metadata = {**metadata, "name": namespace}
    elif obj["kind"] not in _CLUSTER_SCOPED:
        metadata = {**metadata, "namespace": namespace}
    return {**obj, "metadata": metadata}


def _read(folder: Path) -> list[Manifest]:
    (kustomization,) = _documents(folder / "kustomization.yaml")
    found: list[Manifest] = []
    for name in kustomization.get("resources", ()):
        path = (folder / name).resolve()
        found += _read(path) if path.is_dir() else _documents(path)
    return found


def _documents(path: Path) -> list[Manifest]:
    return [obj for obj in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) if obj]
