"""The time of the API server, told by the ``Date`` of its answers: what ages of objects are computed with.

Objects carry times of the API server's clock, and no two machines' clocks may be compared: with a clock that is a minute
ahead, every gated pod would be overdue at its birth. So this machine's clock only counts the seconds between two answers.
Promises: an estimate errs by half a second (``Date`` has whole seconds) and half the shortest round trip, after many
answers by a tenth; a clock of this machine that is set, or that sleeps, changes nothing. Several API servers whose clocks
differ are told apart, and ``apart_s`` says by how much; which of them is right is not known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from rescheduler.kube.elector import suspend_aware_clock
from rescheduler.kube.transport import Request, Response, Stream, Transport

DRIFT: Final = 0.001
"""Seconds per second by which two clocks may move apart; twice what NTP may slew."""
FORGOTTEN_AFTER_S: Final = 120.0
"""A clock from which nothing was heard for so long, while others were heard, is gone."""
MOST_APART_S: Final = 5.0
"""With API servers' clocks further apart than this no move begins and no pod is evicted."""
_RESOLUTION_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Offset:
    """Bounds of (time of a server - time of the local clock), in seconds, and when they were last confirmed."""

    low_s: float
    high_s: float
    heard_at_s: float

    @staticmethod
    def of_answer(date_s: float, sent_at_s: float, received_at_s: float) -> Offset:
        """The server's clock showed ``date_s``, cut to seconds, at some moment between sending and receiving."""
        return Offset(date_s - received_at_s, date_s + _RESOLUTION_S - sent_at_s, received_at_s)

    def at(self, now_s: float) -> Offset:
        """The bounds now: wider, because clocks drift."""
        drift_s = DRIFT * max(0.0, now_s - self.heard_at_s)
        return replace(self, low_s=self.low_s - drift_s, high_s=self.high_s + drift_s)

    def narrowed(self, heard: Offset) -> Offset | None:
        """What both say; None if they contradict each other: another clock, or one that was set."""
        known = self.at(heard.heard_at_s)
        low_s, high_s = max(known.low_s, heard.low_s), min(known.high_s, heard.high_s)
        return Offset(low_s, high_s, heard.heard_at_s) if low_s <= high_s else None

    @property
    def middle_s(self) -> float:
        """The estimate."""
        return (self.low_s + self.high_s) / 2


class ServerClock:
    """The estimate; usable from many threads. ``clock``: monotonic seconds; ``wall``: this machine's, until an answer came."""

    def __init__(
        self, clock: Callable[[], float] = suspend_aware_clock, wall: Callable[[], float] = time.time
    ) -> None:
        self.clock, self._wall = clock, wall
        self._lock = threading.Lock()
        self._offsets: tuple[Offset, ...] = ()
        """One for each clock that was heard; the first one is followed as long as it is heard."""

    def heard(self, date: str, sent_at_s: float, received_at_s: float) -> None:
        """Take in the ``Date`` of an answer; one that cannot be read says nothing. Times of ``clock``."""
        try:
            date_s = parsedate_to_datetime(date).replace(tzinfo=UTC).timestamp()
        except (TypeError, ValueError, OverflowError):
            return
        sample = Offset.of_answer(date_s, sent_at_s, received_at_s)
        with self._lock:
            self._offsets = _with(self._offsets, sample)

    def now_s(self) -> float:
        """Seconds since the epoch by the API server's clock."""
        offsets = self._offsets
        return self.clock() + offsets[0].middle_s if offsets else self._wall()

    @property
    def known(self) -> bool:
        """False while no answer has told the time: the wall of this machine is believed."""
        return bool(self._offsets)

    def skew_s(self) -> float:
        """By how much this machine's clock is ahead of the API server's; negative: behind."""
        return self._wall() - self.now_s()

    def apart_s(self) -> float:
        """By how much the clocks of API servers that answered lately differ at least; 0 if one clock explains all answers."""
        now_s = self.clock()
        offsets = [offset.at(now_s) for offset in self._offsets]
        return max(0.0, max(o.low_s for o in offsets) - min(o.high_s for o in offsets)) if offsets else 0.0

    def problem(self) -> str:
        """Why no age can be told; empty if all ages can."""
        apart_s = self.apart_s()
        if apart_s <= MOST_APART_S:
            return ""
        return (
            f"the clocks of the API servers differ by {apart_s:.0f} s, so no pod's age can be told: "
            "synchronize them (NTP)"
        )


def _with(offsets: tuple[Offset, ...], sample: Offset) -> tuple[Offset, ...]:
    alive = [o for o in offsets if sample.heard_at_s - o.heard_at_s <= FORGOTTEN_AFTER_S]
    for number, known in enumerate(alive):
        if (both := known.narrowed(sample)) is not None:
            alive[number] = both
            return tuple(alive)
    return (*alive, sample)


@dataclass(frozen=True, slots=True)
class TimedTransport:
    """A transport whose answers tell the time."""

    inner: Transport
    time: ServerClock

    def send(self, request: Request) -> Response:
        """Send it, and hear the ``Date`` of the answer. Raises TransportError."""
        sent_at_s = self.time.clock()
        answer = self.inner.send(request)
        self.time.heard(answer.headers.get("date", ""), sent_at_s, self.time.clock())
        return answer

    def stream(self, request: Request) -> Stream:
        """Open it. Raises TransportError. Its first byte may come late, so it tells nothing."""
        return self.inner.stream(request)
