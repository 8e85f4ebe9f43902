"""A ClusterState from dumps: files, folders, standard input; JSON or YAML, plain, gzip or zstd.

One damaged object never costs the rest: it is set aside with a warning that names file and object. What
is not a dump at all is an ``InputError`` that says where and what to do.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rescheduler.cli.input_errors import InputError, SourceWarning
from rescheduler.cli.streams import STANDARD_INPUT, Bytes, opened
from rescheduler.cli.yaml_items import yaml_items
from rescheduler.model.cluster import ClusterState, key_of
from rescheduler.model.decode import BadObject, Decoder, Record
from rescheduler.model.dump import PIECE_BYTES, DumpError, Item, Stretch, items_of
from rescheduler.model.kinds import Kind

__all__ = ["InputError", "SourceWarning", "read_sources"]

Progress = Callable[[int, int, str], None]
"""(bytes read, bytes in all or 0, what is being read)."""

_ENDINGS: Final = (".json", ".yaml", ".yml", ".jsonl")
_COMPRESSED: Final = (".gz", ".zst", ".zstd")
_DAMAGED_NAMED: Final = 50
_REMEDY: Final = "give what 'kubectl get -o json' or '-o yaml' writes"


def read_sources(
    paths: Sequence[str], decoder: Decoder, progress: Progress
) -> tuple[ClusterState, tuple[SourceWarning, ...]]:
    """Everything that the files hold, and what was left out or decided on the way.

    ``paths``: files, folders (read recursively, in the order of their names) and "-".

    Raises:
        InputError: a path cannot be read, or a file is no dump.
    """
    files = [file for path in paths for file in _files(path)]
    sizes = [0 if file == STANDARD_INPUT else Path(file).stat().st_size for file in files]
    total = 0 if STANDARD_INPUT in files else sum(sizes)
    collection = _Collection(decoder)
    collecting = gc.isenabled()
    gc.disable()  # reading allocates only what stays; scanning it again and again would be most of the cost
    try:
        done = 0
        for file, size in zip(files, sizes, strict=True):
            _read_file(file, collection, partial(_advance, progress, done, total, file))
            done += size
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
    return collection.state, collection.warnings()


def _advance(progress: Progress, before: int, total: int, path: str, done: int) -> None:
    progress(before + done, total, path)


def _files(path: str) -> Iterator[str]:
    """The files of a path in a stable order."""
    if path == STANDARD_INPUT:
        yield path
        return
    place = Path(path)
    if not place.exists():
        raise InputError(path, 0, "no such file or folder", "check the path")
    if not place.is_dir():
        yield path
        return
    found = sorted(str(file) for file in place.rglob("*") if file.is_file() and _is_dump(file.name))
    if not found:
        raise InputError(path, 0, "the folder has no .json or .yaml file", "check the path")
    yield from found


def _is_dump(name: str) -> bool:
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(_ENDINGS) and not name.startswith(".")


def _read_file(path: str, collection: _Collection, advance: Callable[[int], None]) -> None:
    with opened(path, advance) as stream:
        first = _first_piece(stream)
        if not first:
            remedy = "the command that wrote it may have failed; write it again"
            raise InputError(path, 0, "the file is empty", remedy)
        again = _Rejoined(first, stream)
        try:
            if first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
                collection.take(path, items_of(again.read, take=partial(collection.take_stretch, path)))
            else:
                collection.take(path, yaml_items(path, again, collection.warn))
        except DumpError as error:
            raise InputError(path, error.line, error.message, _REMEDY) from error


def _first_piece(stream: Bytes) -> bytes:
    """The beginning of a file, up to and including something that is not white space."""
    first = b""
    while not first.strip(b"\xef\xbb\xbf \t\r\n"):
        piece = stream.read(PIECE_BYTES)
        if not piece:
            return b""
        first += piece
    return first


class _Rejoined:
    """A stream with the piece that was already read put back in front."""

    def __init__(self, first: bytes, stream: Bytes) -> None:
        self._first = first
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes."""
        if self._first:
            piece, self._first = self._first[:size], self._first[size:]
            return piece
        return self._stream.read(size)


class _Collection:
    """Records of all files, and what is to be said about them."""

    def __init__(self, decoder: Decoder) -> None:
        self.state = ClusterState()
        self._decoder = decoder
        self._warnings: list[SourceWarning] = []
        self._unknown: dict[str, tuple[str, int]] = {}
        self._repeated: dict[Kind, tuple[str, str, int]] = {}
        self._damaged: Counter[str] = Counter()

    def warn(self, warning: SourceWarning) -> None:
        """Say something about one object; of very many only the first are named."""
        self._damaged[warning.path.partition(":")[0]] += 1
        if sum(self._damaged.values()) <= _DAMAGED_NAMED:
            self._warnings.append(warning)

    def take(self, path: str, items: Iterable[Item]) -> None:
        """Add the objects of one file."""
        attempt, state = self._decoder.attempt, self.state
        for item in items:
            kind = item.type.known
            if kind is None:
                self._note_unknown(path, item)
                continue
            record = attempt(kind, item.raw)
            if isinstance(record, BadObject):
                name = f"{record.kind} {record.name}"
                self.warn(SourceWarning(f"{path}:{item.line}", f"left out: {record.error}", name))
                continue
            self._note_repeated(path, kind, state.add(kind, (record,)))

    def take_stretch(self, path: str, stretch: Stretch) -> bool:
        """Add many objects of one file at once, if they are of a known kind and whole."""
        kind = stretch.type.known
        records = self._decoder.stretch(kind, stretch) if kind is not None else None
        if kind is None or records is None:
            return False
        self._note_repeated(path, kind, self.state.add(kind, records))
        return True

    def warnings(self) -> tuple[SourceWarning, ...]:
        """All warnings: of single objects, then of repeated ones, then of kinds that mean nothing here."""
        found = list(self._warnings)
        more = sum(self._damaged.values()) - _DAMAGED_NAMED
        if more > 0:
            found.append(SourceWarning(", ".join(self._damaged), f"{more} more objects are left out"))
        for kind, (path, name, count) in self._repeated.items():
            message = f"{count} {kind} objects stand more than once; the newest of each is used"
            found.append(SourceWarning(path, message, f"{name} and others" if count > 1 else name))
        for kind_name, (path, count) in sorted(self._unknown.items()):
            found.append(SourceWarning(path, f"{count} objects of kind {kind_name} are not used"))
        return tuple(found)

    def _note_repeated(self, path: str, kind: Kind, again: Sequence[Record]) -> None:
        for record in again:
            first = self._repeated.get(kind, (path, str(key_of(record)), 0))
            self._repeated[kind] = (*first[:2], first[2] + 1)

    def _note_unknown(self, path: str, item: Item) -> None:
        name = item.type.kind or "(none)"
        if item.type.api_version:
            name = f"{name} ({item.type.api_version})"
        first, count = self._unknown.get(name, (path, 0))
        self._unknown[name] = (first, count + 1)
