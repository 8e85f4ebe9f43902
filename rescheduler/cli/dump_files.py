"""Files that people name: configurations and manifests, read as a whole up to a limit, and dumps (plain, gzip or zstd, or standard input).

A device or a pipe without an end is refused like a file that is too large, and a path that leads nowhere is told apart from a file
that is not there. The compression of a dump is recognised by its first bytes.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.streams import reason
from rescheduler.errors import ReschedulerError
from rescheduler.extras import Extra, needs
from rescheduler.yaml_limits import MOST_BYTES

STANDARD_INPUT: Final = "-"


class InputError(CommandError):
    """A file that cannot be used; the remedy tells the user what to do. ``line`` 0: the whole file."""

    def __init__(self, path: str, line: int, message: str, remedy: str) -> None:
        place = f"{path}:{line}" if line else path
        super().__init__(f"{place}: {message}; {remedy}" if remedy else f"{place}: {message}", EXIT_USAGE)
        self.path = path
        self.line = line
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """A warning about an object that was skipped or repeated."""

    path: str
    message: str
    object_name: str = ""
    """Empty: the warning is not about one object."""

    def __str__(self) -> str:
        about = f"{self.object_name}: " if self.object_name else ""
        return f"{self.path}: {about}{self.message}"


_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_LOOK: Final = 4
_BUFFER: Final = 1 << 16
_PIECE: Final = 1 << 20
_VERIFIED_PIECES: Final = 256

Advance = Callable[[int], None]
"""Called with the number of bytes that were read so far, of the file as it is on disk."""


ByteStream: TypeAlias = "io.BufferedReader[Any]"
"""The stream that a dump is read from."""


class _Counted(io.RawIOBase):
    """A raw stream that reports how many bytes were read."""

    def __init__(self, inner: io.RawIOBase, advance: Advance) -> None:
        super().__init__()
        self._inner = inner
        self._advance = advance
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._inner.readinto(buffer) or 0
        self._done += count
        self._advance(self._done)
        return count


@contextmanager
def opened(path: str, advance: Advance) -> Iterator[ByteStream]:
    """A stream of the uncompressed text of ``path`` (``-``: standard input).

    Raises:
        InputError: the file does not exist, cannot be read, or is damaged.
    """
    try:
        raw = sys.stdin.buffer if path == STANDARD_INPUT else Path(path).open("rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        counted = io.BufferedReader(_Counted(cast("io.RawIOBase", raw), advance), _BUFFER)
        stream = _uncompressed(path, counted)
        try:
            yield stream
        except ReschedulerError:
            if stream is not counted:
                _verify(stream)
            raise
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(path, 0, f"damaged gzip file: {error}", "write the dump again") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        if path != STANDARD_INPUT:
            raw.close()


def looked_at(path: str) -> os.stat_result:
    """What is at ``path``. Raises InputError: nothing, or nothing that can be reached."""
    try:
        return Path(path).stat()
    except OSError as error:
        raise InputError(path, 0, why_unreadable(path, error), "check the path") from error


def _unreadable(path: str, error: OSError) -> InputError:
    if path == STANDARD_INPUT:
        return InputError("standard input", 0, reason(error), "give a file, or a pipe that can be read")
    return InputError(path, 0, why_unreadable(path, error), "give a file that can be read")


def _verify(stream: ByteStream) -> None:
    """Read on to the checksum: in a damaged file the nonsense comes first. Raises what the stream raises."""
    for _ in range(_VERIFIED_PIECES):
        if not stream.read(_PIECE):
            return


def _uncompressed(path: str, stream: io.BufferedReader[_Counted]) -> ByteStream:
    magic = stream.peek(_LOOK)
    if magic.startswith(_GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER)
    if magic.startswith(_ZSTD):
        return _zstd(path, stream)
    return stream


def _zstd(path: str, stream: io.BufferedReader[_Counted]) -> ByteStream:
    with needs(Extra.ZSTD, f"{path}: reading a file compressed by zstd"):
        import zstandard  # noqa: PLC0415 - an extra, needed for such files only
    reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    return io.BufferedReader(_ZstdReader(path, reader, zstandard.ZstdError), _BUFFER)


class _ZstdReader(io.RawIOBase):
    """A zstd stream whose errors are input errors."""

    def __init__(self, path: str, inner: Any, error: type[Exception]) -> None:
        super().__init__()
        self._path = path
        self._inner = inner
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._inner.read(len(buffer))
        except self._error as error:
            raise InputError(self._path, 0, f"damaged zstd file: {error}", "write the dump again") from error
        buffer[: len(data)] = data
        return len(data)


def read_text(path: str, what: str) -> bytes:
    """The content of a file that the user named; ``what``: a word for it.

    Raises:
        CommandError: it cannot be read, or is larger than such a file can be.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file, path, what)
    except OSError as error:
        message = f"{path}: cannot read the {what}: {why_unreadable(path, error)}"
        raise CommandError(message, EXIT_USAGE) from error


def read_text_or_stdin(path: str, what: str) -> bytes:
    """As ``read_text``; ``-`` is stdin. Raises CommandError."""
    if path != STANDARD_INPUT:
        return read_text(path, what)
    try:
        return _read(sys.stdin.buffer, "stdin", what)
    except OSError as error:
        message = f"stdin: cannot read the {what}: {error.strerror or error}"
        raise CommandError(message, EXIT_USAGE) from error


def _read(file: BinaryIO, path: str, what: str) -> bytes:
    content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        message = f"{path}: more than {MOST_BYTES >> 20} MiB: this is no {what}; check the path"
        raise CommandError(message, EXIT_USAGE)
    return content


def why_unreadable(path: str, error: OSError) -> str:
    """What the system says of a path, and where it leads if it is a broken link."""
    place = Path(path)
    if isinstance(error, FileNotFoundError) and place.is_symlink():
        return f"it is a symbolic link to {place.readlink()}, which does not exist"
    return "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
