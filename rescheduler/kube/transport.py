"""The seam below which bytes travel: a request to an API server and its answer.

Two implementations: ``kube.connection`` (the official client's connection, TLS and authentication) and the
embedded cluster in process. Everything above works on either. A transport never retries, never decodes
and raises only ``TransportError``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


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


class TransportError(Exception):
    """No answer: refused, reset, timed out, cut off. The world is at fault; try again later."""


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
