"""Bytes of API objects to records: pages of lists, watch events, single objects.

A page is decoded in one pass. Where that fails, its items are decoded one by one, and the damaged ones
are set aside as ``BadObject``: one bad object never costs the list. A decoder shares equal parts
between the records that it makes, and keeps no reference to the bytes. For one thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from rescheduler.model import decode_nodes, decode_policies, decode_storage
from rescheduler.model.decode_api_objects import MigrationWire, ReservationWire, migration, reservation
from rescheduler.model.decode_koordinator import KoordinatorReservationWire, koordinator_reservation
from rescheduler.model.decode_pod import PodDecoder
from rescheduler.model.decode_workloads import WorkloadWire, workload
from rescheduler.model.dump import Stretch
from rescheduler.model.kinds import Kind
from rescheduler.model.koordinator import KoordinatorReservation
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DisruptionBudget,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    Service,
    StorageClass,
    VolumeAttachment,
    Workload,
)
from rescheduler.model.reservation import Reservation
from rescheduler.model.shared import SharedParts
from rescheduler.model.wire import DAMAGE, ListMetaWire, MetaWire, ObjectWire, UnreadableWire, Wire
from rescheduler.model.wire_pod import PodHead

Record = (
    Node
    | Pod
    | Namespace
    | Workload
    | DisruptionBudget
    | PriorityClass
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | DeviceClass
    | Service
    | Reservation
    | PodMigration
    | KoordinatorReservation
)
"""Whatever a decoder makes of an object."""

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_WORKLOADS: Final = frozenset(
    {
        Kind.REPLICA_SET,
        Kind.REPLICATION_CONTROLLER,
        Kind.DEPLOYMENT,
        Kind.STATEFUL_SET,
        Kind.DAEMON_SET,
        Kind.JOB,
    }
)


class UndecodableError(ValueError):
    """Bytes that are no list, event or object at all: the stream or file cannot be used."""


class BadObject(msgspec.Struct, frozen=True):
    """A damaged object that was set aside. ``name``: NAMESPACE/NAME, NAME, or "?" where even that is lost."""

    kind: str
    name: str
    error: str


class ListPage(msgspec.Struct, frozen=True):
    """One page of a list. ``continue_token`` "": it was the last one."""

    records: tuple[Record, ...]
    bad: tuple[BadObject, ...] = ()
    resource_version: str = ""
    continue_token: str = ""


class EventType(enum.StrEnum):
    """type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, frozen=True):
    """One event of a watch.

    ``record`` is None for BOOKMARK and ERROR, and where ``bad`` is set. ``resource_version``: the version
    to go on from. ``status_code`` and ``message``: of an ERROR (410: list again).
    """

    type: EventType
    record: Record | None = None
    resource_version: str = ""
    initial_events_end: bool = False
    status_code: int = 0
    message: str = ""
    bad: BadObject | None = None


class BookmarkMetaWire(Wire):
    """metadata of a bookmark."""

    resource_version: str | None = None
    annotations: dict[str, str | None] | None = None


class BookmarkObjectWire(Wire):
    """The object of a bookmark."""

    metadata: BookmarkMetaWire | None = None


class BookmarkWire(Wire, tag_field="type", tag="BOOKMARK"):
    """A BOOKMARK event."""

    object: BookmarkObjectWire | None = None


class StatusObjectWire(Wire):
    """metav1.Status."""

    code: int | None = None
    message: str | None = None
    reason: str | None = None


class ErrorWire(Wire, tag_field="type", tag="ERROR"):
    """An ERROR event."""

    object: StatusObjectWire | None = None


class RawListWire(Wire):
    """A list whose items are decoded one by one."""

    metadata: ListMetaWire | None = None
    items: list[Raw] | None = None


class RawEventWire(Wire):
    """An event whose object is decoded on its own."""

    type: str | None = None
    object: Raw = Raw(b"null")


class _Parsers:
    """JSON decoders of one wire type: of a list page, of a watch event, of one object, of an array."""

    __slots__ = ("array", "event", "one", "page")

    def __init__(self, wire: type[Any]) -> None:
        optional: Any = wire | None
        items: Any = list[wire] | None  # type: ignore[valid-type]
        listed = msgspec.defstruct(
            f"{wire.__name__}List",
            [("metadata", ListMetaWire | None, None), ("items", items, None)],
            gc=False,
        )
        added, modified, deleted = (
            msgspec.defstruct(
                f"{wire.__name__}{tag}", [("object", optional, None)], gc=False, tag_field="type", tag=tag
            )
            for tag in ("ADDED", "MODIFIED", "DELETED")
        )
        any_event: Any = added | modified | deleted | BookmarkWire | ErrorWire
        self.page: Callable[[bytes], Any] = msgspec.json.Decoder(listed).decode
        self.event: Callable[[bytes], Any] = msgspec.json.Decoder(any_event).decode
        self.one: Callable[[bytes | memoryview | Raw], Any] = msgspec.json.Decoder(wire).decode
        stating = msgspec.defstruct(
            f"{wire.__name__}Stating",
            [("api_version", str | None, None), ("kind", str | None, None)],
            bases=(wire,), gc=False, rename="camel",
        )  # fmt: skip
        self.array: Callable[[bytes], Any] = msgspec.json.Decoder(list[stating]).decode  # type: ignore[valid-type]


