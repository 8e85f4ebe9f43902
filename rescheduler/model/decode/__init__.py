"""Decoding of API objects: bytes of lists, watch events, single objects and dumps to the records of ``model``.

``Decoder`` is the entrance. The Structs named ``...Wire`` and ``...Head`` describe the JSON of the API; they
never leave this package.
"""

from rescheduler.model.decode.decoder import (
    BadObject,
    Decoder,
    EventType,
    ListPage,
    Record,
    UndecodableError,
    WatchEvent,
)
from rescheduler.model.decode.selectors import forget_selectors

__all__ = [
    "BadObject", "Decoder", "EventType", "ListPage", "Record", "UndecodableError", "WatchEvent", "forget_selectors",
]  # fmt: skip
