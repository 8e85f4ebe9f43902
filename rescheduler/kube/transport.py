"""The seam below which bytes travel: a request to an API server and its answer, and the lines of a stream.

Two implementations: ``kube.connection`` (the official client's connection, TLS and authentication) and the
sandbox in process. Everything above works on either. A transport never retries, never decodes
and raises only ``TransportError``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from rescheduler.errors import ReschedulerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``query`` values are not yet escaped; ``body`` is JSON."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of any status code. Header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class TransportError(ReschedulerError):
    """No answer: refused, reset, timed out, cut off. The world is at fault; try again later."""


class UnreachableError(TransportError):
    """Nobody listens there, or not whom the configuration trusts: the server has not seen the request."""


class SilenceError(TransportError):
    """Nothing came over an open stream for its time limit: half-open, or nothing happened at all."""


class Stream(Protocol):
    """An open watch. Iterating yields chunks of bytes as they arrive; ``close`` may be called by any thread."""

    status: int
    headers: Mapping[str, str]
    """Header names are in lower case."""

    def __iter__(self) -> Iterator[bytes]:
        """Chunks; raises SilenceError past the time limit, TransportError on a broken connection."""
        ...

    def read_all(self) -> bytes:
        """The rest of the body, for answers that are not 200."""
        ...

    def close(self) -> None:
        """Ends the stream; a thread that iterates it returns."""
        ...


class Transport(Protocol):
    """Sends requests."""

    def send(self, request: Request) -> Response:
        """One request, one answer of any status. Raises TransportError."""
        ...

    def stream(self, request: Request) -> Stream:
        """Opens a watch. Raises TransportError."""
        ...


MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Several times the largest object that etcd takes (1.5 MiB)."""


class LineTooLongError(ReschedulerError):
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
