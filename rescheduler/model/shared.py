"""Parts that many objects share, decoded once per distinct content: labels, owners, node images.

Keys are the bytes of the part: the API server writes map keys sorted, so equal content has equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern

import msgspec
from msgspec import Raw

from rescheduler.model.intern import InternTable
from rescheduler.model.names import KEPT_POD_ANNOTATIONS
from rescheduler.model.records import Image, OwnerRef
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.wire import MetaWire, OwnerReferenceWire

_NOTHING = (b"", b"null", b"{}", b"[]")
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
        self._owners: InternTable[bytes, tuple[OwnerRef | None]] = InternTable()
        self._images: InternTable[bytes, Image] = InternTable()
        self._decode_labels = msgspec.json.Decoder(dict[str, str | None])
        self._decode_owners = msgspec.json.Decoder(list[OwnerReferenceWire])
        self._decode_image = msgspec.json.Decoder(ImageWire)

    def labels(self, raw: Raw) -> LabelSet:
        """The label set of a ``labels`` object; null and absent are empty."""
        key = bytes(raw)
        return NO_LABELS if key in _NOTHING else self._labels.get(key, self._make_labels)

    def equal_labels(self, labels: LabelSet) -> LabelSet:
        """The one object that stands for labels of this content."""
        return self._equal_labels.get(labels, lambda same: same) if labels else NO_LABELS

    def controller(self, raw: Raw, namespace: str) -> OwnerRef | None:
        """The owner that is marked as controller."""
        key = bytes(raw)
        if key in _NOTHING:
            return None
        owner = self._owners.get(key, self._make_owner)[0]
        if owner is not None and not owner.uid:
            return msgspec.structs.replace(owner, uid=substitute_uid(owner.kind, namespace, owner.name))
        return owner

    def images(self, raws: Iterable[Raw] | None) -> tuple[Image, ...]:
        """The images of a node."""
        return tuple(self._images.get(bytes(raw), self._make_image) for raw in raws or ())

    def _make_labels(self, key: bytes) -> LabelSet:
        decoded = self._decode_labels.decode(key)
        return self.equal_labels(LabelSet({intern(k): intern(v or "") for k, v in decoded.items()}))

    def _make_owner(self, key: bytes) -> tuple[OwnerRef | None]:
        for owner in self._decode_owners.decode(key):
            if owner.controller:
                kind, name = intern(owner.kind or ""), owner.name or ""
                return (OwnerRef(intern(owner.api_version or ""), kind, name, owner.uid or ""),)
        return (None,)

    def _make_image(self, key: bytes) -> Image:
        image = self._decode_image.decode(key)
        return Image(tuple(image.names or ()), image.size_bytes or 0)


def substitute_uid(kind: str, namespace: str, name: str) -> str:
    """A uid for an object without one, as hand-written manifests are: names link them instead."""
    return f"{kind}/{namespace}/{name}"


def created_at(meta: MetaWire) -> float:
    """Creation time in seconds since the epoch, 0.0 where it is missing."""
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0


def kept_annotations(meta: MetaWire) -> LabelSet:
    """The annotations that rules look at: our own, and the protections of other tools."""
    kept = {
        key: value or ""
        for key, value in (meta.annotations or {}).items()
        if key in KEPT_POD_ANNOTATIONS or key.startswith(_KEPT_PREFIX)
    }
    return LabelSet(kept) if kept else NO_LABELS
