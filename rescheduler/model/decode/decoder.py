"""Decodes bytes of the API into records: pages of lists, watch events, single objects.

A page is decoded in one pass. If that fails, its items are decoded one by one, and each damaged item becomes a
``BadObject``: one damaged object never fails the list. A decoder shares equal parts between its records and keeps
no reference to the bytes. For one thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec import Raw

from rescheduler.errors import ReschedulerError
from rescheduler.model.config_map import ConfigMap
from rescheduler.model.decode import budgets, koordinator, nodes, storage
from rescheduler.model.decode.custom_resources import own_reader, own_wire
from rescheduler.model.decode.dump import ItemBatch
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.pod_wire_types import PodHead
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.stand_ins import stand_in
from rescheduler.model.decode.wire_form import Complete, object_reader, object_type
from rescheduler.model.decode.wire_types import (
    DAMAGE,
    ListMetaWire,
    MetaWire,
    ObjectWire,
    UnreadableWire,
    Wire,
)
from rescheduler.model.decode.workloads import PodGroupWire, WorkloadWire, pod_group, workload
from rescheduler.model.eviction_request import RequestedEviction
from rescheduler.model.kinds import WORKLOAD_KINDS, Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import GATE
from rescheduler.model.own_objects import OwnObject
from rescheduler.model.pod_group import PodGroupRecord
from rescheduler.model.records import (
    DeviceClass,
    DisruptionBudget,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    Service,
    Workload,
)
from rescheduler.model.replacement_rules import AdmittedPod
from rescheduler.model.reservation import KoordinatorReservation, Reservation
from rescheduler.model.resource_quota import ResourceQuota
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.storage_records import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

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
    | ResourceQuota
    | Reservation
    | PodMigration
    | ReservationWindow
    | HeadRoom
    | KoordinatorReservation
    | PodGroupRecord
    | ConfigMap
    | RequestedEviction
)
"""Any record that a decoder makes."""

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_OWN: Final[dict[Kind, type[OwnObject]]] = {
    Kind.RESERVATION: Reservation,
    Kind.POD_MIGRATION: PodMigration,
    Kind.RESERVATION_WINDOW: ReservationWindow,
    Kind.HEAD_ROOM: HeadRoom,
}
_DECLARED: Final[dict[Kind, type[msgspec.Struct]]] = {
    Kind.NAMESPACE: Namespace,
    Kind.POD_DISRUPTION_BUDGET: DisruptionBudget,
    Kind.PRIORITY_CLASS: PriorityClass,
    Kind.SERVICE: Service,
    Kind.CONFIG_MAP: ConfigMap,
    Kind.RESOURCE_QUOTA: ResourceQuota,
    Kind.STORAGE_CLASS: StorageClass,
    Kind.PERSISTENT_VOLUME_CLAIM: PersistentVolumeClaim,
    Kind.CSI_DRIVER: CSIDriver,
    Kind.CSI_STORAGE_CAPACITY: CSIStorageCapacity,
    Kind.VOLUME_ATTACHMENT: VolumeAttachment,
    Kind.DEVICE_CLASS: DeviceClass,
    Kind.REQUESTED_EVICTION: RequestedEviction,
    Kind.KOORDINATOR_RESERVATION: KoordinatorReservation,
}
"""Kinds of others whose records declare where their fields are read."""
_DECLARED_WIRES: Final = {kind: object_type(record) for kind, record in _DECLARED.items()}
_COMPLETED: Final[dict[Kind, Complete]] = {
    Kind.SERVICE: budgets.with_owners,
    Kind.CONFIG_MAP: budgets.with_annotations,
    Kind.RESOURCE_QUOTA: budgets.with_limits,
    Kind.STORAGE_CLASS: storage.with_default,
    Kind.PERSISTENT_VOLUME_CLAIM: storage.with_annotations,
    Kind.KOORDINATOR_RESERVATION: koordinator.completed,
}


class UndecodableError(ReschedulerError, ValueError):
    """The bytes are no list, event or object: the stream or file cannot be used."""


class BadObject(msgspec.Struct, frozen=True):
    """A damaged object that was not decoded; ``Decoder.stand_in`` makes the record that counts instead."""

    kind: str
    name: str
    """NAMESPACE/NAME, or NAME; a question mark if the name cannot be decoded either."""
    error: str


class ListPage(msgspec.Struct, frozen=True):
    """One page of a list."""

    records: tuple[Record, ...]
    """Stand-ins of damaged objects included."""
    bad: tuple[BadObject, ...] = ()
    resource_version: str = ""
    continue_token: str = ""
    """Empty on the last page."""


class EventType(enum.StrEnum):
    """type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, frozen=True):
    """One event of a watch."""

    type: EventType
    record: Record | None = None
    """None for BOOKMARK and ERROR. Of a damaged object its stand-in; None if there is none."""
    resource_version: str = ""
    """Version from which a new watch continues."""
    initial_events_end: bool = False
    """A BOOKMARK that ends the initial events of a streaming list."""
    status_code: int = 0
    """Of an ERROR; 410: the caller has to list again."""
    message: str = ""
    """Of an ERROR."""
    bad: BadObject | None = None
    """The damaged object of the event."""


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
    """JSON decoders of one wire type: for a list page, a watch event, one object, an array."""

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
        typed = msgspec.defstruct(
            f"{wire.__name__}Typed",
            [("api_version", str | None, None), ("kind", str | None, None)],
            bases=(wire,), gc=False, rename="camel",
        )  # fmt: skip
        self.array: Callable[[bytes], Any] = msgspec.json.Decoder(list[typed]).decode  # type: ignore[valid-type]


