"""Splits a JSON dump of a cluster into single objects without holding the whole text in memory.

Reads what ``kubectl get -o json`` and the API itself write: Lists, Lists of Lists, single objects, arrays, several
documents one after the other. The caller hands in a ``read`` function; each piece of the text is kept only until its
objects are split off. Only items that do not say what they are, in a list that says it behind them, are kept to its end. msgspec finds where a value ends: it parses one value and reports the byte at which something
else follows.

To find the end of an object that way costs more than to parse it. So the caller may take many items of an array at
once, as an ItemBatch. A batch ends before the last place in the piece that looks like the beginning of another item.
That place is a guess, which the caller verifies by parsing the batch as an array of its own: text that ends before a
comma and is a valid array between brackets can only be whole items. If the parse fails, the items are split one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.errors import ReschedulerError
from rescheduler.model.decode.wire_types import Wire
from rescheduler.model.kinds import RESOURCES, Kind

PIECE_BYTES: Final = 128 << 10
"""Bytes that are read at once; an object may be larger."""

MOST_VALUE_BYTES: Final = 256 << 20
"""Of one value of a list or a document; several hundred times the largest object that an API server takes."""

_LONGEST_TOKEN: Final = 400
_VALUES: Final = {b"n": "null", b'"': "a text", b"[": "a list", b"t": "true", b"f": "false"}
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
"""The beginning of an object: the two members with its type, or as much of them as there is."""

_KINDS: Final = {(resource.group, resource.kind or kind.value): kind for kind, resource in RESOURCES.items()}
_skip = msgspec.json.Decoder(Raw).decode


class DumpError(ReschedulerError, ValueError):
    """The text is not JSON, or it is truncated. ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class TypeName(NamedTuple):
    """apiVersion and kind of an object; empty where the object has none."""

    api_version: str = ""
    kind: str = ""

    @property
    def known(self) -> Kind | None:
        """The ``Kind``; None if a Snapshot has no objects of this type."""
        group = self.api_version.rpartition("/")[0]
        return _KINDS.get((group, self.kind))

    @property
    def item(self) -> TypeName:
        """The type of the items of a list of this type, if the items have no apiVersion and kind."""
        kind = self.kind.removesuffix("List")
        return TypeName(self.api_version, kind) if kind and kind != self.kind else TypeName()


class Item(NamedTuple):
    """One object: its type, its JSON text, and the line on which it begins."""

    type: TypeName
    raw: memoryview
    line: int
    problem: str = ""
    """Not empty: it stands where an object should, and is none."""


class ItemBatch(NamedTuple):
    """Consecutive items of an array, as the text of an array of its own."""

    type: TypeName
    """Type of the first item."""
    implied: TypeName
    """Type of an item that has no apiVersion and kind."""
    text: bytes


TakeBatch = Callable[[ItemBatch], int]
"""Takes all items of a batch; how many. Returns 0, without any effect, if the text is not one valid JSON array."""


class HeadWire(Wire):
    """The members of a JSON object that tell whether it is a list."""

    api_version: str | None = None
    kind: str | None = None
    items: Raw = Raw(b"")


_decode_head = msgspec.json.Decoder(HeadWire).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


def _take_none(batch: ItemBatch) -> int:
    del batch
    return 0


def items_of(
    read: Callable[[int], bytes], piece_bytes: int = PIECE_BYTES, take_batch: TakeBatch = _take_none
) -> Iterator[Item]:
    """Every object of a dump. ``read(n)`` returns up to n more bytes, and no bytes at the end.

    ``take_batch`` is called with batches of items; items that it takes are not yielded.

    Raises:
        DumpError: not JSON, or JSON that is neither object nor array.
    """
    text = _Text(read, piece_bytes)
    while text.skip_space():
        if text.peek() == b"[":
            yield from _array(text, TypeName(), take_batch)
        elif text.peek() == b"{":
            yield from _document(text, take_batch)
        else:
            raise DumpError(text.line(), "neither a JSON object nor an array")


def items_within(raw: memoryview, line: int, fallback: TypeName, index: int = 0) -> Iterator[Item]:
    """The object itself, or its items if it is a list, at any depth. ``index``: its own place in its list, from 0."""
    if bytes(raw[:1]) != b"{":
        found_name = _VALUES.get(bytes(raw[:1]), "a number")
        yield Item(TypeName(), raw, line, f"items[{index}] is {found_name}, not an object")
        return
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
    for place, entry in enumerate(inner):
        yield from items_within(memoryview(entry), line, found.item, place)


