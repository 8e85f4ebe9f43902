"""The one knob: aggressiveness 0..1 -> limits (row R80). The only place where it is translated.

Monotone: a higher number never allows less. Between the named levels values are interpolated linearly.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rescheduler.planning.limits import Limits

NAMED_LEVELS: Final = {"conservative": 0.0, "balanced": 0.5, "aggressive": 1.0}


class Setting(NamedTuple):
    """One row of the table: what a limit is at 0, at 0.5 and at 1."""

    field: str
    conservative: float
    balanced: float
    aggressive: float

    def at(self, level: float) -> float:
        """The value at a level, linear between the columns."""
        if level <= 0.5:  # noqa: PLR2004 - the middle column
            return self.conservative + (self.balanced - self.conservative) * level * 2
        return self.balanced + (self.aggressive - self.balanced) * (level - 0.5) * 2


TABLE: Final = (
    Setting("moves_at_once", 1, 5, 20),
    Setting("moves_per_hour", 12, 60, 600),
    Setting("per_node", 1, 2, 5),
    Setting("per_namespace", 1, 5, 20),
    Setting("per_workload", 1, 1, 3),
    Setting("minimum_gain", 0.20, 0.05, 0.01),
    Setting("workload_cooldown_s", 7200, 1800, 120),
    Setting("budget_buffer", 1, 0, 0),
)
"""The documented table (docs/aggressiveness.md)."""


def limits_for(aggressiveness: float) -> Limits:
    """The limits of a level; it is clamped to 0..1. Counts are rounded down, the budget buffer up."""
    level = min(1.0, max(0.0, aggressiveness))
    values = {row.field: row.at(level) for row in TABLE}
    return Limits(
        moves_at_once=int(values["moves_at_once"]),
        moves_per_hour=int(values["moves_per_hour"]),
        per_node=int(values["per_node"]),
        per_namespace=int(values["per_namespace"]),
        per_workload=int(values["per_workload"]),
        minimum_gain=round(values["minimum_gain"], 4),
        workload_cooldown_s=round(values["workload_cooldown_s"], 1),
        budget_buffer=-int(-values["budget_buffer"] // 1),
    )


def disruption_weight(aggressiveness: float) -> float:
    """How much of a move's disruption its gain must exceed besides the minimum gain: all at 0, none at 1."""
    return 1.0 - min(1.0, max(0.0, aggressiveness))
