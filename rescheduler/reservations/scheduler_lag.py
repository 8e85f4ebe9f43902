"""Which schedulers may not have heard yet of what was just nominated, as far as it is known. Pure.

A room that is given up before its scheduler knows for whom is anybody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.model.records import Pod

_LAST_CALL: Final = 0.25
"""Of the time that a pod may be held, the part that is kept for the hand-over itself."""


class Awaited(NamedTuple):
    """Whom to wait for, by schedulerName, and until when at the latest."""

    schedulers: frozenset[str]
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLag:
    """Moments before which a scheduler may lag behind. ``others_s``: of those that are not in ``known``."""

    known: Mapping[str, float] = field(default_factory=dict)
    others_s: float = 0.0

    def awaited(self, pods: Iterable[Pod], now_s: float, *, limit_s: float, held_s: float) -> Awaited | None:
        """What must be waited for before the room of ``pods`` is given up; None: nothing.

        ``limit_s``: when the first of them must be let go; ``held_s``: for how long it will have been held then.
        """
        moments = {pod.spec.scheduler_name: 0.0 for pod in pods}
        for name in moments:
            moments[name] = min(self.known.get(name, self.others_s), limit_s - _LAST_CALL * held_s)
        behind = frozenset(name for name, until_s in moments.items() if now_s < until_s)
        return Awaited(behind, max(moments[name] for name in behind)) if behind else None


NO_LAG: Final = SchedulerLag()
