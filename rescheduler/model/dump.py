"""Dumps of a cluster in JSON, cut into single objects without ever holding the whole text.

Understands what ``kubectl get -o json`` and the API itself write: Lists, Lists of Lists, single objects,
arrays, several documents one after the other. The text comes through a function that is handed in, in
pieces; a piece is kept only until its objects are cut out. msgspec finds where a value ends: it parses
one value and says at which byte something else follows.

That costs more than parsing does. So whoever reads may take many items of an array at once, as a Stretch: it ends
before the last place in the piece that looks as if another item began there. That is a guess, and parsing the
stretch as an array of its own proves it: what is before a comma and is whole between brackets can only be whole items.
A guess that was wrong is refused, and its items are cut one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.wire import Wire

PIECE_BYTES: Final = 128 << 10
"""How much text is read at once; an object may be larger."""

_LONGEST_TOKEN: Final = 400
_SPACE: Final = b" \t\r\n"
_NEWLINE: Final = ord("\n")
_SPACES: Final = re.compile(rb"[ \t\r\n]*")
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_POSITION: Final = re.compile(r"^JSON is malformed: (?P<what>.*) \(byte (?P<byte>\d+)\)$")
_KUBECTL_HEAD: Final = re.compile(
    rb'\{\s*"apiVersion"\s*:\s*"(?P<group>[^"\\]*)"\s*,\s*"kind"\s*:\s*"(?P<kind>[^"\\]*)"'
)
_OPENING: Final = re.compile(
    rb'\{\s*"[^"\\]*"\s*:\s*(?:\{\s*)?"[^"\\]*"(?:\s*,\s*"[^"\\]*"\s*:\s*"[^"\\]*")?'
)
"""How an object begins: the two members that state its type, or as much as there is of such."""

_KINDS: Final = {(resource.group, resource.kind or kind.value): kind for kind, resource in RESOURCES.items()}
_skip = msgspec.json.Decoder(Raw).decode


class DumpError(ValueError):
    """The text is not JSON, or ends too early. ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class TypeName(NamedTuple):
    """apiVersion and kind as an object states them; "" where it does not."""

    api_version: str = ""
    kind: str = ""

    @property
    def known(self) -> Kind | None:
        """The kind, if it is one that a Snapshot is made of."""
        group = self.api_version.rpartition("/")[0]
        return _KINDS.get((group, self.kind))

    @property
    def item(self) -> TypeName:
        """What the items of a list of this type are, if they do not say it themselves."""
        kind = self.kind.removesuffix("List")
        return TypeName(self.api_version, kind) if kind and kind != self.kind else TypeName()


class Item(NamedTuple):
    """One object: its type, its JSON text, and the line on which it begins."""

    type: TypeName
    raw: memoryview
    line: int


class Stretch(NamedTuple):
    """Items of an array that follow each other and look alike, as an array of its own.

    ``type``: what the first of them is; ``implied``: what an item is that does not say it.
    """

    type: TypeName
    implied: TypeName
    text: bytes


Take = Callable[[Stretch], bool]
"""Takes all items of a stretch. False, and nothing done, unless all of its text is one JSON array."""


class HeadWire(Wire):
    """What says of a JSON object whether it is a list."""

    api_version: str | None = None
    kind: str | None = None
    items: Raw = Raw(b"")


_decode_head = msgspec.json.Decoder(HeadWire).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


def _nobody(stretch: Stretch) -> bool:
    del stretch
    return False


def items_of(
    read: Callable[[int], bytes], piece_bytes: int = PIECE_BYTES, take: Take = _nobody
) -> Iterator[Item]:
    """Every object of a dump. ``read(n)`` gives up to n more bytes, b"" at the end.

    ``take`` is offered stretches of items; what it takes does not come out here.

    Raises:
        DumpError: not JSON, or JSON that is neither object nor array.
    """
    text = _Text(read, piece_bytes)
    while text.skip_space():
        if text.peek() == b"[":
            yield from _array(text, TypeName(), take)
        elif text.peek() == b"{":
            yield from _document(text, take)
        else:
            raise DumpError(text.line(), "neither a JSON object nor an array")


def items_within(raw: memoryview, line: int, fallback: TypeName) -> Iterator[Item]:
    """The object itself, or its items if it is a list, at any depth."""
    if bytes(raw[:1]) != b"{":
        raise DumpError(line, "something that is not an object stands where an object is due")
    found = _type_of(raw, fallback)
    if not _may_be_list(found):
        yield Item(found, raw, line)
        return
    try:
        head = _decode_head(raw)
        content = bytes(head.items)
        inner = _decode_array(head.items) if content not in (b"", b"null") else []
    except (msgspec.DecodeError, RecursionError) as error:
        raise DumpError(line, f"a list that cannot be read: {error}") from error
    if not found.kind and not content:
        yield Item(found, raw, line)
    for entry in inner:
        yield from items_within(memoryview(entry), line, found.item)


