"""The controller's own ConfigMaps: gate keys, nodes to avoid, past moves. When each is written, and what waits for it.

Level-triggered: in each round all is compared with what should be. A call that fails rests its ConfigMap alone; a defect
is told and rests it, too. Nothing waits for an answer here: what relies on a key is taken in a later round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rescheduler.calls.call import AnyCall, Call, GateProbe
from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.mirror import Done, Mirror
from rescheduler.controller.recording import MoveRecorder
from rescheduler.coordination.gate_proofs import GateProofs
from rescheduler.coordination.memory import Backoff
from rescheduler.coordination.switches import wants_gate
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ReservationPhase, ReservationStatus
from rescheduler.model.room_of_move import made_for
from rescheduler.model.times import earliest
from rescheduler.reservations.observed_reservation import ObservedReservation

GATE: Final = ObjectKey("config map", "gate-keys")
AVOID: Final = ObjectKey("config map", "avoid-nodes")
HISTORY: Final = ObjectKey("config map", "move-history")
GATE_MARGIN_S: Final = 10.0
"""An eviction is sent only while gate keys hold pods for this much longer: until its replacement is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConfigMaps:
    """Used by the core thread only."""

    gate: Mirror
    """Of gate keys."""
    hints: Mirror
    """Of nodes to avoid."""
    recorder: MoveRecorder
    backoff: Backoff
    proofs: GateProofs
    failed: Callable[[ObjectKey, str, Exception, float], None]
    """Called with ConfigMap, what was done, the error of a call, and the time: the ConfigMap goes into backoff."""
    crashed: Callable[[ObjectKey, Exception, float], None]
    """The same with a defect."""

    def follow_gate(self, should: Mapping[str, str], now_s: float) -> None:
        """Begin to store these gate keys, and forget what was proven of others."""
        self.gate.look()
        for begin in (True, False):  # keys that are gone and keys that come in this very call are both seen
            ends = self.gate.ends_before(now_s + GATE_MARGIN_S)
            self.proofs.follow(self.gate.known, should, ends=ends)
            if begin:
                self._follow(GATE, self.gate, should, now_s)

    def follow_hints(self, should: Mapping[str, str], now_s: float) -> None:
        """Begin to store these nodes to avoid."""
        self._follow(AVOID, self.hints, should, now_s)

    def store_history(self, now_s: float) -> bool:
        """Begin to store the past moves; True if all are stored."""
        mirror = self.recorder.mirror
        self._guard(HISTORY, mirror, lambda done: self.recorder.store(now_s, done), now_s)
        return not self.recorder.behind

    def again_s(self, now_s: float) -> float | None:
        """When the first of them that rests, or waits to be written, is due; None: none does."""
        mirrors = (
            (GATE, self.gate.write_at_s),
            (AVOID, self.hints.write_at_s),
            (HISTORY, self.recorder.write_at_s),
        )
        failures = [(self.backoff.pausing(machine, now_s), write_at_s) for machine, write_at_s in mirrors]
        return earliest(*(failure.until_s if failure is not None else at_s for failure, at_s in failures))

    def gate_is_late(
        self, calls: Iterable[AnyCall], now_s: float, observed: ObservedReservation | None = None
    ) -> bool:
        """True while a call relies on gate keys that are not stored yet, or end soon: the step is taken later.

        If they cannot be stored at the moment, the proof of the gate is sent all the same: it finds that out, and says so.
        """
        late = self.gate.behind and self.backoff.pausing(GATE, now_s) is None
        ends = self.gate.ends_before(now_s + GATE_MARGIN_S)
        return any(
            (late and isinstance(call, GateProbe))
            or (ends and isinstance(call, Call) and call.evicts)
            or (late and observed is not None and _becomes_available(call, observed))
            for call in calls
        )

    def _follow(self, machine: ObjectKey, mirror: Mirror, should: Mapping[str, str], now_s: float) -> None:
        self._guard(machine, mirror, lambda done: mirror.follow(should, now_s, done), now_s)

    def _guard(self, machine: ObjectKey, mirror: Mirror, begin: Callable[[Done], None], now_s: float) -> None:
        if self.backoff.pausing(machine, now_s) is not None:
            return
        try:
            begin(partial(self._ended, machine, mirror))
        except NotLeaderError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect here must not stop the machines
            self.crashed(machine, error, now_s)

    def _ended(self, machine: ObjectKey, mirror: Mirror, error: Exception | None, now_s: float) -> None:
        if machine == GATE:
            self.proofs.problem = str(error) if error is not None else ""
        if isinstance(error, ApiError | TransportError):
            self.failed(machine, "ConfigMap", error, now_s)
        elif error is not None:
            self.crashed(machine, error, now_s)
        elif not mirror.behind:
            self.backoff.succeeded(machine)


def _becomes_available(call: AnyCall, observed: ObservedReservation) -> bool:
    available, before = ReservationPhase.AVAILABLE, observed.reservation.status.phase
    written = (
        isinstance(call, Call)
        and isinstance(call.status, ReservationStatus)
        and call.status.phase is available
    )
    # Room of a move is used by nobody before the intent, and then the gate is proven.
    return written and before is not available and not made_for(observed.reservation) and wants_gate(observed)
