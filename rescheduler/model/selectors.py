"""Label sets, label selectors and node selectors, compiled once and matched often.

Semantics are those of apimachinery's ``labels`` and component-helpers' ``nodeaffinity``:
NotIn and DoesNotExist match a missing key; Gt and Lt want integers on both sides; an empty
node selector term matches nothing; a nil label selector matches nothing, an empty one everything. A selector with an invalid key or value is malformed. The API server accepts some of them in node
affinity; kube-scheduler then reports the error as the reason why a pod is not scheduled, so the texts here are those of Kubernetes (1.37).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.model.bounds import LONGEST_LABEL, LONGEST_NAME

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

    def __contains__(self, key: object) -> bool:
        return key in self._map

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


_NAME_SYNTAX: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_SYNTAX: Final = f"({_NAME_SYNTAX})?"
DOMAIN_SYNTAX: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME: Final = re.compile(_NAME_SYNTAX)
_VALUE: Final = re.compile(_VALUE_SYNTAX)
_DOMAIN: Final = re.compile(DOMAIN_SYNTAX)
_REMEMBERED: Final = 4096
_EMPTY: Final = "must be non-empty"
_ENDS: Final = "and must start and end with an alphanumeric character"
_CHARACTERS: Final = "alphanumeric characters, '-', '_' or '.',"


_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_TERM: Final = re.compile(
    rf"(?P<absent>!)\s*(?P<missing>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<sign>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)"
    r"|\s+(?P<word>in|notin)\s*\((?P<values>[-A-Za-z0-9_.,\s]*)\))?"
)
_BETWEEN_TERMS: Final = re.compile(r",(?![^()]*\))")


class LabelQueryError(ReschedulerError, ValueError):
    """A term that is no requirement; its text is the message."""


def label_query(text: str) -> tuple[Requirement, ...]:
    """Requirements of ``app=web,tier!=db,zone in (a,b),!spot``; of an empty text none. Raises LabelQueryError."""
    return tuple(_required(term.strip()) for term in _BETWEEN_TERMS.split(text)) if text.strip() else ()


def _required(term: str) -> Requirement:
    found = _TERM.fullmatch(term)
    if found is None:
        raise LabelQueryError(term)
    if found["absent"]:
        return Requirement(found["missing"], Operator.DOES_NOT_EXIST)
    if found["sign"]:
        operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
        return Requirement(found["key"], operator, (found["value"],))
    if found["word"]:
        values = tuple(sorted(value.strip() for value in found["values"].split(",")))
        return Requirement(found["key"], Operator.IN if found["word"] == "in" else Operator.NOT_IN, values)
    return Requirement(found["key"], Operator.EXISTS)


def _against(rule: str, syntax: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} {_ENDS} (e.g. {shown}regex used for validation is '{syntax}')"


_NAME_RULE: Final = _against(f"must consist of {_CHARACTERS}", _NAME_SYNTAX, "MyName", "my.name", "123-abc")
_VALUE_RULE: Final = _against(
    f"a valid label must be an empty string or consist of {_CHARACTERS}",
    _VALUE_SYNTAX, "MyValue", "my_value", "12345",
)  # fmt: skip
_DOMAIN_RULE: Final = _against(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',",
    DOMAIN_SYNTAX, "example.com",
)  # fmt: skip
_KEY_RULE: Final = f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


@lru_cache(_REMEMBERED)
def value_error(value: str) -> str:
    """The error in a label's value; empty if it is valid."""
    errors: list[str] = []
    if len(value.encode()) > LONGEST_LABEL:
        errors.append(_too_long(LONGEST_LABEL))
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_RULE)
    return "; ".join(errors)


@lru_cache(_REMEMBERED)
def key_error(key: str) -> str:
    """The error in a label's key; empty if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return _KEY_RULE
    errors = [f"prefix part {error}" for error in _domain_errors(prefix)] if slash else []
    if not name:
        errors.append(f"name part {_EMPTY}")
    elif len(name.encode()) > LONGEST_LABEL:
        errors.append(f"name part {_too_long(LONGEST_LABEL)}")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return "; ".join(errors)


def _domain_errors(domain: str) -> list[str]:
    if not domain:
        return [_EMPTY]
    errors: list[str] = []
    if len(domain.encode()) > LONGEST_NAME:
        errors.append(_too_long(LONGEST_NAME))
    if not _DOMAIN.fullmatch(domain):
        errors.append(_DOMAIN_RULE)
    return errors


def _too_long(most: int) -> str:
    return f"must be no more than {most} bytes"
