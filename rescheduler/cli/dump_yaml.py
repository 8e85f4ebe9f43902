"""Splits a YAML dump of a cluster into single objects by its lines.

Documents are separated by ``---``. Of a List as kubectl writes it, every item (a ``- `` at the start of a line below
``items:``) is parsed on its own, so that the objects of a large dump are never in memory all at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.cli.dump_files import ByteStream, InputError, SourceWarning
from rescheduler.cli.dump_words import dump_word
from rescheduler.configuration.strictyaml import YamlError, load
from rescheduler.model.decode.dump import DumpError, Item, TypeName, items_within

Warn = Callable[[SourceWarning], None]

_LONGEST_LINE: Final = 4 << 20
"""Characters; an API server takes no object of that size."""
_MOST_CHARACTERS: Final = 16 << 20
"""Of one object, or of a document without its items."""
_REMEDY: Final = "give what 'kubectl get -o yaml' or '-o json' writes"


def yaml_items(path: str, stream: ByteStream, warn: Warn) -> Iterator[Item]:
    """Every object of a YAML dump. An item that is no YAML, or no object, is skipped with a warning.

    Raises:
        InputError: the text outside of any object is no YAML, or a document is no object.
    """
    lines = _lines(path, stream)
    for begin in lines:
        yield from _document(path, chain((begin,), lines), warn)


def _lines(path: str, stream: ByteStream) -> Iterator[_Line]:
    """The lines of the text with their numbers. Raises InputError."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline=None)
    number = 0
    try:
        while line := text.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE or "\0" in line:
                what = "a zero byte" if "\0" in line else f"a line of more than {_LONGEST_LINE >> 20} MiB"
                raise InputError(path, number, f"{what}: this is neither YAML nor JSON", _REMEDY)
            yield _Line(number, line)
    except UnicodeDecodeError as error:
        raise InputError(path, number + 1, "the text is not UTF-8", "give YAML or JSON in UTF-8") from error
    finally:
        text.detach()  # whoever has opened the stream closes it


class _Line(NamedTuple):
    """One line of the text."""

    number: int
    text: str

    @property
    def ends_document(self) -> bool:
        """True if it is ``---``."""
        return self.text.startswith("---") and self.text[3:4] in ("", " ", "\n", "\t")


class _Part:
    """Lines that are parsed together: all of a document but its items, or one item."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[_Line] = []
        self._characters = 0

    def add(self, line: _Line) -> None:
        """Raises InputError where it becomes too large."""
        self._lines.append(line)
        self._characters += len(line.text)
        if self._characters > _MOST_CHARACTERS:
            what = f"one object of more than {_MOST_CHARACTERS >> 20} MiB"
            raise InputError(self._path, self.begin, what, _REMEDY)

    @property
    def begin(self) -> int:
        """Number of the first line."""
        return self._lines[0].number if self._lines else 1

    def parse(self) -> Any:
        """What it says. Raises InputError."""
        try:
            return load("".join(line.text for line in self._lines), dump_word).data
        except YamlError as error:
            at = self._lines[min(error.line, len(self._lines)) - 1].number if self._lines else 1
            raise InputError(self._path, at, error.message, error.remedy or "correct the YAML") from error


def _document(path: str, lines: Iterator[_Line], warn: Warn) -> Iterator[Item]:
    """The objects of one document; takes its lines, and the one that ends it."""
    head, early, is_list, last = _Part(path), list[tuple[int, Any]](), False, 1
    for line in lines:
        if line.ends_document:
            break
        if is_list or line.text.rstrip() != "items:":
            head.add(line)
            continue
        is_list = True
        stated = _type_of(head.parse()).item
        rest: list[_Line] = []
        for begin, entry in _entries(path, lines, rest, warn):
            last = begin
            if all(stated) or entry.get("kind"):
                yield from _items(path, begin, entry, stated)
            else:
                early.append((begin, entry))
        if rest and rest[0].ends_document:
            break
        for after in rest:
            head.add(after)
    found = _list_head(path, last, head) if is_list else head.parse()
    # Items without a type have that of their list, which may stand behind them.
    for begin, entry in early:
        yield from _items(path, begin, entry, _type_of(found).item)
    if found is not None and not is_list:
        yield from _items(path, head.begin, found, TypeName())


def _list_head(path: str, last: int, part: _Part) -> Any:
    """A list without its items. InputError: it ends before its kind, which kubectl writes last; ``last``: where an item begins."""
    head = part.parse()
    if isinstance(head, dict) and "apiVersion" in head and "kind" not in head:
        raise InputError(path, last, "the list ends here, before its kind: it is truncated", _REMEDY)
    return head


def _entries(
    path: str, lines: Iterator[_Line], rest: list[_Line], warn: Warn
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(first line, object) of each item that is one. The first line behind the items goes to ``rest``."""
    index = 0
    for part in _parts(path, lines, rest):
        try:
            found = part.parse() or []
        except InputError as error:
            warn(SourceWarning(f"{path}:{error.line}", f"an object is skipped: {error.message}"))
            index += 1
            continue
        for entry in found if isinstance(found, list) else [found]:
            if isinstance(entry, dict):
                yield part.begin, entry
            else:
                kind = "null" if entry is None else type(entry).__name__
                warn(
                    SourceWarning(f"{path}:{part.begin}", f"skipped: items[{index}] is {kind}, not an object")
                )
            index += 1


def _parts(path: str, lines: Iterator[_Line], rest: list[_Line]) -> Iterator[_Part]:
    """One part for each item: it begins with a dash at the indent of the first one."""
    part, dash = _Part(path), ""
    for line in lines:
        text = line.text
        if line.ends_document or (text.strip() and text[0] not in " \t-#"):
            rest.append(line)
            break
        if not dash and text.strip() and text.lstrip()[0] != "#":
            dash = text[: len(text) - len(text.lstrip())] + "-"
        if dash and text.startswith(dash) and text[len(dash) : len(dash) + 1] in (" ", "\n", ""):
            yield part
            part = _Part(path)
        part.add(line)
    yield part


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
