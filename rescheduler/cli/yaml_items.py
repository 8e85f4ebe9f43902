"""Dumps of a cluster in YAML, cut into single objects by their lines.

Documents are told apart by ``---``; of a List as kubectl writes it, every item (a ``- `` at the start of
a line below ``items:``) is parsed on its own, so that a large dump never stands in memory as objects.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from rescheduler.cli.input_errors import InputError, SourceWarning
from rescheduler.cli.streams import Bytes
from rescheduler.model.dump import DumpError, Item, TypeName, items_within
from rescheduler.strictyaml import YamlError, load

Warn = Callable[[SourceWarning], None]


def yaml_items(path: str, stream: Bytes, warn: Warn) -> Iterator[Item]:
    """Every object of a YAML dump; one that is no YAML is set aside with a warning.

    Raises:
        InputError: the text outside of any object is no YAML, or a document is no object.
    """
    for line, lines in _documents(path, stream):
        yield from _document(path, line, lines, warn)


def _documents(path: str, stream: Bytes) -> Iterator[tuple[int, list[str]]]:
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
            warn(SourceWarning(f"{path}:{error.line}", f"an object is left out: {error.message}"))
            continue
        for entry in cast("list[Any]", found or []):
            yield from _items(path, begin + first, entry, fallback)


def _end_of_items(lines: list[str], start: int) -> int:
    """The first line after ``start`` that belongs to the list itself again."""
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
        return load("".join(lines)).data
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
    """A stream of bytes as the text layer wants it."""

    def __init__(self, inner: Bytes) -> None:
        super().__init__()
        self._inner = inner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
