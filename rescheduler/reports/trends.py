"""The trends of the last hours: a ring of samples, one for each minute at most. It must be used by one thread only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.times import format_seconds
from rescheduler.planning.past_moves import FINISHED
from rescheduler.planning.plan import Plan
from rescheduler.reports.status_document import TrendSample

EVERY_S: Final = 60.0
HOURS: Final = 6
MOST_SAMPLES: Final = int(HOURS * 3600 / EVERY_S)
_AT_REST: Final = (MigrationPhase.PENDING, *FINISHED)


class Trends:
    """Collects samples of decisions; the oldest go."""

    def __init__(self) -> None:
        self._ring: deque[TrendSample] = deque(maxlen=MOST_SAMPLES)
        self._last_s = float("-inf")
        self._samples: tuple[TrendSample, ...] = ()

    @property
    def samples(self) -> tuple[TrendSample, ...]:
        """The oldest first; the tuple never changes."""
        return self._samples

    def add(self, plan: Plan, migrations: Iterable[PodMigration], at_s: float) -> None:
        """A sample of this decision, unless the last one is less than a minute old."""
        if 0 <= at_s - self._last_s < EVERY_S:
            return
        self._last_s = at_s
        nodes = plan.before.nodes
        self._ring.append(
            TrendSample(
                at=format_seconds(at_s),
                badly_placed=sum(policy.badly_placed for policy in plan.before.policies),
                moves_under_way=sum(move.status.phase not in _AT_REST for move in migrations),
                pending_pods=plan.before.pending_pods,
                nodes_in_use=len(nodes) - plan.before.empty_nodes,
                cpu_requested=_share(
                    sum(n.cpu_requested_milli for n in nodes), sum(n.cpu_allocatable_milli for n in nodes)
                ),
                memory_requested=_share(
                    sum(n.memory_requested_bytes for n in nodes),
                    sum(n.memory_allocatable_bytes for n in nodes),
                ),
            )
        )
        self._samples = tuple(self._ring)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole > 0 else 0.0
