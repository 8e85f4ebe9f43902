"""Reads the project's manifests and puts them into a cluster, without kubectl.

Follows ``resources`` of kustomizations only: enough for ``manifests/``, ``base`` and ``crds``, which have no patches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from rescheduler.testing.api import APPLY, Answer, Api, Json

FOLDER: Final = Path(__file__).resolve().parents[2] / "manifests"
_PLURALS: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "PriorityClass": "priorityclasses",
}
_CLUSTER_SCOPED: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "Namespace",
        "PriorityClass",
    }
)
_FIRST: Final = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "PriorityClass", "ConfigMap")


def load(folder: Path = FOLDER) -> list[Json]:
    """All objects of a kustomization, in an order in which they can be created."""
    objects = _read(folder)
    return sorted(
        objects, key=lambda obj: _FIRST.index(obj["kind"]) if obj["kind"] in _FIRST else len(_FIRST)
    )


def path_of(obj: Json) -> str:
    """Where the object is served."""
    group_version, kind, metadata = obj["apiVersion"], obj["kind"], obj["metadata"]
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    plural = _PLURALS.get(kind, kind.lower() + "s")
    middle = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{metadata.get('namespace', 'default')}"
    return f"{root}{middle}/{plural}/{metadata['name']}"


def apply(api: Api, objects: list[Json]) -> list[Answer]:
    """Server-side apply of each object; AssertionError at the first refusal."""
    return [
        api.patch(path_of(obj), obj, APPLY, fieldManager="rescheduler-tests", force="true").expect()
        for obj in objects
    ]


def _read(folder: Path) -> list[Json]:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    objects: list[Json] = []
    for name in kustomization.get("resources", ()):
        path = (folder / name).resolve()
        if path.is_dir():
            objects += _read(path)
        else:
            objects += [obj for obj in yaml.safe_load_all(path.read_text()) if obj]
    return objects