@cache
def _parsers(wire: Hashable) -> _Parsers:
    """The parsers of a wire type, compiled once for all decoders."""
    return _Parsers(cast("type[Any]", wire))


class _Codec:
    """Parsers and conversion of one kind."""

    __slots__ = ("array", "convert", "event", "one", "page")

    def __init__(self, wire: type[Any], convert: Callable[[Any], Record]) -> None:
        parsers = _parsers(cast("Hashable", wire))
        self.page, self.event, self.one, self.array = parsers.page, parsers.event, parsers.one, parsers.array
        self.convert = convert


class Decoder:
    """Decodes every kind that a Snapshot is made of."""

    def __init__(self) -> None:
        shared = SharedParts()
        pods = PodDecoder(shared)
        self._codecs = _codecs(shared, pods)
        self._raw_list = msgspec.json.Decoder(RawListWire).decode
        self._raw_event = msgspec.json.Decoder(RawEventWire).decode
        self._unreadable = msgspec.json.Decoder(UnreadableWire).decode

    def page(self, kind: Kind, body: bytes) -> ListPage:
        """One page of a list of ``kind``.

        Raises:
            UndecodableError: the body is no list in JSON.
        """
        codec = self._codecs[kind]
        try:
            wire = codec.page(body)
            records = tuple([codec.convert(item) for item in wire.items or ()])
            bad: tuple[BadObject, ...] = ()
        except DAMAGE:
            wire = self._as_raw_list(kind, body)
            records, bad = self.objects(kind, wire.items or ())
        meta = wire.metadata or ListMetaWire()
        return ListPage(records, bad, meta.resource_version or "", meta.continue_ or "")

    def objects(
        self, kind: Kind, raws: Iterable[bytes | Raw]
    ) -> tuple[tuple[Record, ...], tuple[BadObject, ...]]:
        """Single objects (an iterable of JSON texts), each decoded on its own; damaged ones come second."""
        records: list[Record] = []
        bad: list[BadObject] = []
        for raw in raws:
            found = self.attempt(kind, raw)
            if isinstance(found, BadObject):
                bad.append(found)
            else:
                records.append(found)
        return tuple(records), tuple(bad)

    def stretch(self, kind: Kind, stretch: Stretch) -> list[Record] | None:
        """All objects of a stretch of a dump; None unless it is an array of undamaged objects of its type."""
        codec = self._codecs[kind]
        version, name = stretch.type
        unstated = stretch.implied == stretch.type
        try:
            wires = codec.array(stretch.text)
            for wire in wires:
                stated = wire.kind == name and wire.api_version == version
                if not stated and not (unstated and not wire.kind):
                    return None
            return [codec.convert(wire) for wire in wires]
        except DAMAGE:
            return None  # looked at again, object by object, by whoever gets None

    def record(self, kind: Kind, raw: bytes) -> Record:
        """One object.

        Raises:
            UndecodableError: it is damaged; the message says how.
        """
        found = self.attempt(kind, raw)
        if isinstance(found, BadObject):
            raise UndecodableError(f"{found.kind} {found.name}: {found.error}")
        return found

    def event(self, kind: Kind, line: bytes) -> WatchEvent:
        """One line of a watch of ``kind``.

        Raises:
            UndecodableError: the line is no event in JSON: drop the stream and list again.
        """
        codec = self._codecs[kind]
        try:
            wire = codec.event(line)
            if isinstance(wire, BookmarkWire):
                return _bookmark(wire)
            if isinstance(wire, ErrorWire):
                status = wire.object or StatusObjectWire()
                return WatchEvent(EventType.ERROR, status_code=status.code or 0, message=status.message or "")
            if wire.object is not None:
                event_type = EventType(wire.__struct_config__.tag)
                version = wire.object.metadata.resource_version if wire.object.metadata else None
                return WatchEvent(event_type, codec.convert(wire.object), version or "")
        except DAMAGE:
            pass  # looked at again below, more closely
        return self._damaged_event(kind, line)

    def _damaged_event(self, kind: Kind, line: bytes) -> WatchEvent:
        try:
            wire = self._raw_event(line)
            event_type = EventType(wire.type or "")
        except DAMAGE as error:
            raise UndecodableError(f"watch of {kind}: line is no event: {error}") from error
        found = self.attempt(kind, wire.object)
        bad = found if isinstance(found, BadObject) else BadObject(kind.value, "?", "the event has no object")
        return WatchEvent(event_type, None, self._version(wire.object), bad=bad)

    def _version(self, raw: Raw) -> str:
        try:
            meta = self._unreadable(raw).metadata
        except DAMAGE:
            return ""
        return (meta.resource_version or "") if meta else ""

    def _as_raw_list(self, kind: Kind, body: bytes) -> RawListWire:
        try:
            return self._raw_list(body)
        except DAMAGE as error:
            raise UndecodableError(f"list of {kind}: {error}") from error

    def attempt(self, kind: Kind, raw: bytes | memoryview | Raw) -> Record | BadObject:
        """One object, or what is wrong with it. Never raises."""
        codec = self._codecs[kind]
        try:
            return codec.convert(codec.one(raw))
        except DAMAGE as error:
            return BadObject(kind.value, self._name(raw), str(error))

    def _name(self, raw: bytes | memoryview | Raw) -> str:
        try:
            meta = self._unreadable(raw).metadata
        except DAMAGE:
            return "?"
        if meta is None or not meta.name:
            return "?"
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _bookmark(wire: BookmarkWire) -> WatchEvent:
    meta = (wire.object.metadata if wire.object else None) or BookmarkMetaWire()
    ends = (meta.annotations or {}).get(_INITIAL_EVENTS_END) == "true"
    return WatchEvent(EventType.BOOKMARK, None, meta.resource_version or "", initial_events_end=ends)


