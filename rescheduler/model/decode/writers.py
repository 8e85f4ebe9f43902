"""Decodes who has written which field (``metadata.managedFields``), of the few objects whose writers are told to people."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from rescheduler.model.decode.wire_types import ABSENT, Wire
from rescheduler.model.records import FieldWriter


class ManagedFieldsWire(Wire):
    """v1.ManagedFieldsEntry."""

    manager: str | None = None
    fields_v1: Raw = ABSENT


_decode: Final = msgspec.json.Decoder(list[ManagedFieldsWire] | None).decode


def field_writers(managed_fields: Raw) -> tuple[FieldWriter, ...]:
    """Who has written which field; nothing where it cannot be read, because it only serves messages."""
    try:
        entries = _decode(managed_fields) if managed_fields != ABSENT else None
    except msgspec.MsgspecError:
        return ()
    return tuple(FieldWriter(e.manager or "", bytes(e.fields_v1)) for e in entries or ())
