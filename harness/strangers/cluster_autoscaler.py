"""An imitation of how cluster-autoscaler removes an under-used node: its module is not to be had, so this is no test of the program itself.

Written after its sources (core/scaledown/actuation): a first-fit simulation by requests, the taint, all pods of the node at once, each asked for until
it is evicted or MaxPodEvictionTime is over, with the retries that client-go makes by itself of a 429 with Retry-After; then it waits for
their end, and deletes the node. Where one pod stays, it takes the taint off, and tries again later. Left out: cloud providers,
node groups, the clocks of unneeded nodes, and which pods it does not drain.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.controlplane.api import Answer, Json
from harness.controlplane.world import World, node_of
from rescheduler.model.resources import milli

TAINT: Final = "ToBeDeletedByClusterAutoscaler"
USED_AT_MOST: Final = 0.5
"""--scale-down-utilization-threshold."""
MAX_POD_EVICTION_S: Final = 120.0
RETRY_S: Final = 10.0
HEADROOM_S: Final = 30.0
POLL_S: Final = 5.0
_CLIENT_RETRIES: Final = 10
_TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """What became of one node. ``why``: why it stays; "" if it is deleted."""

    why: str
    seconds: float
    stayed: tuple[str, ...] = ()
    """Pods that were not evicted in time."""


class ClusterAutoscaler:
    """Its scale-down of one node at a time. ``max_pod_eviction_s`` and ``grace_s``: its flags, shorter for tests."""

    def __init__(
        self, world: World, *, max_pod_eviction_s: float = MAX_POD_EVICTION_S, grace_s: int = 600
    ) -> None:
        self._world = world
        self._max_pod_eviction_s = max_pod_eviction_s
        self._grace_s = grace_s

    def scale_down(self, node: str, *, decided: bool = False) -> ScaleDown:
        """Removes the node if its pods find a place by the simulation, and are evicted in time.

        ``decided``: it has simulated a while ago, and the cluster may have changed since.
        """
        begun_s = time.monotonic()

        def ended(why: str, stayed: Sequence[str] = ()) -> ScaleDown:
            return ScaleDown(why, time.monotonic() - begun_s, tuple(stayed))

        why = "" if decided else self._unremovable(node)
        if why:
            return ended(why)
        self._taint(node, leaving=True)
        pods = self._on(node)
        with concurrent.futures.ThreadPoolExecutor(max(len(pods), 1)) as threads:
            done = list(threads.map(self._evicted, pods))
        stayed = [pod["metadata"]["name"] for pod, evicted in zip(pods, done, strict=True) if not evicted]
        if stayed:
            self._taint(node, leaving=False)
            return ended("failed to evict pods in time", stayed)
        if not self._gone(pods):
            self._taint(node, leaving=False)
            return ended("pods remained after their time")
        self._world.api.delete(f"/api/v1/nodes/{node}").expect()
        return ended("")

    def _unremovable(self, node: str) -> str:
        """The node is used too much, or one of its pods fits on no other node."""
        nodes = [
            one
            for one in self._world.api.get("/api/v1/nodes").expect().items
            if one["metadata"]["name"].startswith(f"{self._world.namespace}-")
            and not one["spec"].get("unschedulable")
        ]
        free = {one["metadata"]["name"]: milli(one["status"]["allocatable"]["cpu"]) for one in nodes}
        room = free[node]
        for pod in self._world.pods():
            if node_of(pod) in free:
                free[node_of(pod)] -= _cpu(pod)
        if (room - free.pop(node)) / room >= USED_AT_MOST:
            return "used too much"
        for pod in self._on(node):
            place = next((name for name, left in free.items() if left >= _cpu(pod)), "")
            if not place:
                return "no place to move pods"
            free[place] -= _cpu(pod)
        return ""

    def _on(self, node: str) -> list[Json]:
        return [
            pod
            for pod in self._world.pods()
            if node_of(pod) == node and pod["status"].get("phase") in {"Running", "Pending"}
        ]

    def _taint(self, node: str, *, leaving: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        taints = [t for t in self._world.api.get(path).expect().body["spec"]["taints"] if t["key"] != TAINT]
        mark = {"key": TAINT, "value": str(int(time.time())), "effect": "NoSchedule"}
        self._world.api.patch(path, {"spec": {"taints": [*taints, mark] if leaving else taints}}).expect()

    def _evicted(self, pod: Json) -> bool:
        """Asks until the answer is a yes or that there is no such pod, every ten seconds for two minutes."""
        deadline_s = time.monotonic() + self._max_pod_eviction_s
        while True:
            if self._asked(pod).status in {200, 201, 404}:
                return True
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(RETRY_S)

    def _asked(self, pod: Json) -> Answer:
        """One call of client-go, which obeys a Retry-After up to ten times; without a precondition on the uid."""
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self._world.namespace},
            "deleteOptions": {"gracePeriodSeconds": self._grace_s},
        }
        for _ in range(_CLIENT_RETRIES):
            answer = self._world.api.create(self._world.path("pods", name, "eviction"), body)
            after_s = answer.body.get("details", {}).get("retryAfterSeconds", 0)
            if answer.status != _TOO_MANY or not after_s:
                break
            time.sleep(after_s)
        return answer

    def _gone(self, pods: Sequence[Json]) -> bool:
        wanted = {pod["metadata"]["uid"] for pod in pods}
        deadline_s = time.monotonic() + self._grace_s + HEADROOM_S
        while time.monotonic() < deadline_s:
            if not wanted & {pod["metadata"]["uid"] for pod in self._world.pods()}:
                return True
            time.sleep(POLL_S)
        return False


def _cpu(pod: Json) -> int:
    return sum(milli(container["resources"]["requests"]["cpu"]) for container in pod["spec"]["containers"])
