"""An outage of the API server, as the cluster's own components live through it. Pure.

While the server is away nobody writes; whoever lost it comes back in its own time, the scheduler last of all or first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Self

_SCHEDULER_AT_LEAST_S: Final = 4.0
_SCHEDULER_AT_MOST_S: Final = 30.0
"""Longest pause of client-go's watches between two tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """When who is back (epoch seconds): the server, and with it or later everybody else."""

    server_s: float
    controllers_s: float
    kubelets_s: float
    scheduler_s: float

    @classmethod
    def draw(cls, rng: random.Random, began_s: float, server_s: float) -> Self:
        """Pauses double with a jitter that doubles them again: the next one may be twice as long as all before."""
        away_s = server_s - began_s
        lag_s = min(_SCHEDULER_AT_MOST_S, _SCHEDULER_AT_LEAST_S + 2.0 * away_s)
        return cls(
            server_s=server_s,
            controllers_s=server_s + rng.uniform(0.0, lag_s / 2),
            kubelets_s=server_s + rng.uniform(0.0, 2.0),
            scheduler_s=server_s + rng.uniform(0.0, lag_s),
        )