def _may_be_list(found: TypeName) -> bool:
    return not found.kind or (found.kind.endswith("List") and found.known is None)


def _type_of(raw: memoryview, fallback: TypeName) -> TypeName:
    """The type of an object. kubectl writes apiVersion and kind first: then nothing has to be decoded to find them."""
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


def _document(text: _Text, take_batch: TakeBatch) -> Iterator[Item]:
    """One top-level object: as a whole if it is short or no list, else its items while the text is read."""
    line = text.line()
    whole = text.value_if_short()
    if whole is None:
        head, early = TypeName(), list[tuple[bytes, int]]()
        text.hold()
        for key in _keys(text):
            if key == b'"items"' and text.peek() == b"[":
                text.release()
                known = all(head)
                for item in _array(text, head.item if known else TypeName(), take_batch):
                    if known or item.type.kind:
                        yield item
                    else:
                        early.append((bytes(item.raw), item.line))
                continue
            value = bytes(text.value()).strip().strip(b'"')
            if key == b'"kind"':
                head = head._replace(kind=value.decode("utf-8", "replace"))
            elif key == b'"apiVersion"':
                head = head._replace(api_version=value.decode("utf-8", "replace"))
        # Items without a type have that of their list, which may stand behind them: jq sorts keys, and so do clients.
        for raw, began in early:
            yield from items_within(memoryview(raw), began, head.item)
        whole = text.release()
    if whole is not None:
        yield from items_within(whole, line, TypeName())


def _keys(text: _Text) -> Iterator[bytes]:
    """The keys of the object at the current position; the caller must move past the value before the next key."""
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


def _array(text: _Text, fallback: TypeName, take_batch: TakeBatch) -> Iterator[Item]:
    """The items of the array at the current position that were not taken in batches."""
    text.expect(b"[")
    if text.next_is(b"]"):
        text.advance()
        return
    single_until = index = 0
    while True:
        gap = text.space()
        if text.offset >= single_until:
            single_until, taken = _try_batch(text, gap, fallback, take_batch)
            index += taken
        line = text.line()
        yield from items_within(text.value(), line, fallback, index)
        index += 1
        if text.comma_or(b"]"):
            return


def _try_batch(text: _Text, gap: bytes, fallback: TypeName, take_batch: TakeBatch) -> tuple[int, int]:
    """Have batches taken, as long as there are some. Items before the first number, an offset, are to be split one by one.

    The second number: how many items were taken.
    """
    count = 0
    while True:
        opening = text.match(_OPENING)
        end = text.last(b"," + gap + opening) if opening else None
        if end is None:
            return text.end, count  # no second item in this piece: do not search it again for every item
        stated = _type_of(memoryview(opening + b"}"), fallback)
        taken = take_batch(ItemBatch(stated, fallback, text.array_until(end)))
        if not taken:
            return end, count
        count += taken
        text.pass_until(end)
        text.expect(b",")
        text.skip_space()
        text.read_on()


def _newlines(text: bytes, start: int, end: int) -> int:
    """Newlines from ``start`` to ``end``. ``bytes.count`` would take five times as long: a tenth of all reading."""
    import numpy as np  # noqa: PLC0415 - most commands read no dump

    if text.find(b"\n", start, end) < 0:
        return 0
    return int(np.count_nonzero(np.frombuffer(text, np.uint8, end - start, start) == _NEWLINE))


