"""Measured usage in the sandbox: nodes and pods of ``metrics.k8s.io/v1beta1``, as metrics-server serves them.

Opt-in (``sandbox.add(UsageMeter(...))``, ``rescheduler sandbox --usage``), because policies prefer measured usage
where there is any. No containers run in the sandbox: the usage of a pod is a fixed share of its requests, or the
value of an annotation.
"""

from __future__ import annotations

from typing import Final

from kube_sandbox.apiserver import ApiServer
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
from rescheduler.model.times import format_seconds

ANNOTATION_CPU: Final = "sandbox.rescheduler.dev/cpu-usage"
"""On a pod: its CPU usage (a quantity), in place of the share of its request."""

NODE_METRICS: Final = GroupKind("metrics.k8s.io", "NodeMetrics")
POD_METRICS: Final = GroupKind("metrics.k8s.io", "PodMetrics")
_EVERY_S: Final = 15.0


class UsageMeter:
    """Writes the usage of all nodes and running pods every 15 s. ``share``: usage of a pod as a share of its requests."""

    def __init__(self, server: ApiServer, api: Api, *, share: float = 0.5) -> None:
        for kind, plural in ((NODE_METRICS, "nodes"), (POD_METRICS, "pods")):
            server.registry.add(
                ResourceType(
                    group=kind.group,
                    version="v1beta1",
                    plural=plural,
                    kind=kind.kind,
                    namespaced=kind is POD_METRICS,
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
        usage = dict.fromkeys(nodes, (0, 0))
        pods: dict[tuple[str, str], tuple[int, int]] = {}
        for pod in self._api.list(POD):
            node = spec(pod).get("nodeName")
            if node in usage and status(pod).get("phase") == "Running":
                used = self._cpu(pod), self._memory(pod)
                usage[node] = (usage[node][0] + used[0], usage[node][1] + used[1])
                pods[meta(pod)["namespace"], meta(pod)["name"]] = used
        for name, used in sorted(usage.items()):
            self._write(NODE_METRICS, ("", name), {"usage": _amounts(used)}, now_s)
        for key, used in sorted(pods.items()):
            containers = [{"name": "main", "usage": _amounts(used)}]
            self._write(POD_METRICS, key, {"containers": containers}, now_s)
        known = {NODE_METRICS: {("", name) for name in nodes}, POD_METRICS: set(pods)}
        for kind, keys in known.items():
            for old in self._api.list(kind):
                if (meta(old).get("namespace", ""), meta(old)["name"]) not in keys:
                    self._api.delete(old)
        return len(usage)

    def next_due_s(self, now_s: float) -> float:
        """The next measurement."""
        return max(self._due_s, now_s)

    def _cpu(self, pod: Obj) -> int:
        given = annotations_of(pod).get(ANNOTATION_CPU)
        try:
            return milli(given) if given else int(self._share * sum(milli(r) for r in _requests(pod, "cpu")))
        except QuantityError:
            return 0

    def _memory(self, pod: Obj) -> int:
        return int(self._share * sum(units(r) for r in _requests(pod, "memory")))

    def _write(self, kind: GroupKind, key: tuple[str, str], usage: Obj, now_s: float) -> None:
        body = {"timestamp": format_seconds(now_s), "window": f"{_EVERY_S:g}s", **usage}
        old = self._api.get(kind, *key)
        if old is not None:
            self._api.patch(old, body)
            return
        named = {"name": key[1], "namespace": key[0]} if key[0] else {"name": key[1]}
        identity = {"apiVersion": f"{kind.group}/v1beta1", "kind": kind.kind}
        self._api.create({**identity, "metadata": named, **body})


def _amounts(used: tuple[int, int]) -> dict[str, str]:
    return {"cpu": f"{used[0]}m", "memory": str(used[1])}


def _requests(pod: Obj, resource: str) -> list[str]:
    containers = spec(pod).get("containers") or ()
    amounts = [((c.get("resources") or {}).get("requests") or {}).get(resource) for c in containers]
    return [a for a in amounts if a is not None]
