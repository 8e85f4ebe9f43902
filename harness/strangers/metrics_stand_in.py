"""What a test says that pods use: as a stand-in of metrics-server beside a control plane, and as text that Prometheus scrapes.

What reads metrics.k8s.io cannot tell it from the real one: NodeMetrics and PodMetrics are custom resources at the same paths, written
every two seconds by a thread.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from harness.controlplane import manifests
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, node_of

GROUP: Final = "metrics.k8s.io"
_API: Final = f"/apis/{GROUP}/v1beta1"
_EVERY_S: Final = 2.0
Json = dict[str, Any]


class UsedByPods:
    """``milli_of(app)``: the CPU that each pod with that label uses, in milli."""

    def __init__(self, world: World, milli_of: Callable[[str], int]) -> None:
        self._world, self._milli_of = world, milli_of
        self._seconds: dict[str, float] = {}
        """By the labels of a series."""
        self._counted_at_s = 0.0

    def used(self) -> Mapping[str, int]:
        """What the pods on each node of the world use now."""
        found: dict[str, int] = {}
        for pod in self._pods():
            found[node_of(pod)] = found.get(node_of(pod), 0) + self._milli(pod)
        return found

    def counters(self) -> str:
        """What Prometheus scrapes: CPU seconds of nodes and pods, counted since the first call, and memory."""
        now_s, used, found = time.time(), self.used(), []
        rates = {f'id="/",node="{name}"': used.get(name, 0) for name in self._world.nodes}
        for pod in self._pods():
            meta = pod["metadata"]
            labels = f'namespace="{meta["namespace"]}",pod="{meta["name"]}",container="main"'
            rates[f'id="/{meta["uid"]}",node="{node_of(pod)}",{labels}'] = self._milli(pod)
        for labels, milli in rates.items():
            before_s = self._seconds.get(labels, 0.0)
            passed_s = now_s - self._counted_at_s if self._counted_at_s else 0.0
            self._seconds[labels] = before_s + milli / 1000 * passed_s
            found.append(f"container_cpu_usage_seconds_total{{{labels}}} {self._seconds[labels]:.6f}")
            found.append(f"container_memory_working_set_bytes{{{labels}}} {1 << 20}")
        self._counted_at_s = now_s
        return "\n".join(found) + "\n"

    def _pods(self) -> list[Json]:
        return [
            pod
            for pod in self._world.pods()
            if node_of(pod)
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def _milli(self, pod: Json) -> int:
        return self._milli_of(pod["metadata"]["labels"].get("app", ""))


class MetricsStandIn(UsedByPods):
    """Context manager: metrics.k8s.io."""

    def __init__(self, plane: ControlPlane, world: World, milli_of: Callable[[str], int]) -> None:
        super().__init__(world, milli_of)
        self._api = plane.api()
        self._known: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self.failed: list[Exception] = []

    def __enter__(self) -> Self:
        manifests.apply(self._api, [_definition("nodes", "NodeMetrics"), _definition("pods", "PodMetrics")])
        self._world.wait(self._served)
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(10)

    def _served(self) -> bool:
        return all(self._api.get(f"{_API}/{plural}").ok for plural in ("nodes", "pods"))

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            try:
                self._write()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.failed.append(error)

    def _write(self) -> None:
        used = self.used()
        names = [node["metadata"]["name"] for node in self._api.get("/api/v1/nodes").expect().body["items"]]
        for name in names:
            self._put(f"{_API}/nodes", {"name": name}, {"usage": _amounts(used.get(name, 0))})
        for pod in self._pods():
            meta = pod["metadata"]
            containers = [{"name": "main", "usage": _amounts(self._milli(pod))}]
            where = f"{_API}/namespaces/{meta['namespace']}/pods"
            self._put(where, {"name": meta["name"]}, {"containers": containers})

    def _put(self, path: str, meta: Json, usage: Json) -> None:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = {"timestamp": now, "window": "15s", **usage}
        place = f"{path}/{meta['name']}"
        if place in self._known:
            self._api.patch(place, fields)
            return
        kind = "NodeMetrics" if path.endswith(f"{_API}/nodes") else "PodMetrics"
        self._api.create(path, {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": meta, **fields})
        self._known.add(place)


def _amounts(milli: int) -> Json:
    return {"cpu": f"{milli}m", "memory": "1Mi"}


def _definition(plural: str, kind: str) -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "scope": "Cluster" if plural == "nodes" else "Namespaced",
            "versions": [
                {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
