"""What became of every pod of a world: when it was there, bound, Ready and gone, read from the events of a watch.

For figures of runs beside the programs of others: how long replacements were pending, and how many pods stood at each moment.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Self

from harness.controlplane.api import Json
from harness.controlplane.world import World, is_ready, node_of


@dataclass(slots=True)
class Seen:
    """One pod; times are monotonic seconds, None: not yet."""

    app: str
    came_s: float
    bound_s: float | None = None
    node: str = ""
    ready_s: float | None = None
    gone_s: float | None = None


class Pending(NamedTuple):
    """How long pods that came within a time were pending, in seconds."""

    pods: int
    median_s: float
    longest_s: float
    never: int
    """Those that were gone, or the time was over, before they were bound."""

    def __str__(self) -> str:
        never = f", {self.never} never bound" if self.never else ""
        return f"{self.pods} pods pending for {self.median_s:.2f} s (median), {self.longest_s:.2f} s at most{never}"


class Landings:
    """Context manager: watches the pods of a world."""

    def __init__(self, world: World) -> None:
        self._world, self._stop = world, threading.Event()
        self.pods: dict[str, Seen] = {}
        answer = world.api.get(world.path("pods")).expect()
        self._version = answer.version
        for pod in answer.items:
            self._hear(pod, "ADDED")

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="landings", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10.0)

    def pending(self, since_s: float, apps: Collection[str]) -> Pending:
        """Of the pods of these apps that have come since then."""
        came = [pod for pod in list(self.pods.values()) if since_s <= pod.came_s and pod.app in apps]
        waited = sorted(pod.bound_s - pod.came_s for pod in came if pod.bound_s is not None)
        if not waited:
            return Pending(len(came), 0.0, 0.0, len(came))
        return Pending(len(came), statistics.median(waited), waited[-1], len(came) - len(waited))

    def _run(self) -> None:
        path = self._world.path("pods")
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                for event in self._world.api.watch(path, seconds=2, resourceVersion=self._version):
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    self._hear(event["object"], event["type"])

    def _hear(self, pod: Json, what: str) -> None:
        now_s, uid = time.monotonic(), pod["metadata"]["uid"]
        seen = self.pods.setdefault(uid, Seen(pod["metadata"].get("labels", {}).get("app", ""), now_s))
        if node_of(pod) and seen.bound_s is None:
            seen.bound_s, seen.node = now_s, node_of(pod)
        if is_ready(pod) and seen.ready_s is None:
            seen.ready_s = now_s
        if (what == "DELETED" or "deletionTimestamp" in pod["metadata"]) and seen.gone_s is None:
            seen.gone_s = now_s
