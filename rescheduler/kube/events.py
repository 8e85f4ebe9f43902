"""Events (events.k8s.io/v1) for people: what was done to a pod, its owner, a Reservation, and why.

Promises: ``record`` never blocks and never fails its caller; Events are best effort: what cannot be
written is counted and forgotten. A thread of its own writes them, and no error of one Event ends it. Their times and
the order of their names are those in which they were recorded.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError
from rescheduler.kube.event_correlator import EventCorrelator, EventFate
from rescheduler.kube.transport import TransportError
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.names import CONTROLLER_NAME
from rescheduler.model.times import format_micros

_NOTE_BYTES: Final = 1_000
_NAME_CHARACTERS: Final = 220
_FLUSH_S: Final = 3.0


class _Recorded(NamedTuple):
    """An occurrence and when it was recorded, in nanoseconds since the epoch; no two of a recorder have the same time."""

    what: Event
    at_ns: int


class EventRecorder:
    """Writes Events in the background. ``instance``: this process, for example its pod's name."""

    def __init__(
        self,
        api: KubeApi,
        *,
        instance: str,
        capacity: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._instance = instance
        self._queue: queue.Queue[_Recorded | None] = queue.Queue(capacity)
        self._correlator = EventCorrelator()
        self._clock, self._wall = clock, wall
        self._log = structlog.get_logger("rescheduler.events")
        self._thread = threading.Thread(target=self._write_all, name="events", daemon=True)
        self._lock = threading.Lock()
        self._last_ns = 0
        self._defects: set[type[Exception]] = set()
        self._dropped = 0
        self.written = 0

    @property
    def dropped(self) -> int:
        """How many were not written: too many at once, or refused by the server. Metrics read it."""
        return self._dropped

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def record(self, what: Event) -> None:
        """Say it, if there is room."""
        try:
            self._queue.put_nowait(_Recorded(what, self._stamp()))
        except queue.Full:
            self._drop()

    def stop(self, limit_s: float = _FLUSH_S) -> None:
        """Write what is left, for ``limit_s`` at most."""
        try:
            self._queue.put(None, timeout=limit_s)
        except queue.Full:
            return
        if self._thread.is_alive():
            self._thread.join(limit_s)

    def _write_all(self) -> None:
        while (recorded := self._queue.get()) is not None:
            try:
                self._write(recorded)
            except (ApiError, TransportError) as error:
                self._not_written(recorded.what, error)
            except Exception as error:  # noqa: BLE001 - a defect of one Event must not silence all others
                self._defect(recorded.what, error)

    def _not_written(self, what: Event, error: Exception) -> None:
        self._drop()
        self._log.debug("An Event was not written", reason=what.reason, error=str(error))

    def _defect(self, what: Event, error: Exception) -> None:
        """A fault of the program: its traceback is logged once for each type of error."""
        self._not_written(what, error)
        if type(error) not in self._defects:
            self._defects.add(type(error))
            self._log.error("A defect kept an Event from being written", reason=what.reason, exc_info=error)

    def _stamp(self) -> int:
        with self._lock:
            self._last_ns = max(round(self._wall() * 1e9), self._last_ns + 1_000)
            return self._last_ns

    def _write(self, recorded: _Recorded) -> None:
        what = recorded.what
        fate = self._correlator.fate(what, self._clock())
        if fate is EventFate.WRITTEN:
            name = event_name(what.regarding.name, recorded.at_ns)
            namespace = what.regarding.namespace or "default"
            collection = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            self._api.create(collection, self._body(recorded, name, namespace))
            self.written += 1
        elif fate is EventFate.DROPPED:
            self._drop()

    def _drop(self) -> None:
        # Callers of record and the writing thread both count; += alone would lose some of them.
        with self._lock:
            self._dropped += 1

    def _body(self, recorded: _Recorded, name: str, namespace: str) -> dict[str, Any]:
        what = recorded.what
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": format_micros(recorded.at_ns / 1e9),
            "reportingController": CONTROLLER_NAME,
            "reportingInstance": self._instance[:128],
            "action": what.action,
            "reason": what.reason,
            "type": "Warning" if what.warning else "Normal",
            "note": what.message.encode()[:_NOTE_BYTES].decode("utf-8", "ignore"),
            "regarding": _reference(what.regarding),
        }
        if what.related is not None:
            body["related"] = _reference(what.related)
        return body


def event_name(regarding: str, at_ns: int) -> str:
    """A name that no other Event has: the object's, and the time, so that ``kubectl get events`` lists them in order."""
    return f"{regarding[:_NAME_CHARACTERS]}.{at_ns:016x}"


def _reference(of: ObjectReference) -> dict[str, str]:
    reference = {
        "apiVersion": of.api_version,
        "kind": of.kind,
        "namespace": of.namespace,
        "name": of.name,
        "uid": of.uid,
    }
    return {key: value for key, value in reference.items() if value}
