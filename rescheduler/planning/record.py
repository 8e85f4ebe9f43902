"""The base of the records of a plan that have numbers: whatever numpy scalar is put in, a Python number is what is read.

Policies and rules work with arrays, whose elements look like numbers and are none for JSON and YAML. Records are what leaves
``planning``, so they are the one place where that ends. Pure; no other value is changed.
"""

from __future__ import annotations

from functools import cache
from typing import Final, get_args

import msgspec
import numpy as np

_NUMBERS: Final = frozenset({bool, int, float})


class Record(msgspec.Struct, frozen=True):
    """A record whose fields have no numpy scalars. Tuples are left as they are: those of records hold records and text."""

    def __post_init__(self) -> None:
        """Also after ``msgspec.structs.replace``."""
        for name in _with_numbers(type(self)):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                msgspec.structs.force_setattr(self, name, value.item())


@cache
def _with_numbers(record: type[Record]) -> tuple[str, ...]:
    """The fields of a record that may have numbers."""
    fields = msgspec.structs.fields(record)
    return tuple(
        field.name for field in fields if not _NUMBERS.isdisjoint({field.type, *get_args(field.type)})
    )
