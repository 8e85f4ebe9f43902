"""Reads values of one document into the types that want them, and gathers what is wrong in them.

The types say what they want of a value (``model.written``); this module knows how a value is converted, where it stands
in the text, and how a complaint about it reads. Nothing is raised for a bad value, and each key is converted by itself,
so that all problems of a document are found in one reading.

A key without a value can mean "none" or "as by default", and its author thinks of one of them: so it means neither. A number
beyond any cluster is a slip of the hand, and would mean "no limit" where a limit was wanted.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from rescheduler.configuration.problems import Problem
from rescheduler.configuration.strictyaml import Document, Path, looks_like_yaml11_bool
from rescheduler.model.written import DocumentSection, MistakenError, WrittenAs, keyed_fields
from rescheduler.suggestions import did_you_mean

T = TypeVar("T")
S = TypeVar("S", bound=DocumentSection)

_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[a-z| ]+)`(?:, got `(?P<found>[a-z]+)`)?")
_BOUND: Final = re.compile(r"Expected `(?:int|float)` (?P<side>[<>]=?) (?P<bound>\S+)")
_SIDES: Final = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_WORD: Final = re.compile(r"Invalid enum value '(?P<word>.*)'", re.DOTALL)
_AS_NUMBER: Final = WrittenAs(float, float, lambda bound: f"{bound:f}".rstrip("0").rstrip("."))
_WRONG: Final = object()
"""In place of a value of which a complaint was made."""


class SectionReader:
    """Reads one document, whose data must be a mapping. ``problems``: what was found so far."""

    def __init__(self, file: str, document: Document) -> None:
        self._file = file
        self._document = document
        self._judged: set[Path] = set()
        self.problems: list[Problem] = []

    def convert(self, value: object, kind: type[T], path: Path) -> T | None:
        """A value that stands at ``path`` as a ``kind``; None, and complaints, if it is none."""
        found = self._converted(value, kind, path)
        return None if found is _WRONG else found

    def overlay(self, base: S, written: object, path: Path = ()) -> S:
        """``base`` with the values that stand at ``path``; ``base`` itself, and complaints, if one is wrong."""
        kind = type(base)
        if isinstance(written, dict):
            found = self._struct(written, kind, path, base)
        else:
            found = self._converted(written, kind, path)
        return base if found is _WRONG else found

    def check_values(self) -> None:
        """Complain of what is wrong with a value wherever it stands; nothing more is said of such a value."""
        for path, message, remedy in value_problems(self._document.data):
            self.complain(path, message, remedy)
            self._judged.add(path)

    def complain(self, path: Path, message: str, remedy: str) -> None:
        """Note that something at ``path`` is wrong."""
        if path in self._judged:
            return
        name = dotted(path)
        self.problems.append(Problem(self._file, self._document.line(path), name, message, remedy))

    def complain_of_key(self, path: Path, known: Sequence[str]) -> None:
        """Note that the last key of ``path`` is none of the ``known`` ones; the nearest of them is named."""
        hint = did_you_mean(str(path[-1]), known)
        self.complain(path, f"unknown key{hint}", f"known keys: {', '.join(known)}" if known else "remove it")

    def _converted(self, value: Any, kind: Any, path: Path) -> Any:
        """A value as a ``kind``, part by part; _WRONG, and complaints, if it is none."""
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType) and value is not None:
            kinds = [part for part in parts if part is not types.NoneType]
            return self._converted(value, kinds[0], path) if len(kinds) == 1 else self._one(value, kind, path)
        if origin is Annotated:
            return self._annotated(value, kind, path)
        if isinstance(value, dict):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                return self._struct(value, kind, path)
            if origin is dict:
                found = {key: self._converted(inner, parts[1], (*path, key)) for key, inner in value.items()}
                return _WRONG if _WRONG in found.values() else found
        if isinstance(value, list) and (
            origin in (list, frozenset) or (origin is tuple and parts[1:] == (...,))
        ):
            items = [self._converted(inner, parts[0], (*path, i)) for i, inner in enumerate(value)]
            return _WRONG if _WRONG in items else origin(items)
        return self._one(value, kind, path)

    def _annotated(self, value: Any, kind: Any, path: Path) -> Any:
        marks = get_args(kind)[1:]
        written = next((mark for mark in marks if isinstance(mark, WrittenAs)), None)
        if written is None:
            return self._one(value, kind, path)
        found = self._converted(value, written.kind, path)
        if found is _WRONG:
            return _WRONG
        try:
            found = written.read(found)
        except MistakenError as error:
            for where, message, remedy in error.mistakes:
                self.complain((*path, *where), message, remedy)
            return _WRONG
        bounded = any(isinstance(mark, msgspec.Meta) for mark in marks)
        return self._one(found, kind, path, value, written) if bounded else found

    def _struct(
        self,
        value: dict[str, Any],
        kind: type[msgspec.Struct],
        path: Path,
        base: DocumentSection | None = None,
    ) -> Any:
        """A mapping as a ``kind``. What is not written, or is written as an empty text, ``base`` says."""
        fields, given, wrong = keyed_fields(kind), {}, False
        for key, inner in value.items():
            where, field = (*path, key), fields.get(key)
            if field is None:
                if kind.__struct_config__.forbid_unknown_fields:
                    self.complain_of_key(where, tuple(fields))
                    wrong = True
                continue
            own = getattr(base, field.name, None)
            if isinstance(own, DocumentSection) and isinstance(inner, dict):
                found = self._struct(inner, type(own), where, own)
            else:
                found = self._converted(inner, field.type, where)
            wrong = wrong or found is _WRONG
            if base is None or found != "":
                given[field.name] = found
        for key in (key for key, field in fields.items() if field.required and key not in value):
            self.complain(path, f"'{key}' is missing", f"add '{key}:'")
            wrong = True
        return _WRONG if wrong else self._made(kind, given, path, base)

    def _made(
        self, kind: type[msgspec.Struct], given: dict[str, Any], path: Path, base: DocumentSection | None
    ) -> Any:
        try:
            made = kind(**given) if base is None else msgspec.structs.replace(base, **given)
        except (ValueError, TypeError) as error:  # of a package of others, which looks at its own arguments
            self.complain(path, str(error), "")
            return _WRONG
        mistakes = tuple(made.mistakes()) if isinstance(made, DocumentSection) else ()
        for where, message, remedy in mistakes:
            self.complain((*path, *where), message, remedy)
        return _WRONG if mistakes else made

    def _one(
        self, value: Any, kind: Any, path: Path, shown: Any = None, written: WrittenAs | None = None
    ) -> Any:
        """A value that has no parts. ``shown``: what stands in the document, if it was read before (``written``)."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            message = str(error)
            if (found := _BOUND.fullmatch(message)) is not None:
                bound = (written or _AS_NUMBER).show(float(found["bound"]))
                self.complain(
                    path,
                    f"is {value if shown is None else shown}",
                    f"must be {_SIDES[found['side']]} {bound}",
                )
                return _WRONG
            words = allowed_words(kind)
            yaml11 = "write true or false" if looks_like_yaml11_bool(value) else ""
            remedy = yaml11 or (f"use one of {', '.join(words)}" if words else "")
            self.complain(path, _in_words(message, words), remedy)
            return _WRONG


