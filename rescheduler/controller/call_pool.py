"""Where calls wait for their answers: in a pool, so that the core thread never does.

A ``Work`` is a row of calls about one object. ``CallPool.begin`` begins it, other threads make its calls, and the core
thread takes the outcome by ``land`` at the beginning of its next turn. Nothing but ``land`` changes state.
Promises: a work begins at once or is not accepted, so that no decision grows old in a queue; the calls of one work are
made in order. Works are counted in lanes: one for each namespace whose admission a call may wait for, and one for each namespace
for whose sake a call is made. A namespace whose webhook hangs, or that has thousands of objects, occupies its own few workers,
and namespaces that were turned away go before those that have workers.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from rescheduler.controller.effects import NotLeaderError

T = TypeVar("T")

OWN_LANE: Final = ""
"""Calls that wait for no tenant: cluster-wide objects, and the controller's own namespace."""


def own_lane(home: str) -> str:
    """Such calls for the sake of a namespace's pods: they wait for nobody, but thousands of them must not be in the way."""
    return f"{OWN_LANE}/{home}" if home else OWN_LANE


def _is_own(lane: str) -> bool:
    return lane == OWN_LANE or lane.startswith("/")


class Work(Protocol):
    """Calls about one object."""

    @property
    def lane(self) -> str:
        """The namespace whose admission the calls may wait for; ``own_lane``: none."""
        ...

    def call(self) -> bool:
        """Make the next call; True if another one follows. Runs on any thread and raises nothing but defects."""
        ...

    def land(self, now_s: float) -> None:
        """Take the outcome, on the core thread. Raises NotLeaderError. ``now_s``: seconds since the epoch."""
        ...


@dataclass(slots=True)
class OneCall(Generic[T]):
    """A ``Work`` of one call that is no step of a Reservation or a move: the controller's own ConfigMaps, probes, reads for a decision.

    ``take`` and ``failed`` also get seconds since the epoch. Nothing is tried again here.
    """

    what: str
    """What it is about, for people."""
    ask: Callable[[], T]
    take: Callable[[T, float], None]
    failed: Callable[[Exception, float], None]
    """Called with whatever ``ask`` raised, defects included; lost leadership is raised instead."""
    lane: ClassVar = OWN_LANE
    _answer: list[T] = field(default_factory=list)
    _error: Exception | None = None

    def call(self) -> bool:
        """Make the call."""
        try:
            self._answer.append(self.ask())
        except Exception as error:  # noqa: BLE001 - it is told on the core thread
            self._error = error
        return False

    def land(self, now_s: float) -> None:
        """Give the outcome on. Raises NotLeaderError."""
        if isinstance(self._error, NotLeaderError):
            raise self._error
        if self._error is not None:
            self.failed(self._error, now_s)
        for answer in self._answer:
            self.take(answer, now_s)


class CallPool:
    """Makes the calls of works; here each where it is begun, as for commands, dry runs and tests. All methods are for the core thread."""

    @property
    def answered(self) -> bool:
        """True if a work can land."""
        return False

    def begin_round(self) -> None:
        """A new round begins: a lane that was turned away and does not ask again in it waits no longer."""

    def accepts(self, lane: str) -> bool:
        """True if a work of that lane may begin now. A lane that is turned away goes first when a worker is free."""
        del lane
        return True

    def begin(self, work: Work, now_s: float) -> None:
        """Begin ``work``; it may land before this returns."""
        while work.call():
            pass
        work.land(now_s)

    def land(self, now_s: float) -> bool:
        """Land all works whose calls were answered; True if there were some. Raises NotLeaderError."""
        del now_s
        return False


@dataclass(slots=True, kw_only=True)
class Lanes:
    """How many works each lane has under way, and which lanes wait for a worker."""

    own: int = 16
    """The most in all lanes that wait for no tenant."""
    shared: int = 32
    """The most in all other lanes together."""
    each: int = 8
    """The most in one lane of a namespace, of either sort."""
    _busy: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, None] = field(default_factory=dict)
    """Lanes that were turned away, the first one first."""
    _asked: set[str] = field(default_factory=set)
    """Lanes that have asked since ``begin_round``."""

    def begin_round(self) -> None:
        """See ``CallPool.begin_round``."""
        self._waiting = {lane: None for lane in self._waiting if lane in self._asked}
        self._asked.clear()

    def accepts(self, lane: str) -> bool:
        """See ``CallPool.accepts``."""
        if lane == OWN_LANE:
            return self._free(lane) > 0
        self._asked.add(lane)
        if self._busy[lane] < self.each and self._free(lane) > self._ahead_of(lane):
            self._waiting.pop(lane, None)
            return True
        if not self._busy[lane]:  # the others wait for themselves
            self._waiting.setdefault(lane)
        return False

    def began(self, lane: str) -> None:
        """One more work is under way."""
        self._busy[lane] += 1

    def ended(self, lane: str) -> None:
        """It has landed."""
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]

    def _free(self, lane: str) -> int:
        """Workers for lanes of its sort."""
        own = _is_own(lane)
        busy = sum(count for other, count in self._busy.items() if _is_own(other) == own)
        return (self.own if own else self.shared) - busy

    def _ahead_of(self, lane: str) -> int:
        ahead = [other for other in self._waiting if _is_own(other) == _is_own(lane)]
        return ahead.index(lane) if lane in ahead else len(ahead)


class ThreadPool(CallPool):
    """Makes calls on threads, which are started as they are needed and end with the process."""

    def __init__(self, *, answered: Callable[[], None]) -> None:
        """``answered`` is called on any thread after the last call of each work; it must not block."""
        self._tell = answered
        self._lanes = Lanes()
        self._sent: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[Work, BaseException | None]] = queue.SimpleQueue()
        self._under_way = 0
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()

    @property
    def answered(self) -> bool:
        """True if a work can land."""
        return not self._answered.empty()

    def begin_round(self) -> None:
        """See ``Lanes``."""
        self._lanes.begin_round()

    def accepts(self, lane: str) -> bool:
        """See ``Lanes``; nothing after ``stop``."""
        return not self._stopped.is_set() and self._lanes.accepts(lane)

    def begin(self, work: Work, now_s: float) -> None:
        """Hand it to a thread that has nothing to do."""
        del now_s
        self._lanes.began(work.lane)
        self._under_way += 1
        if self._under_way > len(self._threads):
            thread = threading.Thread(target=self._work, name=f"calls-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._sent.put(work)

    def land(self, now_s: float) -> bool:
        """Land all works whose calls were answered. A defect that ended a work is raised here."""
        landed = False
        while True:
            try:
                work, defect = self._answered.get_nowait()
            except queue.Empty:
                return landed
            landed = True
            self._under_way -= 1
            self._lanes.ended(work.lane)
            if defect is not None:
                raise defect
            work.land(now_s)

    def stop(self, limit_s: float) -> None:
        """Begin no further call, and wait for those under way, at most ``limit_s`` altogether."""
        self._stopped.set()
        for _ in self._threads:
            self._sent.put(None)
        ends_s = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, ends_s - time.monotonic()))

    def _work(self) -> None:
        while (work := self._sent.get()) is not None:
            defect: BaseException | None = None
            try:
                while not self._stopped.is_set() and work.call():
                    pass
            except BaseException as error:  # noqa: BLE001 - it is raised on the core thread
                defect = error
            self._answered.put((work, defect))
            self._tell()
