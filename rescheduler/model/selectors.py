"""Label sets, label selectors and node selectors, compiled once and matched often.

Semantics are those of apimachinery's ``labels`` and component-helpers' ``nodeaffinity``:
NotIn and DoesNotExist match a missing key; Gt and Lt want integers on both sides; an empty
node selector term matches nothing; a nil label selector matches nothing, an empty one everything.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

_DIGITS: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = 2**63
_INT64_DIGITS: Final = 19


class LabelSet(Mapping[str, str]):
    """Immutable, hashable labels; equal content is interned to one object by the decoder."""

    __slots__ = ("_hash", "_map")

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._map: dict[str, str] = dict(labels) if labels else {}
        self._hash = hash(frozenset(self._map.items()))

    def __getitem__(self, key: str) -> str:
        return self._map[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._map)

    def __len__(self) -> int:
        return len(self._map)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, LabelSet):
            return self._hash == other._hash and self._map == other._map
        return NotImplemented

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The value of ``key`` or ``default``; the hot path, so it goes to the dict directly."""
        return self._map.get(key, default)

    def __repr__(self) -> str:
        return f"LabelSet({self._map!r})"


NO_LABELS = LabelSet()
Pairs = tuple[tuple[str, str], ...]
"""Labels of a node selector, sorted."""


class Operator(enum.StrEnum):
    """Operators of label and node selector requirements."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


def int64(text: str) -> int | None:
    """The whole number of a text as Go's ``strconv.ParseInt(text, 10, 64)`` reads it; None for any other text.

    Total: labels and annotations are written by anybody, and may hold "--5" or 5,000 digits.
    """
    if not _DIGITS.fullmatch(text):
        return None
    sign = "-" if text.startswith("-") else ""
    significant = text.lstrip("+-0")
    if len(significant) > _INT64_DIGITS:  # Python refuses to read more than 4,300 digits
        return None
    number = int(sign + (significant or "0"))
    return number if -_INT64 <= number < _INT64 else None


class Requirement(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One requirement on one key. ``values`` sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: LabelSet) -> bool:
        """True if the labels meet it."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        have, want = int64(value), int64(self.values[0])
        if have is None or want is None:
            return False
        return have > want if self.operator is Operator.GT else have < want


class LabelSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A metav1.LabelSelector; matchLabels are ``In`` requirements. No requirement matches everything.

    A nil selector is ``None`` wherever a selector is optional, and matches nothing.
    ``invalid`` carries the parse error of a malformed selector, which matches nothing.
    """

    requirements: tuple[Requirement, ...] = ()
    invalid: str = ""

    @property
    def empty(self) -> bool:
        """True if it selects everything."""
        return not self.requirements and not self.invalid

    def matches(self, labels: LabelSet) -> bool:
        """True if every requirement is met."""
        return not self.invalid and all(r.matches(labels) for r in self.requirements)


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Requirements on labels and on fields (only ``metadata.name``), all of which must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    invalid: str = ""

    def matches(self, labels: LabelSet, name: str) -> bool:
        """True if not empty and every requirement holds for the node."""
        if self.invalid or not (self.expressions or self.fields):
            return False
        if not all(r.matches(labels) for r in self.expressions):
            return False
        own = LabelSet({"metadata.name": name}) if self.fields else NO_LABELS
        return all(r.matches(own) for r in self.fields)


class NodeSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Terms that are ORed; no term matches nothing."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: LabelSet, name: str) -> bool:
        """True if any term matches the node."""
        return any(t.matches(labels, name) for t in self.terms)