def _codecs(shared: SharedParts, pods: PodDecoder) -> dict[Kind, _Codec]:
    """One codec for each kind."""
    simple: dict[Kind, tuple[type[ObjectWire], Callable[[Any, MetaWire, SharedParts], Record]]] = {
        Kind.NODE: (decode_nodes.NodeWire, decode_nodes.node),
        Kind.NAMESPACE: (ObjectWire, decode_nodes.namespace),
        Kind.POD_DISRUPTION_BUDGET: (decode_policies.BudgetWire, decode_policies.budget),
        Kind.PRIORITY_CLASS: (decode_policies.PriorityClassWire, decode_policies.priority_class),
        Kind.SERVICE: (decode_policies.ServiceWire, decode_policies.service),
        Kind.PERSISTENT_VOLUME: (decode_storage.VolumeWire, decode_storage.volume),
        Kind.PERSISTENT_VOLUME_CLAIM: (decode_storage.ClaimWire, decode_storage.claim),
        Kind.STORAGE_CLASS: (decode_storage.StorageClassWire, decode_storage.storage_class),
        Kind.CSI_NODE: (decode_storage.CSINodeWire, decode_storage.csi_node),
        Kind.CSI_DRIVER: (decode_storage.CSIDriverWire, decode_storage.csi_driver),
        Kind.CSI_STORAGE_CAPACITY: (decode_storage.CSICapacityWire, decode_storage.csi_capacity),
        Kind.VOLUME_ATTACHMENT: (decode_storage.AttachmentWire, decode_storage.attachment),
        Kind.DEVICE_CLASS: (decode_nodes.DeviceClassWire, decode_nodes.device_class),
        Kind.POD_MIGRATION: (MigrationWire, migration),
        Kind.KOORDINATOR_RESERVATION: (KoordinatorReservationWire, koordinator_reservation),
    }
    codecs: dict[Kind, _Codec] = {Kind.POD: _Codec(PodHead, pods.pod)}
    for kind, (wire, convert) in simple.items():
        codecs[kind] = _Codec(wire, _with_meta(convert, shared))
    for kind in _WORKLOADS:
        codecs[kind] = _Codec(WorkloadWire, _workload_converter(kind, shared, pods))
    codecs[Kind.RESERVATION] = _Codec(
        ReservationWire, lambda wire: reservation(wire, _meta(wire), shared, pods)
    )
    return codecs


def _with_meta(
    convert: Callable[[Any, MetaWire, SharedParts], Record], shared: SharedParts
) -> Callable[[Any], Record]:
    return lambda wire: convert(wire, _meta(wire), shared)


def _workload_converter(
    kind: Kind, shared: SharedParts, pods: PodDecoder
) -> Callable[[WorkloadWire], Record]:
    return lambda wire: workload(kind, wire, _meta(wire), shared, pods)


def _meta(wire: ObjectWire) -> MetaWire:
    """metadata; every object has a name, or it is damaged."""
    meta = wire.metadata
    if meta is None or not meta.name:
        raise UndecodableError("metadata.name is missing")
    return meta
