"""What the reconciler remembers between two calls, besides what it wrote (``expectations``).

Backoff after failed calls, answers to evictions and dry runs, and since when a state has been observed. All of it may be
lost: after a crash it is asked or observed again, and no decision is wrong without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from rescheduler.coordination.dry_run_creations import DryRunCreations, TemplateTrials
from rescheduler.coordination.expectations import Expectations
from rescheduler.coordination.gate_proofs import GateProofs
from rescheduler.coordination.move_turns import MoveTurns
from rescheduler.coordination.node_hints import NodeHints
from rescheduler.coordination.room_turns import LooksElsewhere, RoomTurns
from rescheduler.coordination.watch_lag import WatchLag
from rescheduler.migrations.observed_migration import NO_CALLS, Calls
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import doubling_s

_FIRST_BACKOFF_S: Final = 0.2
_LAST_BACKOFF_S: Final = 30.0
_STALE_BACKOFF_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A call of a machine that failed."""

    count: int
    """Number of failures in a row."""
    until_s: float
    """The machine makes no call before this time."""
    message: str
    crashed: bool = False
    """True if the step itself failed, not one of its calls: no part of it is taken before ``until_s``."""
    refused: bool = False
    """True if the API server has answered that it does not do it."""


@dataclass(slots=True)
class Backoff:
    """Failed calls by machine; the backoff doubles with every failure in a row."""

    failures: dict[ObjectKey, Failure] = field(default_factory=dict)

    def pausing(self, machine: ObjectKey, now_s: float) -> Failure | None:
        """The failure because of which the machine is in backoff now; None if it is not."""
        failure = self.failures.get(machine)
        return failure if failure is not None and now_s < failure.until_s else None

    def message(self, machine: ObjectKey) -> str:
        """What the last call of the machine failed of, also while it is tried again; "": it did not."""
        failure = self.failures.get(machine)
        return failure.message if failure is not None else ""

    def refusal(self, machine: ObjectKey) -> str:
        """With which words the API server has refused the last call of the machine, if it has; "" if not."""
        failure = self.failures.get(machine)
        return failure.message if failure is not None and failure.refused else ""

    def failed(
        self,
        machine: ObjectKey,
        message: str,
        now_s: float,
        *,
        stale: bool = False,
        crashed: bool = False,
        refused: bool = False,
        least_s: float = 0.0,
    ) -> Failure:
        """Record a failure. ``stale``: only the cache was behind, so the backoff stays short.

        ``least_s``: how long the server asks to wait.
        """
        count = self.failures[machine].count + 1 if machine in self.failures else 1
        pause_s = max(min(least_s, _LAST_BACKOFF_S), doubling_s(_FIRST_BACKOFF_S, count, _LAST_BACKOFF_S))
        until_s = now_s + (min(pause_s, _STALE_BACKOFF_S) if stale else pause_s)
        failure = Failure(count, until_s, message, crashed, refused)
        self.failures[machine] = failure
        return failure

    def crashed(self, machine: ObjectKey, now_s: float) -> bool:
        """True while the machine rests because its step failed, not one of its calls."""
        failure = self.pausing(machine, now_s)
        return failure is not None and failure.crashed

    def succeeded(self, machine: ObjectKey) -> None:
        """Forget the failures of a machine."""
        self.failures.pop(machine, None)


@dataclass(slots=True)
class Answers:
    """Answers of the API server that no object shows, by PodMigration: dry runs and evictions."""

    calls: dict[ObjectKey, Calls] = field(default_factory=dict)

    def of(self, migration: ObjectKey) -> Calls:
        """The answers for one move."""
        return self.calls.get(migration, NO_CALLS)

    def dry_run(self, migration: ObjectKey, result: EvictionResult, now_s: float) -> None:
        """Keep the answer of a dry-run eviction."""
        calls = self.of(migration)
        tries = 0 if result.outcome is EvictionOutcome.EVICTED else calls.tries + 1
        # A dry run that passes does not reset the backoff of a refused eviction, which goes on doubling.
        kept = calls.tries if calls.eviction is not None and tries == 0 else tries
        self.calls[migration] = dataclasses.replace(
            calls,
            dry_run=result,
            dry_run_at_s=now_s,
            tries=kept,
            forbidden_since_s=_forbidden_since_s(calls, result, now_s),
        )

    def eviction(self, migration: ObjectKey, result: EvictionResult, now_s: float) -> None:
        """Keep the answer of an eviction."""
        calls = self.of(migration)
        self.calls[migration] = dataclasses.replace(
            calls,
            eviction=result,
            eviction_at_s=now_s,
            dry_run=None,
            tries=calls.tries + 1,
            forbidden_since_s=_forbidden_since_s(calls, result, now_s),
        )

    def withdrawn(self, migration: ObjectKey, now_s: float) -> None:
        """Keep that no EvictionRequest of the move stands."""
        self.calls[migration] = dataclasses.replace(self.of(migration), request_withdrawn_at_s=now_s)

    def start_refused(self, migration: ObjectKey, message: str) -> None:
        """Keep why the replacement of mode StartFirst could not be created."""
        self.calls[migration] = dataclasses.replace(self.of(migration), start_refused=message)


