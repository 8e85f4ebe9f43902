"""Interning: parts with equal content (labels, owners, images, specs) are decoded once and share one object.

Pods of one controller share their spec, labels and owner. A table finds the shared object by the bytes that it
was decoded from; the API server writes map keys sorted, so equal content has equal bytes. A table has two
generations: a value that is not looked up during a whole generation is dropped. A dropped value costs memory
when it is decoded again, never correctness, because records are compared by content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import intern
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from rescheduler.model.decode.wire_types import MetaWire, OwnerReferenceWire
from rescheduler.model.names import KEPT_POD_ANNOTATIONS
from rescheduler.model.node_status import Image
from rescheduler.model.records import OwnerRef
from rescheduler.model.selectors import NO_LABELS, LabelSet

Key = TypeVar("Key")
Value = TypeVar("Value")

GENERATION_SIZE = 1 << 16
"""Entries of one generation: at most twice as many values are held."""


class InternTable(Generic[Key, Value]):
    """Key -> value, bounded by two generations. For one thread; a race could only lose some sharing."""

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int = GENERATION_SIZE) -> None:
        self._new: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}
        self._size = size

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def get(self, key: Key, make: Callable[[Key], Value]) -> Value:
        """The value of ``key``; if the table has none, the result of ``make``, which is kept. Raises what ``make`` raises."""
        value = self._new.get(key)
        if value is not None:
            return value
        value = self._old.pop(key, None)
        if value is None:
            value = make(key)
        if len(self._new) >= self._size:
            self._old, self._new = self._new, {}
        self._new[key] = value
        return value


_EMPTY_PARTS = (b"", b"null", b"{}", b"[]")
_KEPT_PREFIX = "rescheduler.dev/"


class ImageWire(msgspec.Struct, gc=False, rename="camel"):
    """v1.ContainerImage."""

    names: list[str] | None = None
    size_bytes: int | None = None


class SharedParts:
    """Intern tables of one decoder. For one thread."""

    def __init__(self) -> None:
        self._labels: InternTable[bytes, LabelSet] = InternTable()
        self._equal_labels: InternTable[LabelSet, LabelSet] = InternTable()
        self._owners: InternTable[bytes, Owners] = InternTable()
        self._labels_before, self._owners_before = (Raw(), NO_LABELS), (Raw(), NO_OWNERS)
        """Of the object before, which is mostly one of the same controller."""
        self._images: InternTable[bytes, Image] = InternTable()
        self._decode_labels = msgspec.json.Decoder(dict[str, str | None])
        self._decode_image = msgspec.json.Decoder(ImageWire)

    def labels(self, raw: Raw) -> LabelSet:
        """The label set of a ``labels`` object; null and absent are empty."""
        before, found = self._labels_before
        if raw == before:
            return found
        key = bytes(raw)
        found = NO_LABELS if key in _EMPTY_PARTS else self._labels.get(key, self._make_labels)
        self._labels_before = Raw(key), found
        return found

    def equal_labels(self, labels: LabelSet) -> LabelSet:
        """The one shared object with this content."""
        return self._equal_labels.get(labels, lambda same: same) if labels else NO_LABELS

    def owners(self, raw: Raw, namespace: str) -> Owners:
        """The owners of an object of ``namespace``."""
        before, found = self._owners_before
        if raw != before:
            key = bytes(raw)
            found = NO_OWNERS if key in _EMPTY_PARTS else self._owners.get(key, _read_owners)
            self._owners_before = Raw(key), found
        return found.within(namespace) if found.without_uid else found

    def images(self, raws: Iterable[Raw] | None) -> tuple[Image, ...]:
        """The images of a node."""
        return tuple(self._images.get(bytes(raw), self._make_image) for raw in raws or ())

    def _make_labels(self, key: bytes) -> LabelSet:
        decoded = self._decode_labels.decode(key)
        return self.equal_labels(LabelSet({intern(k): intern(v or "") for k, v in decoded.items()}))

    def _make_image(self, key: bytes) -> Image:
        image = self._decode_image.decode(key)
        return Image(tuple(image.names or ()), image.size_bytes or 0)


_decode_owners = msgspec.json.Decoder(list[OwnerReferenceWire]).decode


class Owners(NamedTuple):
    """What is read of a list of owner references."""

    controller: OwnerRef | None = None
    """The owner that has ``controller: true``."""
    pods: tuple[OwnerRef, ...] = ()
    """The owners if all of them are pods, else ()."""
    without_uid: bool = False
    """One of these has no uid."""

    def within(self, namespace: str) -> Owners:
        """The same with a uid for each."""
        controller = self.controller and _with_uid(self.controller, namespace)
        return Owners(controller, tuple(_with_uid(owner, namespace) for owner in self.pods))


NO_OWNERS: Final = Owners()


def _read_owners(key: bytes) -> Owners:
    controller = None
    pods: list[OwnerRef] = []
    wires = _decode_owners(key)
    for wire in wires:
        owner = OwnerRef(
            intern(wire.api_version or ""),
            intern(wire.kind or ""),
            intern(wire.name or ""),
            intern(wire.uid or ""),
        )
        if wire.controller and controller is None:
            controller = owner
        if owner.kind == "Pod" and "/" not in owner.api_version:
            pods.append(owner)
    owning = tuple(pods) if len(pods) == len(wires) else ()
    kept = (controller, *owning) if controller else owning
    return Owners(controller, owning, not all(owner.uid for owner in kept))


def _with_uid(owner: OwnerRef, namespace: str) -> OwnerRef:
    if owner.uid:
        return owner
    return msgspec.structs.replace(owner, uid=substitute_uid(owner.kind, namespace, owner.name))


def substitute_uid(kind: str, namespace: str, name: str) -> str:
    """A uid for an object that has none, as in hand-written manifests: owner references then match by name."""
    return f"{kind}/{namespace}/{name}"


def created_at(meta: MetaWire) -> float:
    """Creation time in seconds since the epoch, 0.0 where it is missing."""
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0


def kept_annotations(meta: MetaWire) -> LabelSet:
    """The annotations that rules read: those of ``rescheduler.dev``, and the protections of other tools."""
    kept = {
        key: value or ""
        for key, value in (meta.annotations or {}).items()
        if key in KEPT_POD_ANNOTATIONS or key.startswith(_KEPT_PREFIX)
    }
    return LabelSet(kept) if kept else NO_LABELS