@cache
def _parsers(wire: Hashable) -> _Parsers:
    """The parsers of a wire type, compiled once for all decoders."""
    return _Parsers(cast("type[Any]", wire))


class _Codec(NamedTuple):
    """Parsers and conversion of one kind."""

    parse: _Parsers
    convert: Callable[[Any], Record]


class Decoder:
    """Decodes every kind."""

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
            wire = codec.parse.page(body)
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
        """Single objects in JSON, each decoded on its own: the records, stand-ins included, and the damaged objects."""
        records: list[Record] = []
        bad: list[BadObject] = []
        for raw in raws:
            found = self.attempt(kind, raw)
            if isinstance(found, BadObject):
                bad.append(found)
                instead = self.stand_in(kind, raw)
                if instead is not None:
                    records.append(instead)
            else:
                records.append(found)
        return tuple(records), tuple(bad)

    def batch(self, kind: Kind, batch: ItemBatch) -> list[Record] | None:
        """All objects of a batch of a dump; None unless it is an array of undamaged objects of its type."""
        codec = self._codecs[kind]
        version, name = batch.type
        may_be_untyped = batch.implied == batch.type
        try:
            wires = codec.parse.array(batch.text)
            for wire in wires:
                typed = wire.kind == name and wire.api_version == version
                if not typed and not (may_be_untyped and not wire.kind):
                    return None
            return [codec.convert(wire) for wire in wires]
        except DAMAGE:
            return None  # the dump then splits the batch, and each object is decoded on its own

    def record(self, kind: Kind, raw: bytes) -> Record:
        """One object.

        Raises:
            UndecodableError: it is damaged; the message names the error.
        """
        found = self.attempt(kind, raw)
        if isinstance(found, BadObject):
            raise UndecodableError(f"{found.kind} {found.name}: {found.error}")
        return found

    def event(self, kind: Kind, line: bytes) -> WatchEvent:
        """One line of a watch of ``kind``.

        Raises:
            UndecodableError: the line is no event in JSON: the caller has to list again.
        """
        codec = self._codecs[kind]
        try:
            wire = codec.parse.event(line)
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
            pass  # a damaged object or a line that is no event: the slow path below tells which
        return self._damaged_event(kind, line)

    def _damaged_event(self, kind: Kind, line: bytes) -> WatchEvent:
        try:
            wire = self._raw_event(line)
            event_type = EventType(wire.type or "")
        except DAMAGE as error:
            raise UndecodableError(f"watch of {kind}: line is no event: {error}") from error
        found = self.attempt(kind, wire.object)
        bad = found if isinstance(found, BadObject) else BadObject(kind.value, "?", "the event has no object")
        instead = self.stand_in(kind, wire.object) if bad is found else None
        return WatchEvent(event_type, instead, self._version(wire.object), bad=bad)

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
        """One object, or the error in it. Never raises."""
        codec = self._codecs[kind]
        try:
            return codec.convert(codec.parse.one(raw))
        except DAMAGE as error:
            return BadObject(kind.value, self._name(raw), str(error))

    def stand_in(self, kind: Kind, raw: bytes | memoryview | Raw) -> Record | None:
        """The record that counts instead of a damaged object; None: it counts as missing. Never raises."""
        codec = self._codecs[kind]
        made: Record | None = stand_in(kind, bytes(raw), lambda text: codec.convert(codec.parse.one(text)))
        return made

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
        Kind.NODE: (nodes.NodeWire, nodes.node),
        Kind.PERSISTENT_VOLUME: (storage.PersistentVolumeWire, storage.volume),
        Kind.CSI_NODE: (storage.CSINodeWire, storage.csi_node),
        Kind.VOLCANO_POD_GROUP: (PodGroupWire, pod_group),
        Kind.COSCHEDULING_POD_GROUP: (PodGroupWire, pod_group),
        Kind.POD_GROUP: (PodGroupWire, pod_group),
    }
    codecs: dict[Kind, _Codec] = {Kind.POD: _Codec(_parsers(PodHead), pods.pod)}
    for kind, (wire, convert) in simple.items():
        codecs[kind] = _Codec(_parsers(wire), _with_meta(convert, shared))
    for kind in WORKLOAD_KINDS:
        codecs[kind] = _Codec(_parsers(WorkloadWire), _workload_converter(kind, shared, pods))
    for kind, found in _DECLARED.items():
        reader = object_reader(found, shared, _COMPLETED.get(kind))
        codecs[kind] = _Codec(_parsers(_DECLARED_WIRES[kind]), _read_with_meta(reader))
    for kind, own in _OWN.items():
        codecs[kind] = _Codec(_parsers(own_wire(own)), _read_with_meta(own_reader(own, shared, pods)))
    return codecs


