"""Which fields of the API are texts: what a reader of YAML has to know before it takes a word for a number.

Read off the wire types, so that a field that is declared there is known here. A field that no wire type declares is no
text as far as this module knows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

import msgspec.inspect as types

from rescheduler.model.decode import decoder  # noqa: F401 -- it imports every wire type
from rescheduler.model.decode.wire_types import ObjectWire, Wire

Path = Sequence[str | int]
"""Where a value stands: keys and indexes from the root."""

_RAW_MAPS: Final = frozenset({"labels", "nodeSelector", "selector"})
"""Maps of texts that the wire types keep as they are written (``Raw``)."""
_TYPE: Final = frozenset({"apiVersion", "kind"})
_LIST: Final = "items"


class _Holds(enum.Enum):
    """What a field holds, besides objects and null."""

    TEXT = enum.auto()
    MAP_OF_TEXTS = enum.auto()
    OTHER = enum.auto()


class _Fields(NamedTuple):
    """Names of fields that hold nothing but texts."""

    top: frozenset[str]
    """Of objects themselves."""
    inner: frozenset[str]
    """Of what is inside objects."""
    maps: frozenset[str]
    """Maps of texts, at any depth."""


def is_text(path: Path) -> bool:
    """True if the API demands a text there. ``path``: of a scalar in an object, or in a list of objects."""
    keys = [step for step in path if isinstance(step, str)]
    if not keys:
        return False
    fields = _fields()
    if len(keys) > 1 and keys[-2] in fields.maps and path[-1] == keys[-1]:
        return True
    inside = any(key != _LIST for key in keys[:-1])
    return keys[-1] in (fields.inner if inside else fields.top)


@cache
def _fields() -> _Fields:
    objects = set(_with_heirs(ObjectWire))
    inner = set(_with_heirs(Wire)) - objects
    return _Fields(
        top=_names(objects, _Holds.TEXT) | _TYPE,
        inner=_names(inner, _Holds.TEXT),
        maps=_names(objects | inner, _Holds.MAP_OF_TEXTS) | _RAW_MAPS,
    )


def _with_heirs(wire: type[Wire]) -> Iterator[type[Wire]]:
    yield wire
    for heir in wire.__subclasses__():
        yield from _with_heirs(heir)


def _names(wires: Iterable[type[Wire]], wanted: _Holds) -> frozenset[str]:
    """Fields that hold nothing else, in any of the types."""
    held: dict[str, set[_Holds]] = {}
    for wire in wires:
        described = types.type_info(wire)
        for field in described.fields if isinstance(described, types.StructType) else ():
            held.setdefault(field.encode_name, set()).update(_holds(field.type))
    return frozenset(name for name, kinds in held.items() if kinds == {wanted})


def _holds(declared: types.Type) -> Iterator[_Holds]:
    match declared:
        case types.UnionType():
            for one in declared.types:
                yield from _holds(one)
        case types.ListType():
            yield from _holds(declared.item_type)
        case types.DictType():
            texts = set(_holds(declared.value_type)) == {_Holds.TEXT}
            yield _Holds.MAP_OF_TEXTS if texts else _Holds.OTHER
        case types.StrType() | types.DateTimeType():
            yield _Holds.TEXT
        case types.StructType() | types.NoneType() | types.RawType():
            return
        case _:
            yield _Holds.OTHER