class _Text:
    """A sliding window over the text: text before the position is dropped, more is read when it is needed."""

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
        """The line of the position. Each byte is counted only once."""
        self._lines += _newlines(self._buffer, self._counted, self._at)
        self._counted = self._at
        return self._lines

    def skip_space(self) -> bool:
        """Move past white space (and a byte order mark); False at the end of the text."""
        while True:
            self._at = _SPACES.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer):
                if self._buffer.startswith(b"\xef\xbb\xbf", self._at):
                    self._at += 3
                    continue
                return True
            if not self.read_on():
                return False

    def space(self) -> bytes:
        """Move past white space and return it; empty if it was spread over several pieces."""
        before = self.offset
        self.skip_space()
        return self._buffer[before - self._dropped : self._at] if before >= self._dropped else b""

    @property
    def offset(self) -> int:
        """The position, in bytes of the whole text."""
        return self._dropped + self._at

    @property
    def end(self) -> int:
        """The end of what was read, in bytes of the whole text."""
        return self._dropped + len(self._buffer)

    def match(self, pattern: re.Pattern[bytes]) -> bytes:
        """The text that matches at the position; empty if nothing does."""
        found = pattern.match(self._buffer, self._at)
        return found[0] if found else b""

    def last(self, separator: bytes) -> int | None:
        """Offset of the last occurrence in what was read."""
        found = self._buffer.rfind(separator, self._at)
        return None if found < 0 else self._dropped + found

    def array_until(self, offset: int) -> bytes:
        """The text from the position to ``offset``, between brackets."""
        return b"".join((b"[", memoryview(self._buffer)[self._at : offset - self._dropped], b"]"))

    def pass_until(self, offset: int) -> None:
        """Move to ``offset``."""
        self._at = offset - self._dropped

    def peek(self) -> bytes:
        """The byte at the position."""
        return self._buffer[self._at : self._at + 1]

    def advance(self) -> None:
        """Move past one byte."""
        self._at += 1

    def expect(self, byte: bytes) -> None:
        """Move past this byte, which must come next after white space."""
        if not self.skip_space():
            raise DumpError(self.line(), f"expected '{byte.decode()}', found the end: the text is truncated")
        if self.peek() != byte:
            found = self.peek().decode("utf-8", "replace")
            raise DumpError(self.line(), f"expected '{byte.decode()}', found '{found}'")
        self._at += 1

    def next_is(self, byte: bytes) -> bool:
        """True if this byte comes next after white space."""
        return self.skip_space() and self.peek() == byte

    def comma_or(self, end: bytes) -> bool:
        """Move past a comma or ``end``; True if it was ``end``."""
        if self.next_is(end):
            self.advance()
            return True
        self.expect(b",")
        return False

    def hold(self) -> None:
        """Keep the text from the position on until ``release``."""
        self._held = self._at

    def release(self) -> memoryview | None:
        """The text from ``hold`` to the position; None if nothing is held."""
        held, self._held = self._held, None
        return None if held is None else memoryview(self._buffer)[held : self._at]

    def value_if_short(self) -> memoryview | None:
        """The next value if it ends within one piece: only then the position moves past it."""
        if len(self._buffer) - self._at < self._piece:
            self.read_on()
        end = self._end()
        return None if end is None else self._pass(end)

    def value(self) -> memoryview:
        """Move past the next JSON value and return it."""
        self.skip_space()
        while (end := self._end()) is None:
            if self._ended:
                line = self._line_of(len(self._buffer))
                raise DumpError(line, "the text ends within a value: it is truncated")
            self.read_on()
        return self._pass(end)

    def _pass(self, end: int) -> memoryview:
        start, self._at = self._at, end
        return memoryview(self._buffer)[start:end]

    def _end(self) -> int | None:
        """Where the value at the position ends; None if more text is needed to find out."""
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
                return None  # a number or word may be cut in two at the end of the buffer: read on before it is an error
            what = match["what"] if match else message
            raise DumpError(self._line_of(position), f"not JSON: {what}") from error
        closed = self._buffer[-1:] in (b"}", b"]", b'"') or self._buffer[-1:] in _SPACE
        return len(self._buffer) if closed or self._ended else None

    def _line_of(self, position: int) -> int:
        return self.line() + _newlines(self._buffer, self._at, position)

    def read_on(self) -> bool:
        """Drop text before the position and read on. What is kept at least doubles: the cost stays linear."""
        self.line()
        start = self._at if self._held is None else self._held
        if len(self._buffer) - start > MOST_VALUE_BYTES:
            raise DumpError(self.line(), f"one value of more than {MOST_VALUE_BYTES >> 20} MiB")
        kept = self._buffer[start:]
        text = b"" if self._ended else self._read(max(self._piece, len(kept)))
        self._ended = not text
        self._buffer = kept + text
        self._dropped += start
        self._at -= start
        self._counted -= start
        self._held = None if self._held is None else 0
        return not self._ended