def _with_meta(
    convert: Callable[[Any, MetaWire, SharedParts], Record], shared: SharedParts
) -> Callable[[Any], Record]:
    return lambda wire: convert(wire, _meta(wire), shared)


def _read_with_meta(read: Callable[[Any, MetaWire], Record]) -> Callable[[Any], Record]:
    return lambda wire: read(wire, _meta(wire))


def _workload_converter(
    kind: Kind, shared: SharedParts, pods: PodDecoder
) -> Callable[[WorkloadWire], Record]:
    return lambda wire: workload(kind, wire, _meta(wire), shared, pods)


def _meta(wire: ObjectWire) -> MetaWire:
    """Metadata. An object without a name is damaged."""
    meta = wire.metadata
    if meta is None or not meta.name:
        raise UndecodableError("metadata.name is missing")
    return meta


def admitted_pod(body: bytes) -> AdmittedPod:
    """The pod without the gate of this program, which is removed from every replacement.

    Gates of others stay. So does a preference of our admission policy ``hint.rescheduler.dev``: the replacement gets it too.

    Raises:
        UndecodableError: the body is no pod.
    """
    pod = Decoder().record(Kind.POD, body)
    if not isinstance(pod, Pod):
        raise UndecodableError("the answer to a dry-run creation is no pod")
    spec = pod.spec
    ungated = GATE not in spec.gates
    if not ungated:
        spec = msgspec.structs.replace(spec, gates=tuple(gate for gate in spec.gates if gate != GATE))
    return AdmittedPod(spec=spec, labels=pod.labels, ungated=ungated)
