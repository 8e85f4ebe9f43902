"""The controller's connection to the API server, with the faults of a network and of a busy server.

A ``Line`` ends the process before or after a chosen write, refuses requests, or loses requests or their answers. While it
sends a request of the program, ``sending`` is true: so the checker knows which writes are the program's.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from rescheduler.kube.transport import Request, Response, Stream, Transport, TransportError


class Killed(BaseException):
    """The process ends here, as if killed; no code of the program catches this."""


class Restless(BaseException):
    """The program sends requests without end."""


class Fault(enum.StrEnum):
    """The faults that a request can meet."""

    CONFLICT = "409"
    BUSY = "429"
    BROKEN = "500"
    AWAY = "503"
    LOST_REQUEST = "timeout before"
    LOST_ANSWER = "timeout after"


_WORDS: Final = {
    Fault.CONFLICT: (409, "Conflict", "the object has been modified; please apply your changes to the latest"),
    Fault.BUSY: (429, "TooManyRequests", "too many requests, please try again later"),
    Fault.BROKEN: (500, "InternalError", "an error on the server prevented the request from succeeding"),
    Fault.AWAY: (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
}  # fmt: skip
_MOST_AT_ONCE: Final = 500
_OF_WRITES: Final = tuple(Fault)
_OF_READS: Final = (Fault.BUSY, Fault.BROKEN, Fault.AWAY, Fault.LOST_REQUEST)


class Line:
    """A transport with faults. ``trouble``: share of the requests that fail. ``away``: intervals in which no request is answered.

    ``unserved``: parts of paths, and until when requests for them are answered with 404 in plain text.
    """

    def __init__(self, transport: Transport, rng: random.Random, clock: Callable[[], float]) -> None:
        self._transport, self._rng, self._clock = transport, rng, clock
        self._instant_s, self._at_once = 0.0, 0
        self._left: int | None = None
        self._after = False
        self.trouble = 0.0
        self.away: list[tuple[float, float]] = []
        self.unserved: dict[str, float] = {}
        self.sending = False
        self.met: Counter[str] = Counter()

    def doom(self, writes: int | None, *, after: bool) -> None:
        """End the process at the n-th write from now, before or after it is carried out; None: never."""
        self._left, self._after = writes, after

    def send(self, request: Request) -> Response:
        """One request. Raises Killed, TransportError; Restless if very many are sent at one moment of virtual time."""
        self._count()
        if self.is_away():
            raise TransportError("connection refused")
        if any(part in request.path and self._clock() < until_s for part, until_s in self.unserved.items()):
            self.met["answer: 404 of no object"] += 1
            return Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
        last = self._is_last(request)
        if last and not self._after:
            raise Killed
        fault = self._fault(request)
        if fault in _WORDS:
            return _refusal(fault)
        if fault is Fault.LOST_REQUEST:
            raise TransportError("timed out before the request was sent")
        self.sending = True
        try:
            answer = self._transport.send(request)
        finally:
            self.sending = False
        if last:
            raise Killed
        if fault is Fault.LOST_ANSWER:
            raise TransportError("timed out before the answer came")
        return answer

    def stream(self, request: Request) -> Stream:
        """Not used: histories deliver changes themselves."""
        return self._transport.stream(request)

    def send_beside(self, request: Request) -> Response:
        """A request of another thread of the process: it meets the same faults, but is not counted and ends no process."""
        if self.is_away():
            raise TransportError("connection refused")
        if self.trouble and self._rng.random() < self.trouble:
            raise TransportError("timed out before the request was sent")
        return self._transport.send(request)

    def is_away(self) -> bool:
        """True while the API server does not answer the program."""
        return any(began_s <= self._clock() < ended_s for began_s, ended_s in self.away)

    def away_since(self, moment_s: float) -> float:
        """Seconds without answers since ``moment_s``; outages that overlap count twice."""
        now_s = self._clock()
        return sum(max(0.0, min(ended_s, now_s) - max(began_s, moment_s)) for began_s, ended_s in self.away)

    def _count(self) -> None:
        if self._clock() > self._instant_s:
            self._instant_s, self._at_once = self._clock(), 0
        self._at_once += 1
        if self._at_once > _MOST_AT_ONCE:
            raise Restless

    def _is_last(self, request: Request) -> bool:
        if request.method == "GET" or self._left is None:
            return False
        self._left -= 1
        return self._left <= 0

    def _fault(self, request: Request) -> Fault | None:
        if not self.trouble or self._rng.random() >= self.trouble:
            return None
        fault = self._rng.choice(_OF_READS if request.method == "GET" else _OF_WRITES)
        self.met[f"answer: {fault}"] += 1
        return fault


class LeaseLine:
    """The elector's connection: renewals of the Lease are not counted as writes, and the process is not ended at them."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def send(self, request: Request) -> Response:
        """One request. Raises TransportError."""
        return self._line.send_beside(request)

    def stream(self, request: Request) -> Stream:
        """Not used: a Lease is not watched."""
        return self._line.stream(request)


def _refusal(fault: Fault) -> Response:
    code, reason, message = _WORDS[fault]
    status = {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": message,
    }  # fmt: skip
    return Response(code, msgspec.json.encode(status), {"content-type": "application/json"})
