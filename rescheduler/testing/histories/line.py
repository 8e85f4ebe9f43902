"""The controller's connection to the API server, with the faults of a network and of a busy server.

A ``Line`` dies before or after a chosen write, refuses requests, or loses them or their answers. It also
knows whose write is being carried out: ``sending`` is true for those of the program.
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
    """The process dies here; nothing of it catches this."""


class Restless(BaseException):
    """The program writes without an end."""


class Fault(enum.StrEnum):
    """What can become of a request."""

    CONFLICT = "409"
    BUSY = "429"
    BROKEN = "500"
    AWAY = "503"
    LOST_REQUEST = "timeout before"
    LOST_ANSWER = "timeout after"


_WORDS: Final = {
    Fault.CONFLICT: (
        409,
        "Conflict",
        "the object has been modified; please apply your changes to the latest",
    ),
    Fault.BUSY: (429, "TooManyRequests", "too many requests, please try again later"),
    Fault.BROKEN: (500, "InternalError", "an error on the server prevented the request from succeeding"),
    Fault.AWAY: (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
}
_MOST_AT_ONCE: Final = 500
_OF_WRITES: Final = tuple(Fault)
_OF_READS: Final = (Fault.BUSY, Fault.BROKEN, Fault.AWAY, Fault.LOST_REQUEST)


class Line:
    """A transport. ``trouble``: the share of requests that go wrong. ``away``: from when to when nobody answers."""

    def __init__(self, transport: Transport, rng: random.Random, clock: Callable[[], float]) -> None:
        self._transport, self._rng, self._clock = transport, rng, clock
        self._instant_s, self._at_once = 0.0, 0
        self._left: int | None = None
        self._after = False
        self.trouble = 0.0
        self.away: list[tuple[float, float]] = []
        self.sending = False
        self.met: Counter[str] = Counter()

    def doom(self, writes: int | None, *, after: bool) -> None:
        """Die at the n-th write from now, before or after it is carried out; None: live."""
        self._left, self._after = writes, after

    def send(self, request: Request) -> Response:
        """One request. Raises Killed, TransportError; Restless where no time passes between very many."""
        self._count()
        if self.is_away():
            raise TransportError("connection refused")
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

    def is_away(self) -> bool:
        """True while the API server does not answer the program."""
        return any(began_s <= self._clock() < ended_s for began_s, ended_s in self.away)

    def away_since(self, moment_s: float) -> float:
        """For how many seconds of those since then it did not answer; outages that overlap count twice."""
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


def _refusal(fault: Fault) -> Response:
    code, reason, message = _WORDS[fault]
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return Response(code, msgspec.json.encode(status), {"content-type": "application/json"})
