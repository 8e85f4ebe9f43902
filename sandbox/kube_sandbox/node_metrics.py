"""Measured usage of nodes in the sandbox: ``metrics.k8s.io/v1beta1`` nodes, as metrics-server serves it.

Opt-in (``sandbox.add(NodeMeter(...))``, ``rescheduler sandbox --usage``), because policies prefer measured usage
where there is any. No containers run in the sandbox: the usage of a pod is a fixed share of its requests, or the
value of an annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kube_sandbox.apiserver import ApiServer
from kube_sandbox.apiserver.json_values import timestamp
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    GroupKind,
    Obj,
    annotations_of,
    meta,
    spec,
    status,
)
from rescheduler.model.resources import QuantityError, milli, units

ANNOTATION_CPU: Final = "sandbox.rescheduler.dev/cpu-usage"
"""On a pod: its CPU usage (a quantity), in place of the share of its request."""

NODE_METRICS: Final = GroupKind("metrics.k8s.io", "NodeMetrics")
_EVERY_S: Final = 15.0


class NodeMeter:
    """Writes the usage of all nodes every 15 s. ``share``: usage of a pod as a share of its requests."""

    def __init__(self, server: ApiServer, api: Api, *, share: float = 0.5) -> None:
        server.registry.add(
            ResourceType(
                group=NODE_METRICS.group,
                version="v1beta1",
                plural="nodes",
                kind=NODE_METRICS.kind,
                namespaced=False,
                verbs=("get", "list"),
            )
        )
        self._api = api
        self._share = share
        self._due_s = 0.0

    def step(self, now_s: float) -> int:
        """Write the usage if it is due; returns the number of nodes."""
        if now_s < self._due_s:
            return 0
        self._due_s = now_s + _EVERY_S
        nodes = {meta(n)["name"] for n in self._api.list(NODE)}
        usage = self._usage(nodes)
        for name, (cpu, memory) in sorted(usage.items()):
            self._write(name, {"cpu": f"{cpu}m", "memory": str(memory)}, now_s)
        for old in self._api.list(NODE_METRICS):
            if meta(old)["name"] not in nodes:
                self._api.delete(old)
        return len(usage)

    def next_due_s(self, now_s: float) -> float:
        """The next measurement."""
        return max(self._due_s, now_s)

    def _usage(self, nodes: set[str]) -> dict[str, tuple[int, int]]:
        found = dict.fromkeys(nodes, (0, 0))
        for pod in self._api.list(POD):
            node = spec(pod).get("nodeName")
            if node in found and status(pod).get("phase") == "Running":
                cpu, memory = found[node]
                found[node] = (cpu + self._cpu(pod), memory + self._memory(pod))
        return found

    def _cpu(self, pod: Obj) -> int:
        given = annotations_of(pod).get(ANNOTATION_CPU)
        try:
            return milli(given) if given else int(self._share * sum(milli(r) for r in _requests(pod, "cpu")))
        except QuantityError:
            return 0

    def _memory(self, pod: Obj) -> int:
        return int(self._share * sum(units(r) for r in _requests(pod, "memory")))

    def _write(self, name: str, usage: Mapping[str, str], now_s: float) -> None:
        body = {"timestamp": timestamp(now_s), "window": f"{_EVERY_S:g}s", "usage": dict(usage)}
        old = self._api.get(NODE_METRICS, "", name)
        if old is not None:
            self._api.patch(old, body)
            return
        identity = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": NODE_METRICS.kind}
        self._api.create({**identity, "metadata": {"name": name}, **body})


def _requests(pod: Obj, resource: str) -> list[str]:
    containers = spec(pod).get("containers") or ()
    amounts = [((c.get("resources") or {}).get("requests") or {}).get(resource) for c in containers]
    return [a for a in amounts if a is not None]
