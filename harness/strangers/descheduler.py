"""descheduler v0.36.0, unmodified, beside a control plane: with the rights of its own manifests, on the nodes of one test's world.

``Descheduler`` runs it in cycles until the block ends; what it asked for and what became of that is read from its log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from harness.controlplane import manifests
from harness.controlplane.processes import Process
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import WORLD, World
from harness.strangers.build import find, source
from harness.strangers.tools import DESCHEDULER

NAMESPACE: Final = "kube-system"
ACCOUNT: Final = "descheduler-sa"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_ASKED: Final = re.compile(
    r'"(Evicted pod|Error evicting pod)"(?: err="(?P<error>(?:[^"\\]|\\.)*)")? pod="(?P<pod>[^"]+)"'
)
_CYCLES: Final = '"Number of evictions/requests"'


@dataclass(frozen=True, slots=True)
class Asked:
    """One eviction that it asked for. ``error``: "" if the API server evicted the pod."""

    pod: str
    error: str


class Descheduler(Process):
    """Context manager: one cycle after the other."""

    def __init__(
        self,
        plane: ControlPlane,
        world: World,
        plugins: Mapping[str, tuple[str, Any]],
        *,
        interval_s: int = 5,
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        """``plugins``: the extension point and the arguments of each, by name. ``limits``: more of its policy. Raises BinariesMissing."""
        policy = plane.folder / f"descheduler-{world.namespace}.yaml"
        policy.write_text(yaml.safe_dump(_policy(world, plugins, limits or {})))
        for obj in _rights():
            manifests.apply(plane.api(), [obj])
        command = [
            str(find(DESCHEDULER)),
            f"--kubeconfig={plane.kubeconfig_for(NAMESPACE, ACCOUNT)}",
            f"--policy-config-file={policy}",
            f"--descheduling-interval={interval_s}s",
            "--secure-port=0",
            "--v=3",
        ]
        super().__init__(DESCHEDULER.name, command, plane.folder / f"descheduler-{world.namespace}.log")

    @property
    def asked(self) -> list[Asked]:
        """All evictions so far, in its order."""
        return [Asked(found["pod"], found["error"] or "") for found in _ASKED.finditer(self.said)]

    @property
    def cycles(self) -> int:
        """How many have ended."""
        return self.said.count(_CYCLES)

    @property
    def said(self) -> str:
        """Its log. AssertionError if it has ended by itself."""
        if not self.running:
            raise AssertionError(self.log_tail())
        return self.log.read_text(errors="replace")


def _rights() -> list[dict[str, Any]]:
    """Its own manifest; what names no namespace is for its own."""
    documents = yaml.safe_load_all((source(DESCHEDULER) / "kubernetes" / "base" / "rbac.yaml").read_text())
    objects = [document for document in documents if document]
    for obj in objects:
        if not obj["kind"].startswith("Cluster"):
            obj["metadata"].setdefault("namespace", NAMESPACE)
    return objects


def _policy(
    world: World, plugins: Mapping[str, tuple[str, Any]], limits: Mapping[str, Any]
) -> dict[str, Any]:
    points: dict[str, dict[str, list[str]]] = {}
    for name, (point, _) in plugins.items():
        points.setdefault(point, {"enabled": []})["enabled"].append(name)
    protections = {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}
    default_evictor = {"name": "DefaultEvictor", "args": protections}
    arguments = [{"name": name, "args": args} for name, (_, args) in plugins.items()]
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"{WORLD}={world.namespace}",
        **limits,
        "profiles": [{"name": "test", "pluginConfig": [default_evictor, *arguments], "plugins": points}],
    }