def _may_be_list(found: TypeName) -> bool:
    return not found.kind or (found.kind.endswith("List") and found.known is None)


def _type_of(raw: memoryview, fallback: TypeName) -> TypeName:
    """The type that an object states; where kubectl wrote it first, nothing is decoded to find it."""
    match = _KUBECTL_HEAD.match(raw)
    if match is not None:
        return TypeName(match["group"].decode(), match["kind"].decode())
    try:
        head = _decode_head(raw)
    except (msgspec.DecodeError, RecursionError):
        return fallback
    if not head.kind:
        return fallback
    return TypeName(head.api_version or fallback.api_version, head.kind)


def _document(text: _Text, take: Take) -> Iterator[Item]:
    """One object at the top: as a whole if it is short or no list, else its items as they come by."""
    line = text.line()
    whole = text.value_if_short()
    if whole is None:
        head = TypeName()
        text.hold()
        for key in _keys(text):
            if key == b'"items"' and text.peek() == b"[":
                text.release()
                yield from _array(text, head.item, take)
                continue
            value = bytes(text.value()).strip().strip(b'"')
            if key == b'"kind"':
                head = head._replace(kind=value.decode("utf-8", "replace"))
            elif key == b'"apiVersion"':
                head = head._replace(api_version=value.decode("utf-8", "replace"))
        whole = text.release()
    if whole is not None:
        yield from items_within(whole, line, TypeName())


def _keys(text: _Text) -> Iterator[bytes]:
    """The keys of the object at hand; whoever takes one must pass its value before the next."""
    text.expect(b"{")
    if text.next_is(b"}"):
        text.advance()
        return
    while True:
        key = bytes(text.value()).strip()
        text.expect(b":")
        text.skip_space()
        yield key
        if text.comma_or(b"}"):
            return


def _array(text: _Text, fallback: TypeName, take: Take) -> Iterator[Item]:
    """The items of the array at hand that were not taken as stretches."""
    text.expect(b"[")
    if text.next_is(b"]"):
        text.advance()
        return
    single_until = 0
    while True:
        gap = text.space()
        if text.offset >= single_until:
            single_until = _offer(text, gap, fallback, take)
        line = text.line()
        yield from items_within(text.value(), line, fallback)
        if text.comma_or(b"]"):
            return


def _offer(text: _Text, gap: bytes, fallback: TypeName, take: Take) -> int:
    """Let a stretch be taken, if there is one. Up to the offset that is returned items come one by one."""
    opening = text.match(_OPENING)
    end = text.last(b"," + gap + opening) if opening else None
    if end is None:
        return text.end  # whoever looks for a second item in vain does so once for each piece
    stated = _type_of(memoryview(opening + b"}"), fallback)
    if not take(Stretch(stated, fallback, text.array_until(end))):
        return end
    text.pass_until(end)
    text.expect(b",")
    text.skip_space()
    return 0


def _newlines(text: bytes, start: int, end: int) -> int:
    """Newlines from ``start`` to ``end``; ``bytes.count`` takes five times as long, a tenth of all reading."""
    if end <= start:
        return 0
    return int(np.count_nonzero(np.frombuffer(text, np.uint8, end - start, start) == _NEWLINE))


