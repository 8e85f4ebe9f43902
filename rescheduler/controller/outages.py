"""After an outage of the API server: rooms are not handed over before kube-scheduler can have caught up.

A hand-over relies on the order in which the scheduler hears of it: nomination first, end of the placeholder second.
A watch keeps that order. An API server that restarts forgets what watches have missed, so that the scheduler reads a
new list, and of a new list it is told what is gone first: for a moment the room is nobody's (2 of 20 were lost so).
Whoever waits until it has read its list is safe. It cannot be asked; like us it tries again with growing pauses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rescheduler.controller.reconcile import Reconciler
from rescheduler.model.snapshot import Snapshot

LEAST_S: Final = 5.0
MOST_S: Final = 35.0
"""Leaves time for the hand-over itself before a replacement that is held must be let go (60 s)."""

Relisted = Callable[[], tuple[float, float] | None]
"""Seconds since pods had to be listed anew, and for how long the server was lost before; None: never."""


def rest_s(away_s: float) -> float:
    """How long after the server's return the scheduler may take to list anew.

    Its pauses double, with a jitter that doubles them again, so the next one may last twice as long as all before;
    and a server that starts refuses the first look.
    """
    return min(MOST_S, LEAST_S + 3.0 * away_s)


@dataclass(slots=True)
class CautiousRounds:
    """Rounds of ``reconciler`` that know of outages."""

    reconciler: Reconciler
    relisted: Relisted

    def round(self, snapshot: Snapshot, now_s: float) -> float | None:
        """One round. Raises NotLeaderError, as that of the reconciler."""
        self._tell(now_s)
        return self.reconciler.round(snapshot, now_s)

    def _tell(self, now_s: float) -> None:
        found, until_s = self.relisted(), 0.0
        if found is not None:
            since_s, away_s = found
            left_s = rest_s(away_s) - since_s
            until_s = now_s + left_s if left_s > 0.0 else 0.0
        settings = self.reconciler.settings
        if settings.reservations.scheduler_lags_until_s != until_s:
            reservations = dataclasses.replace(settings.reservations, scheduler_lags_until_s=until_s)
            self.reconciler.settings = dataclasses.replace(settings, reservations=reservations)
