"""Memory of the reconciler: answers of calls, first sightings, writes not seen yet, back-off after errors.

A cache and nothing else: after a crash everything in here is asked or seen again, and no decision is
wrong for the lack of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from rescheduler.controller.effects import Effect, Touched
from rescheduler.migrations.observed import NO_CALLS, Calls
from rescheduler.model.eviction import EvictionOutcome, EvictionResult
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey

Version = Callable[[Kind, ObjectKey], "tuple[str, bool] | None"]
"""(resource version, is being deleted) of an object in the cache; None if it is not there."""

UNSEEN_LIMIT_S: Final = 5.0
"""A write that the cache does not show for so long is not waited for any more."""

_FIRST_BACKOFF_S: Final = 0.2
_LAST_BACKOFF_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed: how often in a row, until when the object rests, and the words."""

    count: int
    until_s: float
    message: str


@dataclass(slots=True)
class Recent:
    """What the reconciler remembers. Keys of machines are the name (Reservation) or the key (PodMigration)."""

    calls: dict[ObjectKey, Calls] = field(default_factory=dict)
    failures: dict[ObjectKey, Failure] = field(default_factory=dict)
    first_seen: dict[tuple[str, str], float] = field(default_factory=dict)
    claims: dict[str, frozenset[str]] = field(default_factory=dict)
    """Name of a Reservation -> uids of the pods in the status that was written last."""
    aims: dict[ObjectKey, str] = field(default_factory=dict)
    """Machine -> node of the room that it wrote last; the cache may not show it yet."""
    begun: set[ObjectKey] = field(default_factory=set)
    """Moves whose first step was written; the cache may still show them as not begun."""
    _unseen: dict[ObjectKey, tuple[tuple[Touched, ...], float]] = field(default_factory=dict)

    def wrote(self, machine: ObjectKey, effect: Effect, now_s: float) -> None:
        """Remember what must show up in the cache before this machine acts again."""
        if effect.touched:
            before = self._unseen.get(machine, ((), 0.0))[0]
            self._unseen[machine] = ((*before, *effect.touched), now_s + UNSEEN_LIMIT_S)

    def blind_until(self, machine: ObjectKey, version: Version, now_s: float) -> float | None:
        """None if the cache shows everything that this machine wrote; else when to act all the same."""
        entry = self._unseen.get(machine)
        if entry is None:
            return None
        touched, limit_s = entry
        missing = tuple(t for t in touched if not _shows(t, version(t.kind, t.key)))
        if not missing or now_s >= limit_s:
            del self._unseen[machine]
            return None
        self._unseen[machine] = (missing, limit_s)
        return limit_s

    def failed(self, machine: ObjectKey, message: str, now_s: float, *, stale: bool) -> Failure:
        """Note a failure. ``stale``: the cache was behind; it catches up in a moment."""
        count = self.failures[machine].count + 1 if machine in self.failures else 1
        wait_s = min(_LAST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(count - 1, 16))
        failure = Failure(count, now_s + (min(wait_s, 1.0) if stale else wait_s), message)
        self.failures[machine] = failure
        return failure

    def succeeded(self, machine: ObjectKey) -> None:
        """Forget failures."""
        self.failures.pop(machine, None)

    def since(self, what: str, who: str, now_s: float, *, true: bool) -> float:
        """When ``what`` was first seen to be true of ``who``; 0.0 while it is not."""
        if not true:
            self.first_seen.pop((what, who), None)
            return 0.0
        return self.first_seen.setdefault((what, who), now_s)

    def dry_run(self, migration: ObjectKey, result: EvictionResult, now_s: float) -> None:
        """Keep the answer of a dry-run eviction."""
        calls = self.calls.get(migration, NO_CALLS)
        tries = 0 if result.outcome is EvictionOutcome.EVICTED else calls.tries + 1
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
        calls = self.calls.get(migration, NO_CALLS)
        self.calls[migration] = dataclasses.replace(
            calls,
            eviction=result,
            eviction_at_s=now_s,
            dry_run=None,
            tries=calls.tries + 1,
            forbidden_since_s=_forbidden_since_s(calls, result, now_s),
        )

    def gate(self, migration: ObjectKey, now_s: float, *, proven: bool) -> None:
        """Keep the outcome of a proof."""
        calls = self.calls.get(migration, NO_CALLS)
        self.calls[migration] = dataclasses.replace(
            calls,
            gate_asked_at_s=now_s,
            gate_proven_at_s=now_s if proven else calls.gate_proven_at_s,
            gate_message="" if proven else "a pod created in a dry run did not get the gate",
        )

    def start_refused(self, migration: ObjectKey, words: str) -> None:
        """Keep why the replacement of mode StartFirst could not be created."""
        calls = self.calls.get(migration, NO_CALLS)
        self.calls[migration] = dataclasses.replace(calls, start_refused=words)

    def forget(self, live: Collection[ObjectKey]) -> None:
        """Drop what belongs to machines that are not there any more."""
        self.begun.intersection_update(live)
        for table in (self.calls, self.failures, self.aims, self._unseen):
            for key in [k for k in table if k not in live]:
                del table[key]
        for name in [n for n in self.claims if ObjectKey("", n) not in live]:
            del self.claims[name]


def _forbidden_since_s(calls: Calls, result: EvictionResult, now_s: float) -> float:
    return (calls.forbidden_since_s or now_s) if result.outcome is EvictionOutcome.FORBIDDEN else 0.0


def _shows(touched: Touched, cached: tuple[str, bool] | None) -> bool:
    if touched.deleted:
        return cached is None or cached[1]
    if cached is None:
        return False
    have, want = cached[0], touched.version
    if have.isdecimal() and want.isdecimal():
        return int(have) >= int(want)
    return have == want
