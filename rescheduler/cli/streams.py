"""Opening the files of a dump: plain, gzip or zstd, or standard input, told apart by their first bytes."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, cast

from rescheduler.cli.input_errors import InputError

STANDARD_INPUT: Final = "-"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_LOOK: Final = 4
_BUFFER: Final = 1 << 16

Advance = Callable[[int], None]
"""Takes the number of bytes of the file, as it is on disk, that were read so far."""


class Bytes(Protocol):
    """What a dump is read from."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes, b"" at the end."""
        ...


class _Counted(io.RawIOBase):
    """A raw stream that reports how far it was read."""

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
def opened(path: str, advance: Advance) -> Iterator[Bytes]:
    """A stream of the uncompressed text of ``path`` ("-": standard input).

    Raises:
        InputError: no such file, not readable, or compressed in a way that cannot be read here.
    """
    try:
        raw = sys.stdin.buffer if path == STANDARD_INPUT else Path(path).open("rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise InputError(path, 0, error.strerror or str(error), "give a file that can be read") from error
    try:
        counted = io.BufferedReader(_Counted(cast("io.RawIOBase", raw), advance), _BUFFER)
        yield _uncompressed(path, counted)
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(path, 0, f"damaged gzip file: {error}", "write the dump again") from error
    except OSError as error:
        raise InputError(path, 0, error.strerror or str(error), "give a file that can be read") from error
    finally:
        if path != STANDARD_INPUT:
            raw.close()


def _uncompressed(path: str, stream: io.BufferedReader[_Counted]) -> Bytes:
    magic = stream.peek(_LOOK)
    if magic.startswith(_GZIP):
        return cast("Bytes", gzip.GzipFile(fileobj=stream))
    if magic.startswith(_ZSTD):
        return _zstd(path, stream)
    return stream


def _zstd(path: str, stream: io.BufferedReader[_Counted]) -> Bytes:
    try:
        import zstandard  # noqa: PLC0415 - an extra, needed for such files only
    except ImportError:
        raise InputError(
            path, 0, "compressed with zstd, which needs a package", "install rescheduler[zstd]"
        ) from None
    reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    return _ZstdReader(path, reader, zstandard.ZstdError)


class _ZstdReader:
    """A zstd stream whose errors are input errors."""

    def __init__(self, path: str, inner: Bytes, error: type[Exception]) -> None:
        self._path = path
        self._inner = inner
        self._error = error

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes."""
        try:
            return self._inner.read(size)
        except self._error as error:
            raise InputError(self._path, 0, f"damaged zstd file: {error}", "write the dump again") from error
