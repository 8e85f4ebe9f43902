"""Splits a YAML dump of a cluster into single objects by its lines.

Documents are separated by ``---``. Of a List as kubectl writes it, every item (a ``- `` at the start of a line below
``items:``) is parsed on its own, so that the objects of a large dump are never in memory all at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from rescheduler.cli.dump_files import ByteStream, InputError, SourceWarning
from rescheduler.cli.dump_words import dump_word
from rescheduler.configuration.strictyaml import YamlError, load
from rescheduler.model.decode.dump import DumpError, Item, TypeName, items_within

Warn = Callable[[SourceWarning], None]


def yaml_items(path: str, stream: ByteStream, warn: Warn) -> Iterator[Item]:
    """Every object of a YAML dump. An item that is no YAML is skipped with a warning.

    Raises:
        InputError: the text outside of any object is no YAML, or a document is no object.
    """
    for line, lines in _documents(path, stream):
        yield from _document(path, line, lines, warn)


def _documents(path: str, stream: ByteStream) -> Iterator[tuple[int, list[str]]]:
    """(first line, lines) of each document."""
    text = io.TextIOWrapper(cast("Any", _Readable(stream)), encoding="utf-8-sig", newline=None)
    begin, lines = 1, list[str]()
    number = 0
    try:
        for number, line in enumerate(text, 1):
            if line.startswith("---") and line[3:4] in ("", " ", "\n", "\t"):
                yield begin, lines
                begin, lines = number + 1, []
            else:
                lines.append(line)
    except UnicodeDecodeError as error:
        raise InputError(path, number + 1, "the text is not UTF-8", "give YAML or JSON in UTF-8") from error
    yield begin, lines


def _document(path: str, begin: int, lines: list[str], warn: Warn) -> Iterator[Item]:
    start = next((i for i, line in enumerate(lines) if line.rstrip() == "items:"), None)
    if start is None:
        found = _parse(path, begin, lines)
        if found is not None:
            yield from _items(path, begin, found, TypeName())
        return
    end = _end_of_items(lines, start + 1)
    head = _parse(path, begin, [*lines[:start], *lines[end:]])
    fallback = _type_of(head).item
    for first, last in _item_ranges(lines, start + 1, end):
        try:
            found = _parse(path, begin + first, lines[first:last])
        except InputError as error:
            warn(SourceWarning(f"{path}:{error.line}", f"an object is skipped: {error.message}"))
            continue
        for entry in cast("list[Any]", found or []):
            yield from _items(path, begin + first, entry, fallback)


def _end_of_items(lines: list[str], start: int) -> int:
    """The first line after ``start`` that does not belong to an item."""
    for index in range(start, len(lines)):
        line = lines[index]
        if line.strip() and line[0] not in " \t-#":
            return index
    return len(lines)


def _item_ranges(lines: list[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Line ranges of the items: each begins with a dash at the indent of the first one."""
    first = next((i for i in range(start, end) if lines[i].strip()), None)
    if first is None:
        return
    dash = lines[first][: len(lines[first]) - len(lines[first].lstrip())] + "- "
    starts = [i for i in range(start, end) if lines[i].startswith(dash)] or [first]
    yield from zip(starts, [*starts[1:], end], strict=True)


def _parse(path: str, begin: int, lines: list[str]) -> Any:
    try:
        return load("".join(lines), dump_word).data
    except YamlError as error:
        raise InputError(
            path, begin + error.line - 1, error.message, error.remedy or "correct the YAML"
        ) from error


def _items(path: str, line: int, found: Any, fallback: TypeName) -> Iterator[Item]:
    if not isinstance(found, dict):
        raise InputError(
            path, line, "neither a Kubernetes object nor a list", "give what kubectl get -o yaml writes"
        )
    try:
        yield from items_within(memoryview(msgspec.json.encode(found)), line, fallback)
    except DumpError as error:
        raise InputError(path, line, error.message, "give what kubectl get -o yaml writes") from error


def _type_of(head: Any) -> TypeName:
    if not isinstance(head, dict):
        return TypeName()
    return TypeName(str(head.get("apiVersion") or ""), str(head.get("kind") or ""))


class _Readable(io.RawIOBase):
    """A stream of bytes as ``io.TextIOWrapper`` needs it."""

    def __init__(self, inner: ByteStream) -> None:
        super().__init__()
        self._inner = inner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
