"""Reads the sections of one document into Structs, and gathers what is wrong in them.

The modules of the sections say what they want of a key (a Struct, a duration); this one knows how a value is
converted, where it stands in the text, and how a complaint about it reads. Nothing is raised for a bad value: the
section goes on with its default, so that all problems of a document are found in one reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from rescheduler.configuration.problems import Problem
from rescheduler.configuration.strictyaml import Document, Path, looks_like_yaml11_bool
from rescheduler.configuration.value_checks import (
    VALUE_KINDS,
    allowed_words,
    known_keys,
    value_kind,
    value_problems,
)
from rescheduler.model.times import parse_duration
from rescheduler.suggestions import did_you_mean

T = TypeVar("T")

_AT_PATH: Final = re.compile(r" - at `\$(?P<path>.*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN: Final = re.compile(r"unknown field `(?P<name>[^`]+)`")
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[a-z| ]+)`(?:, got `(?P<found>[a-z]+)`)?")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]+)`")
_WORD: Final = re.compile(r"Invalid enum value '(?P<word>.*)'", re.DOTALL)
_LONGEST_S: Final = 10 * 365 * 86_400.0
_PORTS: Final = range(1, 65536)


class SectionReader:
    """Reads one document, whose data must be a mapping. ``problems``: what was found so far."""

    def __init__(self, file: str, document: Document) -> None:
        self._file = file
        self._document = document
        self._judged: set[Path] = set()
        self.problems: list[Problem] = []

    def value(self, key: str, default: Any = None) -> Any:
        """What stands at a key of the top level; ``default`` if the key is not there."""
        return self._document.data.get(key, default)

    def section(self, key: str, kind: type[T]) -> T | None:
        """The section ``key`` as a ``kind``; None if it is not there or wrong."""
        value = self.value(key)
        return None if value is None else self.convert(value, kind, (key,))

    def convert(self, value: object, kind: type[T], path: Path) -> T | None:
        """A value that stands at ``path`` as a ``kind``; None, and a complaint, if it is none."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            inner, message = _split(str(error), value)
            where = (*path, *inner)
            if unknown := _UNKNOWN.search(message):
                self.complain_of_key((*where, unknown["name"]), known_keys(kind, inner))
                return None
            if missing := _MISSING.fullmatch(message):
                self.complain(where, f"'{missing['name']}' is missing", f"add '{missing['name']}:'")
                return None
            words = allowed_words(kind, inner)
            remedy = self._remedy(where) or (f"use one of {', '.join(words)}" if words else "")
            self.complain(where, _in_words(message, words), remedy)
            return None

    def check_values(self) -> None:
        """Complain of what is wrong with a value wherever it stands; nothing more is said of such a value."""
        for path, message, remedy in value_problems(self._document.data):
            self.complain(path, message, remedy)
            self._judged.add(path)

    def duration(self, path: Path, value: object, default: float, *, least: float = 0.0) -> float:
        """Seconds of a duration such as ``90s``; ``default`` where it is None or, with a complaint, wrong."""
        if value is None:
            return default
        remedy = "write a duration such as 90s, 5m or 1h30m"
        if not isinstance(value, str):
            self.complain(path, f"is {value!r}, not a duration", remedy)
            return default
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.complain(path, str(error), remedy)
            return default
        if seconds < least:
            self.complain(path, f"is {value}", f"must be at least {least:g}s")
        if seconds > _LONGEST_S:
            self.complain(path, f"is {value}", f"must be at most {_LONGEST_S / 3600:g}h")
        return seconds

    def check_port(self, path: Path, port: int, *, any_free: bool = False) -> None:
        """Complains of what is no TCP port; ``any_free``: 0 is allowed and means any free one."""
        if port in _PORTS or (any_free and port == 0):
            return
        remedy = "use a port from 1 to 65535" + (", or 0 for any free one" if any_free else "")
        self.complain(path, f"is {port}", remedy)

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

    def _remedy(self, path: Path) -> str:
        value: Any = self._document.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return ""
        return "write true or false" if looks_like_yaml11_bool(value) else ""


def camel_case(name: str) -> str:
    """The name of a field as it is written in the document."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def snake_case(key: str) -> str:
    """The name of the field that a key of the document sets."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


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


def _split(message: str, value: object) -> tuple[Path, str]:
    """Path and text of a msgspec message such as "Expected `int` - at `$.a[0]`", which it has of ``value``.

    Of a mapping with any keys msgspec does not say which one is wrong ("[...]"): it is the first with such a value.
    """
    at = _AT_PATH.search(message)
    if not at:
        return (), message
    text = message[: at.start()]
    steps: list[str | int] = []
    for name, index in _STEP.findall(at["path"]):
        step = name or (int(index) if index else _first_such(value, text))
        if step is None:
            break
        steps.append(step)
        value = _within(value, step)
    return tuple(steps), text


def _within(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None


def _first_such(value: object, message: str) -> str | None:
    """The first key of a mapping whose value is of the kind that the message complains of."""
    expected = _EXPECTED.fullmatch(message)
    if expected is None or not isinstance(value, dict):
        return None
    wrong = VALUE_KINDS.get(expected["found"] or "")
    return next((key for key, inner in value.items() if value_kind(inner) == wrong), None)


def dotted(path: Path) -> str:
    """A path as people write it: ``policies[0].thresholds.cpu``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
