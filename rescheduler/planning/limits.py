"""The inputs of planning that people set: limits, protections, modes, and the one knob that sets all limits.

The knob is aggressiveness, 0..1. Monotone: a higher number never allows less. Between the named levels values are
interpolated linearly. This is the only place where it is translated.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from rescheduler.model.migration import MoveMode
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.written import (
    Count,
    DocumentSection,
    Duration,
    MistakenError,
    Share,
    WrittenAs,
)
from rescheduler.planning.change_windows import ChangeWindow, limits_within
from rescheduler.policies.wire import NamespaceFilter, WrittenSelector

EFFORT: Final = 128
"""How often a search is repeated if nobody says otherwise: more found little more on random clusters."""


MOST_EFFORT: Final = 100_000


class RequestedLimits(DocumentSection, frozen=True, kw_only=True):
    """Limits of moves that people ask for, which are counted apart. With 600 planned ones (aggressive) fewer than MOST_ENTRIES."""

    moves_per_hour: Count = 2_000
    workload_cooldown_s: Duration = 0.0


class Limits(DocumentSection, frozen=True, kw_only=True):
    """Section ``limits``: our own budgets, all enforced besides PodDisruptionBudgets. 0 for a count means none at all."""

    moves_at_once: Count = 5
    moves_per_hour: Count = 60
    per_node: Count = 2
    per_namespace: Count = 5
    per_workload: Count = 1
    minimum_gain: Share = 0.05
    workload_cooldown_s: Duration = 1800.0
    budget_buffer: Count = 0
    """Disruptions that are left unused in every PodDisruptionBudget."""
    requested: RequestedLimits = RequestedLimits()
    windows: tuple[ChangeWindow, ...] = ()
    """When planned moves may begin; none: at any time."""

    def at(self, now_s: float) -> Limits:
        """Those in force at that time: an open window may state others."""
        stated = limits_within(self.windows, now_s)
        return msgspec.structs.replace(self, **stated) if stated else self


SYSTEM_NAMESPACES: Final = ("kube-system",)
"""Left alone where nothing is said of namespaces."""


class Protections(DocumentSection, frozen=True, kw_only=True):
    """Section ``protections``: pods that are left alone. True protects."""

    priority_threshold: int = 1_000_000
    min_replicas: Count = 1
    min_age_s: Duration = 0.0
    local_storage: bool = True
    persistent_volumes: bool = True
    without_budget: bool = False
    prefer_no_eviction: bool = False
    """True: descheduler's annotation of that name protects; False: pods that have it go last."""
    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: WrittenSelector | None = None
    """Only pods that it selects may be moved; None: all."""


class PlanningInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything besides the snapshot and the policies that a plan is a function of."""

    limits: Limits = Limits()
    protections: Protections = Protections()
    profiles: dict[str, Protections] = {}
    """The protections of policies that are in a profile, by the policy's name."""
    echoes: frozenset[str] = frozenset()
    """Policies with the arguments of one of another profile, which counts what is bad: it counts once."""
    aggressiveness: float = 0.5
    mode: MoveMode = MoveMode.AUTO
    """The configured one: StartFirst declares the mode for every workload, Auto leaves it to annotations."""
    modes: dict[str, MoveMode] = {}
    """What policies declare for their own moves, by the policy's name; it goes before ``mode``."""
    unlimited: bool = False
    """True for ``plan``: show everything that is proposed, as if time passed; limits at once and per hour are ignored."""
    effort: int = EFFORT
    """How often the searches for nodes to empty, for pods that relieve nodes and for repairs are repeated, at least 1; the same number gives the same plan."""
    max_moves: int | None = None
    """With so many moves an unlimited plan ends; None: when nothing is left to move."""
    namespace: str = DEFAULT_NAMESPACE
    """The namespace of placeholders: no pod of another one is taken for a placeholder."""

    @property
    def passes(self) -> int:
        """How long each search takes: ``effort``; within limits much shorter, because a cycle uses up few moves and the next one searches anew."""
        return self.effort if self.unlimited else shorter(self.effort, 2)


def shorter(passes: int, times: int) -> int:
    """The passes of a search of which little is used, or that is made again: so many times a quarter."""
    return max(1, passes >> 2 * times)


NAMED_LEVELS: Final = {"conservative": 0.0, "balanced": 0.5, "aggressive": 1.0}


_SHARE_TEXT: Final = re.compile(r"0(\.[0-9]+)?|1(\.0+)?")


def _level(written: object) -> float:
    if isinstance(written, str) and written in NAMED_LEVELS:
        return NAMED_LEVELS[written]
    if isinstance(written, str) and _SHARE_TEXT.fullmatch(written):
        return float(written)  # helm --set makes a text of a number with a point
    if isinstance(written, (int, float)) and not isinstance(written, bool) and 0 <= written <= 1:
        return float(written)
    remedy = f"use a number from 0 to 1, or {', '.join(NAMED_LEVELS)}"
    raise MistakenError([((), f"is {written!r}", remedy)])


Level = Annotated[float, WrittenAs(Any, _level)]
"""The aggressiveness, as a number or by name."""


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


def longest_cooldown_s(limits: Limits) -> float:
    """How long a disturbance of a workload is remembered: a change of the configuration may need more than is in force."""
    named = max(limits_for(level).workload_cooldown_s for level in NAMED_LEVELS.values())
    return max(named, limits.workload_cooldown_s, limits.requested.workload_cooldown_s)
