"""Kubelets of fake nodes on a real control plane: two watches that feed a queue, and one worker for all nodes.

After any break a watch lists again; objects that are missing from the list were deleted.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec

from kube_sandbox.kubelet.kubelet import Kubelet, KubeletAction, KubeletSettings
from kube_sandbox.kubelet.objects import kubelet_node, pod_on_node
from kube_sandbox.kubelet.sync_loop import taken
from rescheduler.kube.transport import Request, Stream, Transport, TransportError
from rescheduler.model.resources import QuantityError

RELIST_PAUSE_S: Final = 0.2
WATCH_S: Final = 300
OK: Final = 200

Event = tuple[str, str, dict[str, Any]]
"""Collection, type (ADDED, MODIFIED, DELETED, LISTED) and object; the object of LISTED is the whole list."""


class _WatchLine(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: dict[str, Any]


class KubeletThread:
    """Context manager: kubelets for every node of the API server, in the background."""

    def __init__(
        self,
        transport: Transport,
        settings: KubeletSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.kubelet = Kubelet(settings)
        self._transport = transport
        self._clock = clock
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._streams: dict[str, Stream] = {}
        self._threads = [
            threading.Thread(target=self._follow, args=("nodes",), name="kubelet-nodes", daemon=True),
            threading.Thread(target=self._follow, args=("pods",), name="kubelet-pods", daemon=True),
            threading.Thread(target=self._work, name="kubelet", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the watches and wait for the threads."""
        self._stopped.set()
        for stream in list(self._streams.values()):
            stream.close()
        self._events.put(("", "", {}))
        for thread in self._threads:
            thread.join(5)

    def _follow(self, plural: str) -> None:
        """List and watch, until the thread is stopped."""
        while not self._stopped.is_set():
            with contextlib.suppress(TransportError):
                self._list_and_watch(plural)
            self._stopped.wait(RELIST_PAUSE_S)

    def _list_and_watch(self, plural: str) -> None:
        path = f"/api/v1/{plural}"
        answer = self._transport.send(Request(method="GET", path=path))
        if answer.status != OK:
            return
        listed = msgspec.json.decode(answer.body)
        self._events.put((plural, "LISTED", listed))
        query = {
            "watch": "true",
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        stream = self._transport.stream(
            Request(method="GET", path=path, query=query, timeout_s=WATCH_S + 5.0)
        )
        self._streams[plural] = stream
        try:
            if stream.status == OK and not self._stopped.is_set():
                self._read(plural, stream)
        finally:
            stream.close()

    def _read(self, plural: str, stream: Stream) -> None:
        """Read events until the stream ends or the server reports an error (410); the caller then lists again."""
        decode = msgspec.json.Decoder(_WatchLine).decode
        rest = b""
        for chunk in stream:
            *whole, rest = (rest + chunk).split(b"\n")
            for line in filter(None, whole):
                event = decode(line)
                if event.type == "ERROR":
                    return
                if event.type != "BOOKMARK":
                    self._events.put((plural, event.type, event.object))

    def _work(self) -> None:
        """The thread that owns the kubelet: it takes events and sends the actions that are due."""
        while not self._stopped.is_set():
            due_s = self.kubelet.next_due_s()
            wait_s = None if due_s is None else max(due_s - self._clock(), 0.0)
            with contextlib.suppress(queue.Empty):
                self._take(self._events.get(timeout=wait_s))
                while not self._events.empty():
                    self._take(self._events.get_nowait())
            for action in self.kubelet.due(self._clock()):
                if not self._send(action):
                    self.kubelet.failed(action, self._clock())

    def _take(self, event: Event) -> None:
        plural, kind, obj = event
        if not plural:
            return
        if kind == "LISTED":
            self._take_list(plural, obj.get("items") or [])
        elif plural == "nodes":
            self._take_node(kind, obj)
        else:
            self._take_pod(kind, obj)

    def _take_list(self, plural: str, items: list[dict[str, Any]]) -> None:
        """Take a list: objects that are missing from it were deleted."""
        if plural == "nodes":
            for name in self.kubelet.node_names() - {item["metadata"]["name"] for item in items}:
                self.kubelet.node_deleted(name)
            for item in items:
                self._take_node("ADDED", item)
            return
        for gone in self.kubelet.pod_uids() - {item["metadata"]["uid"] for item in items}:
            self.kubelet.pod_deleted(gone, self._clock())
        for item in items:
            self._take_pod("ADDED", item)

    def _take_node(self, kind: str, obj: dict[str, Any]) -> None:
        if kind == "DELETED":
            self.kubelet.node_deleted(obj["metadata"]["name"])
            return
        with contextlib.suppress(msgspec.ValidationError, QuantityError):
            self.kubelet.node_changed(kubelet_node(obj), self._clock())

    def _take_pod(self, kind: str, obj: dict[str, Any]) -> None:
        if kind == "DELETED":
            self.kubelet.pod_deleted(obj["metadata"]["uid"], self._clock())
            return
        with contextlib.suppress(msgspec.ValidationError, QuantityError):
            self.kubelet.pod_changed(pod_on_node(obj), self._clock())

    def _send(self, action: KubeletAction) -> bool:
        """True if the API server took the action, or rejected it for good because the pod was deleted or replaced."""
        try:
            return taken(self._transport.send(action.request))
        except TransportError:
            return False