@dataclass(slots=True)
class Sightings:
    """Since when a state has been observed: the API stores no time for a taint, a nomination or a wait."""

    _seen: dict[tuple[str, ObjectKey], tuple[str, float]] = field(default_factory=dict)

    def since(self, what: str, machine: ObjectKey, now_s: float, *, state: str | bool) -> float:
        """Since when ``what`` of ``machine`` has been in ``state`` without a break; 0.0 if ``state`` is "" or False."""
        at = (what, machine)
        if not state:
            self._seen.pop(at, None)
            return 0.0
        known = self._seen.get(at)
        if known is None or known[0] != str(state):
            known = self._seen[at] = (str(state), now_s)
        return known[1]

    def forget(self, live: Container[ObjectKey]) -> None:
        """Drop what belongs to machines that are not there any more."""
        for at in [at for at in self._seen if at[1] not in live]:
            del self._seen[at]


@dataclass(frozen=True, slots=True)
class _AllBut:
    machines: Collection[ObjectKey]

    def __contains__(self, machine: object) -> bool:
        return machine not in self.machines


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is remembered."""

    expectations: Expectations = field(default_factory=Expectations)
    backoff: Backoff = field(default_factory=Backoff)
    answers: Answers = field(default_factory=Answers)
    creations: DryRunCreations = field(default_factory=DryRunCreations)
    templates: TemplateTrials = field(default_factory=TemplateTrials)
    proofs: GateProofs = field(default_factory=GateProofs)
    preparing: dict[ObjectKey, float] = field(default_factory=dict)
    """Moves whose last step wants the gate on before the intent to evict is written, each with the time until which."""
    sightings: Sightings = field(default_factory=Sightings)
    lag: WatchLag = field(default_factory=WatchLag)
    hints: NodeHints = field(default_factory=NodeHints)
    moves: MoveTurns = field(default_factory=MoveTurns)
    rooms: RoomTurns = field(default_factory=RoomTurns)
    elsewhere: LooksElsewhere = field(default_factory=LooksElsewhere)
    made_again: set[ObjectKey] = field(default_factory=set)
    """Machines whose object has the name of an earlier one, a step of which is still under way."""

    def crashed(self, machine: ObjectKey, message: str, now_s: float) -> Failure:
        """The step of a machine crashed: it rests, and others go before it."""
        self.moves.turns.looked(machine, now_s, None, sure=False)
        self.rooms.turns.looked(machine, now_s, None, sure=False)
        return self.backoff.failed(machine, message, now_s, crashed=True)

    def prepares(self, move: ObjectKey, until_s: float) -> bool:
        """Note until when a move wants the gate on before its intent; 0.0: not at all. True if it is new that it does."""
        new = until_s and move not in self.preparing
        self.preparing.pop(move, None)
        if until_s:
            self.preparing[move] = until_s
        return bool(new)

    def follow(self, made_again: Iterable[ObjectKey], under_way: Collection[ObjectKey]) -> None:
        """Forget what belongs to earlier objects of these names: one that was made again has done nothing yet."""
        self.made_again.update(made_again)
        if self.made_again:
            self.forget(_AllBut(self.made_again))
            # What becomes of a step that is under way is the earlier one's, too.
            self.made_again.intersection_update(under_way)

    def forget(self, live: Container[ObjectKey]) -> None:
        """Drop what belongs to machines that are not there any more."""
        self.expectations.forget(live)
        self.sightings.forget(live)
        self.moves.turns.forget(live)
        self.rooms.turns.forget(live)
        self.elsewhere.forget(live)
        for table in (self.backoff.failures, self.answers.calls, self.preparing):
            for key in [k for k in table if k not in live]:
                del table[key]


def _forbidden_since_s(calls: Calls, result: EvictionResult, now_s: float) -> float:
    return (calls.forbidden_since_s or now_s) if result.outcome is EvictionOutcome.FORBIDDEN else 0.0