class _Text:
    """A window on the text: what was passed is dropped, what is missing is read."""

    def __init__(self, read: Callable[[int], bytes], piece_bytes: int) -> None:
        self._read = read
        self._piece = piece_bytes
        self._buffer = b""
        self._at = 0
        self._ended = False
        self._held: int | None = None
        self._counted = 0
        self._lines = 1
        self._dropped = 0

    def line(self) -> int:
        """The line on which the window stands; every byte is looked at once."""
        self._lines += _newlines(self._buffer, self._counted, self._at)
        self._counted = self._at
        return self._lines

    def skip_space(self) -> bool:
        """Pass white space (and a byte order mark); False at the end of the text."""
        while True:
            self._at = _SPACES.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer):
                if self._buffer.startswith(b"\xef\xbb\xbf", self._at):
                    self._at += 3
                    continue
                return True
            if not self._more():
                return False

    def space(self) -> bytes:
        """The white space at hand, passed; b"" if it came in several pieces."""
        before = self.offset
        self.skip_space()
        return self._buffer[before - self._dropped : self._at] if before >= self._dropped else b""

    @property
    def offset(self) -> int:
        """How many bytes of the whole text were passed."""
        return self._dropped + self._at

    @property
    def end(self) -> int:
        """How many bytes of the whole text were read."""
        return self._dropped + len(self._buffer)

    def match(self, pattern: re.Pattern[bytes]) -> bytes:
        """What of the text at hand matches; b"" if nothing does."""
        found = pattern.match(self._buffer, self._at)
        return found[0] if found else b""

    def last(self, separator: bytes) -> int | None:
        """Offset of the last place in what was read where this stands."""
        found = self._buffer.rfind(separator, self._at)
        return None if found < 0 else self._dropped + found

    def array_until(self, offset: int) -> bytes:
        """The text from here to ``offset`` between brackets."""
        return b"".join((b"[", memoryview(self._buffer)[self._at : offset - self._dropped], b"]"))

    def pass_until(self, offset: int) -> None:
        """Pass everything before ``offset``."""
        self._at = offset - self._dropped

    def peek(self) -> bytes:
        """The byte at hand."""
        return self._buffer[self._at : self._at + 1]

    def advance(self) -> None:
        """Pass one byte."""
        self._at += 1

    def expect(self, byte: bytes) -> None:
        """Pass this byte, which must come next after white space."""
        if not self.skip_space():
            raise DumpError(self.line(), f"the text ends where '{byte.decode()}' is due: it was cut off")
        if self.peek() != byte:
            found = self.peek().decode("utf-8", "replace")
            raise DumpError(self.line(), f"'{found}' stands where '{byte.decode()}' is due")
        self._at += 1

    def next_is(self, byte: bytes) -> bool:
        """True if this byte comes next after white space."""
        return self.skip_space() and self.peek() == byte

    def comma_or(self, end: bytes) -> bool:
        """Pass a comma, or ``end``; True if it was the end."""
        if self.next_is(end):
            self.advance()
            return True
        self.expect(b",")
        return False

    def hold(self) -> None:
        """Keep everything from here on, until it is released."""
        self._held = self._at

    def release(self) -> memoryview | None:
        """What was passed since it was held; None if nothing is held."""
        held, self._held = self._held, None
        return None if held is None else memoryview(self._buffer)[held : self._at]

    def value_if_short(self) -> memoryview | None:
        """The next value if it ends within one piece; the window passes it only then."""
        if len(self._buffer) - self._at < self._piece:
            self._more()
        end = self._end()
        return None if end is None else self._pass(end)

    def value(self) -> memoryview:
        """The next JSON value, passed."""
        self.skip_space()
        while (end := self._end()) is None:
            if self._ended:
                line = self._line_of(len(self._buffer))
                raise DumpError(line, "the text ends within a value: it was cut off")
            self._more()
        return self._pass(end)

    def _pass(self, end: int) -> memoryview:
        start, self._at = self._at, end
        return memoryview(self._buffer)[start:end]

    def _end(self) -> int | None:
        """Where the value at hand ends; None if more text is needed to know."""
        try:
            _skip(memoryview(self._buffer)[self._at :])
        except RecursionError as error:
            raise DumpError(self.line(), "nested too deeply") from error
        except msgspec.DecodeError as error:
            message = str(error)
            trailing = _TRAILING.search(message)
            if trailing is not None:
                return self._at + int(trailing[1]) - 1
            if "truncated" in message:
                return None
            match = _POSITION.match(message)
            position = self._at + (int(match["byte"]) if match else 0)
            if position > len(self._buffer) - _LONGEST_TOKEN and not self._ended:
                return None  # a number or word that is cut in two is not wrong yet
            what = match["what"] if match else message
            raise DumpError(self._line_of(position), f"not JSON: {what}") from error
        closed = self._buffer[-1:] in (b"}", b"]", b'"') or self._buffer[-1:] in _SPACE
        return len(self._buffer) if closed or self._ended else None

    def _line_of(self, position: int) -> int:
        return self.line() + _newlines(self._buffer, self._at, position)

    def _more(self) -> bool:
        """Drop what was passed and read on; at least doubles what is kept, so that nothing is quadratic."""
        self.line()
        start = self._at if self._held is None else self._held
        kept = self._buffer[start:]
        text = b"" if self._ended else self._read(max(self._piece, len(kept)))
        self._ended = not text
        self._buffer = kept + text
        self._dropped += start
        self._at -= start
        self._counted -= start
        self._held = None if self._held is None else 0
        return not self._ended
