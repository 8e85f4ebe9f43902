"""Watches the Evictions of ``lifecycle.k8s.io`` for the responder, beside the kinds that decisions need.

The API is alpha: what becomes of it keeps no decision waiting, so its informer is none of ``Informers``.
"""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Final

from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import lifecycle_version
from rescheduler.kube.errors import ForbiddenError, NotFoundError
from rescheduler.kube.informer import Events, Informer, SharedDecoder
from rescheduler.kube.reflector import ChangeType
from rescheduler.kube.transport import Transport
from rescheduler.model.decode import Decoder
from rescheduler.model.eviction_request import RequestedEviction
from rescheduler.model.kinds import Kind, Resource, requested_evictions
from rescheduler.model.records import ObjectKey

_GONE: Final = (ChangeType.DELETED, ChangeType.LOST)


def readable_evictions(api: KubeApi) -> Resource | None:
    """Where Evictions are; None: they are not served, or the responder's rights are not installed. Raises ApiError, TransportError."""
    version = lifecycle_version(api)
    if not version:
        return None
    resource = requested_evictions(version)
    try:
        api.get(resource.collection_path, {"limit": "1"})
    except (NotFoundError, ForbiddenError):
        return None
    return resource


class EvictionWatch:
    """From ``start`` to ``stop``. ``current`` is for one thread."""

    def __init__(self, transport: Transport, resource: Resource) -> None:
        self._events: Events = queue.SimpleQueue()
        self._known: dict[ObjectKey, RequestedEviction] = {}
        self._informer = Informer(
            Kind.REQUESTED_EVICTION, resource, transport, SharedDecoder(Decoder()), self._events
        )

    def start(self) -> None:
        """Begin to list and watch."""
        self._informer.start()

    def stop(self) -> None:
        """End the watch."""
        self._informer.stop()

    def current(self) -> Sequence[RequestedEviction]:
        """Those that exist, by what was seen so far; empty while they cannot be read, as after the rights are taken away."""
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                break
            record = event.record
            if not isinstance(record, RequestedEviction):
                continue
            if event.type in _GONE:
                self._known.pop(record.key, None)
            else:
                self._known[record.key] = record
        return tuple(self._known.values()) if self._informer.synced and not self._informer.problem else ()
