"""What a decision needs besides the objects of the cluster: usage, a node autoscaler, past moves, the gate. Asked for beside the loop.

A decision is put off while one of its inputs is awaited; nothing else is, and nothing here waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rescheduler.controller.reads import GateReader, HelpfulRead
from rescheduler.controller.recording import MoveRecorder
from rescheduler.model.past_moves import PastMove
from rescheduler.model.records import NodeUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of one decision."""

    usage: Sequence[NodeUsage]
    node_autoscaler: bool
    """One reports that it is at work."""
    past_moves: Mapping[str, PastMove]
    gate_ready: bool
    """False: new replacements get no gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInputs:
    """Used by the core thread only."""

    usage: HelpfulRead[Sequence[NodeUsage]]
    node_autoscaler: HelpfulRead[bool]
    recorder: MoveRecorder
    gate: GateReader

    def current(self, now_s: float, *, first: bool, gated: bool) -> Inputs | None:
        """What is known; None while something is awaited. Begins the reads that are due.

        ``first``: the first decision of the process, with ``once`` the only one, waits for what it may need to know.
        ``gated``: False in mode Soft, which evicts without a gate. ``now_s``: monotonic. Raises ApiError, TransportError: limits or the gate cannot be read.
        """
        usage, autoscaler = self.usage.current(now_s), self.node_autoscaler.current(now_s)
        gate_ready = self.gate.current(now_s) if gated else True
        past_moves = self.recorder.current()
        if gate_ready is None or past_moves is None or self.awaited(first=first):
            return None
        if usage is None or autoscaler is None:
            return None
        return Inputs(usage=usage, node_autoscaler=autoscaler, past_moves=past_moves, gate_ready=gate_ready)

    def awaited(self, *, first: bool) -> bool:
        """True while a decision has to wait for answers, which wake the loop."""
        helping = self.usage.awaited or self.node_autoscaler.awaited
        return (first and helping) or self.gate.awaited or self.recorder.awaited
