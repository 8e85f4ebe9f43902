"""An Event as ``kubectl get events`` shows it: what was done to which object, and why. Pure.

Decisions return Events among their calls; the guard and the configuration tell some, too. A recorder aggregates and sends them
later (``kube.events``): no decision needs the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from rescheduler.model.migration import PodMigration
from rescheduler.model.names import API_VERSION
from rescheduler.model.records import Node, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_sets import HeadRoom, ReservationWindow


class ObjectReference(msgspec.Struct, frozen=True):
    """The object that an Event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that people should know. ``reason`` and ``action``: CamelCase words of a closed list."""

    does: ClassVar = "record_event"
    lane: ClassVar = ""
    regarding: ObjectReference
    reason: str
    message: str
    warning: bool = False
    related: ObjectReference | None = None
    """Another object that it is about, too."""
    action: str = "Reschedule"

    @property
    def line(self) -> str:
        """The Event as ``kubectl get events`` shows it."""
        about = self.regarding
        name = f"{about.namespace}/{about.name}" if about.namespace else about.name
        return f"EVENT {'Warning' if self.warning else 'Normal'} {self.reason} {about.kind}/{name}"

    def __str__(self) -> str:
        return f"{self.line}: {self.message}"


def about(seen: Pod | Node | Reservation | PodMigration | ReservationWindow | HeadRoom) -> ObjectReference:
    """The object as an Event names it."""
    version = "v1" if isinstance(seen, Pod | Node) else API_VERSION
    namespace = seen.namespace if isinstance(seen, Pod | PodMigration) else ""
    return ObjectReference(type(seen).__name__, seen.name, namespace, seen.uid, version)
