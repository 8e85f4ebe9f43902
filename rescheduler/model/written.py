"""How values stand in a document of the configuration: their keys, their units, and what is wrong with one.

A section is one frozen Struct, in the package that uses it: its fields are what the code works with (seconds, amounts,
compiled selectors), and the type of a field says how such a value is written. Pure; ``configuration.reader`` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.model.times import DurationError, format_duration, parse_duration

T = TypeVar("T")

Mistake = tuple[tuple[str | int, ...], str, str]
"""Where in the value, what is wrong, and what has to be written instead."""


class MistakenError(ReschedulerError, ValueError):
    """What is written is no such value."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"{message} ({remedy})" for _, message, remedy in self.mistakes))


@dataclass(frozen=True, slots=True)
class WrittenAs:
    """Mark of a type (``Annotated``): such a value is written as a ``kind``, of which ``read`` makes it."""

    kind: Any
    read: Callable[[Any], Any]
    """Raises MistakenError."""
    show: Callable[[float], str] = "{:g}".format
    """A bound of the type, as it is written."""


@dataclass(frozen=True, slots=True)
class _NoKey:
    """Mark of a field that no document sets."""


_NO_KEY: Final = _NoKey()
NoKey = Annotated[T, _NO_KEY]
"""Of a field that has no key: a limit that is fixed, or what follows from other sections."""


def document_key(field: str) -> str:
    """The key of a field: in camel case, and without the unit."""
    head, *rest = field.removesuffix("_s").split("_")
    return head + "".join(part.capitalize() for part in rest)


class DocumentSection(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=document_key
):
    """A mapping of the document whose keys are all known."""

    def mistakes(self) -> Iterator[Mistake]:
        """What is wrong between fields of which each is right in itself."""
        return iter(())


def keyed_fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields that a document can set, by their keys."""
    fields = msgspec.structs.fields(kind)
    return {f.encode_name: f for f in fields if _NO_KEY not in getattr(f.type, "__metadata__", ())}


def _seconds(value: object) -> float:
    remedy = "write a duration such as 90s, 5m or 1h30m"
    if not isinstance(value, str):
        raise MistakenError([((), f"is {value!r}, not a duration", remedy)])
    try:
        return parse_duration(value)
    except DurationError as error:
        raise MistakenError([((), str(error), remedy)]) from error


def _duration(seconds: float) -> str:
    return re.sub(r"(?<=[hm])0[ms]", "", format_duration(seconds))


SECONDS: Final = WrittenAs(Any, _seconds, _duration)
LONGEST_S: Final = 10 * 365 * 86_400.0
Duration = Annotated[float, SECONDS, msgspec.Meta(ge=0.0, le=LONGEST_S)]
"""Seconds, written as ``90s``, ``5m`` or ``1h30m``."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
HIGHEST_PORT: Final = 65_535
Port = Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_PORT)]
PortOrAny = Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_PORT)]
"""0 is any free port."""


def is_url(text: str, schemes: str) -> bool:
    """True if it is a URL without credentials and query. ``schemes``: a pattern."""
    found = re.fullmatch(
        rf"(?:{schemes})://(?:[-.\w]+|\[[0-9a-fA-F:.]+\])(?::(\d{{1,5}}))?(?:/[-./\w]*)?", text
    )
    return found is not None and 0 < int(found[1] or 1) <= HIGHEST_PORT
