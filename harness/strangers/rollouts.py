"""Argo Rollouts v1.10.2, unmodified, beside a control plane: its CRDs and rights are those of its own module.

A Rollout owns ReplicaSets as a Deployment does, and is none: the controller knows the ReplicaSets, and nothing of what is above them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

from harness.controlplane import manifests
from harness.controlplane.api import Json
from harness.controlplane.processes import Process, free_port
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World
from harness.strangers.build import find, source
from harness.strangers.tools import ROLLOUTS

GROUP: Final = "argoproj.io/v1alpha1"
NAMESPACE: Final = "argo-rollouts"
_RIGHTS: Final = (
    "base/argo-rollouts-sa.yaml",
    "role/argo-rollouts-clusterrole.yaml",
    "cluster-install/argo-rollouts-clusterrolebinding.yaml",
    "base/argo-rollouts-config.yaml",
    "base/argo-rollouts-notification-secret.yaml",
)


class Rollouts(Process):
    """Context manager: its controller at work. Raises BinariesMissing."""

    def __init__(self, plane: ControlPlane) -> None:
        program, module = find(ROLLOUTS), source(ROLLOUTS) / "manifests"
        files = [file for file in sorted((module / "crds").glob("*.yaml")) if file.stem != "kustomization"]
        files += [module / name for name in _RIGHTS]
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
        manifests.apply(plane.api(), [namespace, *(_placed(document) for document in documents if document)])
        command = [
            str(program),
            f"--kubeconfig={plane.kubeconfig_for(NAMESPACE, 'argo-rollouts')}",
            "--leader-elect=false",
            f"--healthzPort={free_port()}",
            f"--metricsPort={free_port()}",
        ]
        super().__init__(ROLLOUTS.name, command, plane.folder / f"{ROLLOUTS.name}.log")


def canary(
    world: World, name: str, replicas: int, steps: Sequence[Json], cpu: str = "1", **spec: Any
) -> Json:
    """Creates a Rollout with these canary steps, whose pods carry the label ``app: NAME``."""
    labels = {"app": name}
    body = {
        "apiVersion": GROUP,
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": list(steps)}},
            "template": {"metadata": {"labels": labels}, "spec": world.spec(cpu, **spec)},
        },
    }
    return world.api.create(world.path("rollouts", group=GROUP), body).expect().body


def new_version(world: World, name: str, version: str) -> None:
    """Changes the template: the canary begins."""
    patch = {"spec": {"template": {"metadata": {"labels": {"app": name, "version": version}}}}}
    world.api.patch(world.path("rollouts", name, group=GROUP), patch).expect()


def promote(world: World, name: str) -> None:
    """As ``kubectl argo rollouts promote`` does at a pause."""
    world.api.patch(
        world.path("rollouts", name, "status", group=GROUP), {"status": {"pauseConditions": None}}
    ).expect()


def phase(world: World, name: str) -> str:
    """Healthy, Progressing, Paused or Degraded; "" before its first look."""
    body = world.api.get(world.path("rollouts", name, group=GROUP)).expect().body
    return str((body.get("status") or {}).get("phase", ""))


def _placed(document: dict[str, Any]) -> dict[str, Any]:
    """In its own namespace, as its kustomization says."""
    kind = document["kind"]
    if kind in {"ServiceAccount", "ConfigMap", "Secret"}:
        document["metadata"]["namespace"] = NAMESPACE
    if kind == "ClusterRoleBinding":
        for subject in document["subjects"]:
            subject["namespace"] = NAMESPACE
    return document
