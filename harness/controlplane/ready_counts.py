"""How many pods of a namespace were Ready at every instant: read from the events of a watch, so that no gap between two looks is missed."""

from __future__ import annotations

import threading

from harness.controlplane.world import World, is_ready


class ReadyCounts:
    """Counts from now on. ``replicas``: how many are Ready now."""

    def __init__(self, world: World, replicas: int) -> None:
        self._world, self.least, self.most, self._stop = world, replicas, replicas, False
        answer = world.api.get(world.path("pods")).expect()
        self._pods = {p["metadata"]["uid"]: p for p in answer.items}
        self._version = answer.version
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        path = self._world.path("pods")
        while not self._stop:
            for event in self._world.api.watch(path, seconds=2, resourceVersion=self._version):
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
        self._thread.join(5)
        return self.least, self.most
