"""What counts for an object that cannot be read: its readable fields, and for the others what gives nothing away.

An object that nobody can decode still holds what it holds. So a Reservation or PodMigration keeps its place with
``unreadable`` set, and no step is taken for it; a pod is not moved, and counts with the requests that can be read (if its
node has less room than they say, kube-scheduler refuses the placeholder); a node is sent no new pods; a
PodDisruptionBudget allows no eviction. Of all other kinds the missing object itself is the careful answer: a pod whose
owner or volume is unknown is not moved. Pure, and total: an object without a readable name has no stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from rescheduler.model.decode.wire_types import DAMAGE
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import ANNOTATION_EVICT, TAINT_UNREADABLE
from rescheduler.model.own_objects import LAYOUT_FIELD
from rescheduler.model.records import DisruptionBudget, Node, Pod, Taint
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.selectors import LabelSelector, LabelSet

_PARTS: Final = ("metadata", "spec", "status")
_FIRST: Final = ("name", "namespace", "uid", "resourceVersion")
_LONGEST_MESSAGE: Final = 512
_POD_SEED: Final = {"spec": {"containers": [{"name": "unreadable"}]}}

Found = TypeVar("Found")
Convert = Callable[[bytes], Found]


class Readable(NamedTuple):
    """The readable part of an object."""

    record: Any
    unreadable: Mapping[str, str]
    """Field, such as ``spec.ttl``, -> why it cannot be read."""

    @property
    def message(self) -> str:
        """All of them in one line."""
        return "; ".join(f"{field}: {why}" for field, why in self.unreadable.items())[:_LONGEST_MESSAGE]


def stand_in(kind: Kind, raw: bytes, convert: Convert[Any]) -> Any | None:
    """The record that counts instead of the object; None if there is none. ``convert``: the decoder of the kind."""
    make = _STAND_INS.get(kind)
    seed = _POD_SEED if kind is Kind.POD else {}
    readable = _readable(raw, convert, seed) if make is not None else None
    return make(readable) if make is not None and readable is not None else None


def _readable(raw: bytes, convert: Convert[Any], seed: Mapping[str, Mapping[str, Any]]) -> Readable | None:
    """The object with all fields that can be read, added one by one; None if even its name cannot be read.

    ``seed``: fields without which nothing of the kind can be read.
    """
    try:
        whole = msgspec.json.decode(raw)
    except DAMAGE:
        return None
    if not isinstance(whole, dict):
        return None
    kept: dict[str, Any] = {part: dict(fields) for part, fields in seed.items()}
    unreadable: dict[str, str] = {}
    record: Any = None
    for part, field, value in _fields(whole):
        trial = {**kept, part: {**kept.get(part, {}), field: value} if field else value}
        try:
            found = convert(msgspec.json.encode(trial))
        except DAMAGE as error:
            unreadable[f"{part}.{field}" if field else part] = str(error)
        else:
            kept, record = trial, found
    return Readable(record, unreadable) if record is not None else None


def _fields(whole: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """(part, field, value); the field is "" if the whole part is no object. What names the object comes first."""
    for part in _PARTS:
        content = whole.get(part)
        if isinstance(content, dict):
            for field in sorted(content, key=lambda f: (f not in _FIRST, f != "name", f)):
                yield part, field, content[field]
        elif content is not None:
            yield part, "", content


def _marked(readable: Readable) -> Any:
    lost = any(field.partition(".")[0] == "status" for field in readable.unreadable)
    return msgspec.structs.replace(readable.record, unreadable=readable.message, status_unreadable=lost)


def _only_newer(readable: Readable) -> bool:
    """True if all of it can be read, in the layout of a newer version. An end is an end in every layout."""
    return set(readable.unreadable) == {LAYOUT_FIELD}


def _reservation(readable: Readable) -> Reservation:
    record: Reservation = _marked(readable)
    over = record.status.phase in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
    if record.status_unreadable and not (over and _only_newer(readable)):  # it may hold a room
        status = msgspec.structs.replace(record.status, phase=ReservationPhase.AVAILABLE)
        record = msgspec.structs.replace(record, status=status)
    return record


def _migration(readable: Readable) -> PodMigration:
    record: PodMigration = _marked(readable)
    over = record.status.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
    if record.status_unreadable and not (over and _only_newer(readable)):  # its pod may have been evicted
        status = msgspec.structs.replace(record.status, phase=MigrationPhase.EVICTING)
        record = msgspec.structs.replace(record, status=status)
    return record


def _pod(readable: Readable) -> Pod:
    record: Pod = readable.record
    annotations = LabelSet({**dict(record.annotations.items()), ANNOTATION_EVICT: "false"})
    return msgspec.structs.replace(record, annotations=annotations)


def _node(readable: Readable) -> Node:
    record: Node = readable.record
    return msgspec.structs.replace(record, taints=(*record.taints, Taint(TAINT_UNREADABLE)))


def _budget(readable: Readable) -> DisruptionBudget:
    record: DisruptionBudget = readable.record
    selector = record.selector if "spec.selector" not in readable.unreadable else LabelSelector()
    return msgspec.structs.replace(record, selector=selector, disruptions_allowed=0)


_STAND_INS: Final[Mapping[Kind, Callable[[Readable], Any]]] = {
    Kind.RESERVATION: _reservation,
    Kind.POD_MIGRATION: _migration,
    Kind.RESERVATION_WINDOW: _marked,
    Kind.HEAD_ROOM: _marked,
    Kind.POD: _pod,
    Kind.NODE: _node,
    Kind.POD_DISRUPTION_BUDGET: _budget,
}
