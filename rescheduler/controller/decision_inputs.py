"""What a decision needs besides the objects of the cluster: usage, a node autoscaler, past moves, the gate. Asked for beside the loop.

A decision is put off while one of its inputs is awaited; nothing else is, and nothing here waits. A read that only helps (usage,
autoscaler) and fails or hangs delays nothing but what it would have told; the first decision of the process waits ``patience_s`` for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from rescheduler.controller.call_pool import CallPool, OneCall
from rescheduler.controller.recording import MoveRecorder
from rescheduler.errors import ReschedulerError
from rescheduler.model.past_moves import PastMove
from rescheduler.model.usage import NOTHING_MEASURED, MeasuredUsage

USAGE: Final = "measured usage"
AUTOSCALER: Final = "whether a node autoscaler is at work"
GATE: Final = "whether the gate is in force"
PATIENCE_S: Final = 1.0


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class RepeatedRead(Generic[T]):
    """Reads one thing at intervals. Used by the core thread only."""

    what: str
    """For logs."""
    read: Callable[[], T]
    """Raises ApiError, TransportError."""
    pool: CallPool
    every_s: float
    unknown: T | None = None
    """What is taken while it cannot be read; None: it is read again at once, and its error is raised."""
    _due_s: float = 0.0
    _asks: bool = False
    _answer: T | None = None
    _error: Exception | None = None

    def current(self, now_s: float) -> T | None:
        """What is known; None until there is an answer. Begins the next read if it is due.

        Raises what the last read raised, once; with ``unknown`` only what no server can cause.
        """
        if not self._asks and now_s >= self._due_s:
            self._asks, self._due_s = True, now_s + self.every_s
            self.pool.begin(OneCall(self.what, self.read, self._take, self._failed), now_s)
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._answer

    def again(self, now_s: float) -> None:
        """What is known counts no more, and is read anew."""
        self._answer, self._due_s = None, now_s

    @property
    def due_s(self) -> float:
        """When the next read begins; while one is under way its answer wakes the loop."""
        return math.inf if self._asks else self._due_s

    @property
    def asked_s(self) -> float:
        """Since when nothing is known and a read is under way; never: -inf."""
        return self._due_s - self.every_s if self._asks and self._answer is None else -math.inf

    def _take(self, answer: T, _now_s: float) -> None:
        self._asks, self._answer = False, answer

    def _failed(self, error: Exception, _now_s: float) -> None:
        self._asks, self._answer = False, self.unknown
        if self.unknown is None:
            self._due_s, self._error = 0.0, error
        elif not isinstance(error, ReschedulerError):
            self._error = error  # a bug, which is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of one decision."""

    usage: MeasuredUsage
    node_autoscaler: bool
    """One reports that it is at work."""
    past_moves: Mapping[str, PastMove]
    gate_ready: bool
    """False: new replacements get no gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInputs:
    """Used by the core thread only."""

    usage: RepeatedRead[MeasuredUsage]
    node_autoscaler: RepeatedRead[bool]
    recorder: MoveRecorder
    gate: RepeatedRead[bool]
    """Whether it is in force. Each eviction proves it anew."""
    patience_s: float = PATIENCE_S
    """For so long the first decision waits for what only helps."""

    def current(self, now_s: float, *, first: bool, gated: bool) -> Inputs | None:
        """What is known; None while something is awaited. Begins the reads that are due.

        ``first``: the first decision of the process waits a little for what it may need to know.
        ``gated``: False in mode Soft, which evicts without a gate. ``now_s``: monotonic. Raises ApiError, TransportError: limits or the gate cannot be read.
        """
        usage, autoscaler = self.usage.current(now_s), self.node_autoscaler.current(now_s)
        gate_ready = self.gate.current(now_s) if gated else True
        if gate_ready is False:  # counts for one decision
            self.gate.again(now_s)
        past_moves = self.recorder.current()
        if gate_ready is None or past_moves is None or now_s < self.awaited_until_s(first=first):
            return None
        return Inputs(
            usage=usage or NOTHING_MEASURED,
            node_autoscaler=bool(autoscaler),
            past_moves=past_moves,
            gate_ready=gate_ready,
        )

    def awaited_until_s(self, *, first: bool) -> float:
        """Until when a decision has to wait for answers, which wake the loop; -inf: for none."""
        if self.gate.asked_s > -math.inf or self.recorder.awaited:
            return math.inf
        helping = max(self.usage.asked_s, self.node_autoscaler.asked_s)
        return helping + self.patience_s if first else -math.inf
