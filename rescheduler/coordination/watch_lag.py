"""How far the watches are behind, measured by the controller's own writes: from the answer to a write until the cache shows it. Pure.

Promises: an eviction is sent only while every write of the last seconds was seen soon after its answer, and a write of a pod
was seen within the last minute, and after the last move that failed with its pod evicted. After an eviction about five steps wait
for a watch, one after the other, and all of them together must end before the gate limit. Nothing of this must survive a crash: until
it is measured, it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.coordination.expectations import Touched, Version, shows
from rescheduler.migrations.observed_migration import ObservedWatchLag
from rescheduler.model.kinds import Kind
from rescheduler.model.selectors import int64

MOST_LAG_S: Final = 5.0
"""Ten times that is still less than the gate limit: the steps after an eviction wait for no more than six watches in a row."""
PROVEN_S: Final = 60.0
"""How long a measurement of the watch of pods is relied on."""
_FORGOTTEN_S: Final = 60.0
"""A write that is not seen for so long is not waited for: its object may be gone."""
_MEASURED: Final = (Kind.POD, Kind.POD_MIGRATION, Kind.RESERVATION)


class _Write(NamedTuple):
    touched: Touched
    version: int
    answered_s: float


class _Lag(NamedTuple):
    lag_s: float
    seen_s: float


@dataclass(slots=True)
class WatchLag:
    """What was measured. Used by the core thread only; ``follow`` at the beginning of each round."""

    _waiting: dict[Kind, list[_Write]] = field(default_factory=dict)
    _lags: dict[Kind, _Lag] = field(default_factory=dict)
    _failed_s: float = 0.0

    def wrote(self, touched: Iterable[Touched], now_s: float) -> None:
        """These writes were answered."""
        for one in touched:
            version = int64(one.version)
            if one.kind in _MEASURED and not one.deleted and version is not None:
                self._waiting.setdefault(one.kind, []).append(_Write(one, version, now_s))

    def follow(self, version: Version, now_s: float) -> None:
        """Take in what the cache shows. Changes of one kind arrive in order, so one that is seen stands for all before it."""
        for kind, waiting in self._waiting.items():
            seen = [write for write in waiting if shows(write.touched, version)]
            if seen:
                newest = max(seen, key=lambda write: write.version)
                self._lags[kind] = _Lag(max(0.0, now_s - newest.answered_s), now_s)
            upto = max((write.version for write in seen), default=-1)
            self._waiting[kind] = [
                w for w in waiting if w.version > upto and now_s < w.answered_s + _FORGOTTEN_S
            ]

    def failed(self, now_s: float) -> None:
        """A move failed after its eviction: what was measured before it proves nothing any more."""
        self._failed_s = now_s

    def cannot_be_measured(self, now_s: float) -> None:
        """The write that would measure the watch of pods is refused: only what other writes show counts."""
        self._lags[Kind.POD] = _Lag(0.0, now_s)

    def observed(self, now_s: float) -> ObservedWatchLag:
        """Whether an eviction may rely on the caches now."""
        pods = self._lags.get(Kind.POD)
        proven = pods is not None and now_s <= pods.seen_s + PROVEN_S and pods.seen_s > self._failed_s
        late = "; ".join(filter(None, (self._late(kind, now_s) for kind in _MEASURED)))
        return ObservedWatchLag(late=late, proven=proven)

    def _late(self, kind: Kind, now_s: float) -> str:
        unseen_s = max((now_s - write.answered_s for write in self._waiting.get(kind, ())), default=0.0)
        lag = self._lags.get(kind)
        if unseen_s > MOST_LAG_S:
            return f"a {kind} that was written {unseen_s:.0f} s ago is not seen yet"
        if lag is not None and lag.lag_s > MOST_LAG_S and now_s <= lag.seen_s + PROVEN_S:
            return f"a {kind} was seen {lag.lag_s:.0f} s after it was written"
        return ""
