"""The pool of calls in virtual time: calls reach the server late, and answers reach the program late, out of order.

It stands for the threads that wait for answers. The calls of one work are made in order and the next one only after the
answer to the one before; between two works nothing is in order. Lanes are narrow, so that works are turned away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rescheduler.controller.call_pool import CallPool, Lanes, Work

_ON_THE_WAY_S: Final = (0.0, 0.0, 0.01, 0.1)
"""From the decision to the server: no work waits for a free thread."""
_ON_THE_WAY_BACK_S: Final = (0.0, 0.02, 0.3, 3.0, 12.0)
"""From the server to the program: admission that is slow, or a connection that hangs."""
_SLOW_S: Final = 1.0


def covered_s(spans: Iterable[tuple[float, float]], since_s: float, until_s: float) -> float:
    """How many seconds between the two lie in any of the spans."""
    total_s, reached_s = 0.0, since_s
    for began_s, ended_s in sorted(spans):
        total_s += max(0.0, min(ended_s, until_s) - max(began_s, reached_s))
        reached_s = max(reached_s, min(ended_s, until_s))
    return total_s


@dataclass(slots=True)
class _Sent:
    work: Work
    began_s: float
    due_s: float
    """When its next call reaches the server; once ``answered``, when the answer reaches the program."""
    answered: bool = False


class LatePool(CallPool):
    """See ``rescheduler.controller.call_pool.CallPool``. ``share``: of the works that are late; the others land at once."""

    def __init__(self, rng: random.Random, *, clock: Callable[[], float], share: float) -> None:
        self._rng, self._clock, self._share = rng, clock, share
        self._lanes = Lanes(own=6, shared=5, each=2)
        self._sent: list[_Sent] = []
        self.slow_s: list[tuple[float, float]] = []
        """From when to when an answer that took seconds was waited for."""
        self.decided_at_s: float | None = None
        """When the call that is being made was decided; None: now."""
        self.slow: Callable[[Work], float] = lambda _: 0.0
        """After how many seconds each call of a work is answered; 0: as by chance."""

    @property
    def answered(self) -> bool:
        """True if a work can land."""
        now_s = self._clock()
        return any(sent.answered and sent.due_s <= now_s for sent in self._sent)

    def begin_round(self) -> None:
        """See ``Lanes``."""
        self._lanes.begin_round()

    def accepts(self, lane: str) -> bool:
        """See ``Lanes``."""
        return self._lanes.accepts(lane)

    def begin(self, work: Work, now_s: float) -> None:
        """Its calls are made now, or in ``step``."""
        slow = self.slow(work) > 0.0
        if not slow and (not self._share or self._rng.random() >= self._share):
            while work.call():
                pass
            work.land(now_s)
            return
        self._lanes.began(work.lane)
        waits_s = 0.0 if slow else self._rng.choice(_ON_THE_WAY_S)
        began_s = self._clock()
        self._sent.append(_Sent(work, began_s, began_s + waits_s))

    def step(self, now_s: float) -> int:
        """Make the calls that reach the server now, in any order. Returns how many."""
        due = [sent for sent in self._sent if not sent.answered and sent.due_s <= now_s]
        self._rng.shuffle(due)
        for sent in due:
            self.decided_at_s = sent.began_s
            try:
                more = sent.work.call()
            finally:
                self.decided_at_s = None
            back_s = self.slow(sent.work) or self._rng.choice(_ON_THE_WAY_BACK_S)
            sent.due_s = now_s + back_s
            if back_s >= _SLOW_S:
                self.slow_s.append((now_s, sent.due_s))
            sent.answered = not more
        return len(due)

    def next_due_s(self) -> float | None:
        """When a call or an answer is due; None: nothing is under way, or what has arrived waits for the loop."""
        now_s = self._clock()
        return min((s.due_s for s in self._sent if not s.answered or s.due_s > now_s), default=None)

    def land(self, now_s: float) -> bool:
        """Land all works whose answers have arrived, in any order."""
        came_by_s = self._clock()
        arrived = [sent for sent in self._sent if sent.answered and sent.due_s <= came_by_s]
        self._rng.shuffle(arrived)
        for sent in arrived:
            self._sent.remove(sent)
            self._lanes.ended(sent.work.lane)
            sent.work.land(now_s)
        return bool(arrived)