def _in_words(message: str, words: Sequence[str]) -> str:
    """Of msgspec's "Expected `int | null`, got `str`" what is wrong, as "is a text, not a whole number".

    Args:
        message: msgspec's.
        words: all that may stand there; of a word that is none of them the nearest is named.
    """
    if (found := _WORD.fullmatch(message)) is not None:
        return f"is '{found['word']}'{did_you_mean(found['word'], words)}"
    found = _EXPECTED.fullmatch(message)
    if found is None:
        return message
    wanted = [VALUE_KINDS[kind] for kind in found["wanted"].split(" | ") if kind in VALUE_KINDS]
    if not wanted:
        return message
    is_now = f"is {VALUE_KINDS[found['found']]}, not" if found["found"] in VALUE_KINDS else "is not"
    return f"{is_now} {' or '.join(wanted)}"


def dotted(path: Path) -> str:
    """A path as people write it: ``policies[0].thresholds.cpu``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


MOST: Final = (1 << 31) - 1
"""The largest priority of a pod, and more than anything else here."""
MOST_IN_LIMITS: Final = 1_000_000
"""Moves, or moves in an hour: several for each pod of the largest cluster."""

VALUE_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
"""What people call the kinds of values, by what msgspec calls them."""
_KIND_NAMES: Final = {int: "int", float: "float", str: "str", bool: "bool", list: "array", dict: "object"}

_JUDGED_ELSEWHERE: Final = (("schedulerConfiguration",), ("metadata",), ("reservations", "shares"))
"""Of Kubernetes, or amounts of resources."""

ValueProblem = tuple[Path, str, str]
"""Where, what is wrong, and the remedy."""


def value_problems(value: Any, path: Path = ()) -> Iterator[ValueProblem]:
    """What is wrong in ``value``, which stands at ``path``."""
    if value is None and path:
        yield path, "has no value", "write one, or remove the key"
    if path in _JUDGED_ELSEWHERE:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from value_problems(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from value_problems(inner, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = MOST_IN_LIMITS if path[:1] == ("limits",) else MOST
        if abs(value) > most:
            yield path, f"is {value:.4g}", f"must be at most {most:,}"


def value_kind(value: object) -> str:
    """What people call the kind of a value; "nothing" of none."""
    return VALUE_KINDS[_KIND_NAMES[type(value)]] if type(value) in _KIND_NAMES else "nothing"


def allowed_words(kind: Any) -> tuple[str, ...]:
    """The words that a ``kind`` allows; empty where any may stand there."""
    return tuple(dict.fromkeys(_words(inspect.type_info(kind))))


def _words(kind: inspect.Type) -> Iterator[str]:
    if isinstance(kind, inspect.UnionType):
        for part in kind.types:
            yield from _words(part)
    elif isinstance(kind, inspect.EnumType):
        yield from (str(member.value) for member in kind.cls)
    elif isinstance(kind, inspect.LiteralType):
        yield from map(str, kind.values)
    elif isinstance(kind, inspect.BoolType):
        yield from ("true", "false")
