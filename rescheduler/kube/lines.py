"""Splits the bytes of a watch into lines (pure), with a cap of its own and none of a library's."""

from __future__ import annotations

from typing import Final

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Several times the largest object that etcd takes (1.5 MiB)."""


class LineTooLongError(Exception):
    """More bytes without a line end than the cap: the stream is not a watch, or the server is broken."""


class LineSplitter:
    """Give it chunks, it gives back whole lines. Linear in the bytes whatever the chunk size."""

    def __init__(self, cap_bytes: int = MAX_LINE_BYTES) -> None:
        self._cap_bytes = cap_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without line ends; empty lines are left out.

        Raises:
            LineTooLongError: nothing of this stream can be used any more.
        """
        *ended, rest = chunk.split(b"\n")
        if ended and self._rest:
            ended[0] = b"".join((*self._rest, ended[0]))
            self._rest, self._rest_bytes = [], 0
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
        if self._rest_bytes > self._cap_bytes or any(len(line) > self._cap_bytes for line in ended):
            raise LineTooLongError(f"a line of more than {self._cap_bytes} bytes")
        return [line for line in ended if line.strip()]

    @property
    def cut_off(self) -> bool:
        """True if bytes without a line end are left: a stream that ends now was cut inside a line."""
        return self._rest_bytes > 0
