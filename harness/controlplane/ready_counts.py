"""How many pods of a namespace were Ready at every instant: read from the events of a watch, so that no gap between two looks is missed."""

from __future__ import annotations

import threading
import time
from typing import Final

from harness.controlplane.api import Json
from harness.controlplane.world import World, is_ready
from rescheduler.kube.transport import TransportError

_AGAIN_S: Final = 0.2


class ReadyCounts:
    """Counts from now on. ``replicas``: how many are Ready now. ``app``: of this workload alone."""

    def __init__(self, world: World, replicas: int, app: str = "") -> None:
        self._world, self.least, self.most, self._stop = world, replicas, replicas, False
        self._query = {"labelSelector": f"app={app}"} if app else {}
        answer = world.api.get(world.path("pods"), **self._query).expect()
        self._pods = {p["metadata"]["uid"]: p for p in answer.items}
        self._version = answer.version
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        path = self._world.path("pods")
        while not self._stop:
            query = {**self._query, "resourceVersion": self._version}
            try:
                for event in self._world.api.watch(path, seconds=2, **query):
                    self._hear(event)
            except TransportError:
                time.sleep(_AGAIN_S)  # the API server is away: it goes on where it was

    def _hear(self, event: Json) -> None:
        pod = event["object"]
        self._version = pod["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            self._pods.pop(pod["metadata"]["uid"], None)
        else:
            self._pods[pod["metadata"]["uid"]] = pod
        alive = [p for p in self._pods.values() if "deletionTimestamp" not in p["metadata"]]
        self.least = min(self.least, sum(map(is_ready, alive)))
        self.most = max(self.most, len(alive))

    def end(self) -> tuple[int, int]:
        """The fewest Ready pods, and the most pods, at any instant."""
        self._stop = True
        self._thread.join(30)
        return self.least, self.most
