"""The planner beside the best: plan, carry out, plan again, until nothing moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.replay import replay
from harness.exhaustive.clusters import TinyCluster
from harness.exhaustive.search import Column, Placement, reached, worse_in
from harness.rest.cycles import badness_of
from rescheduler.planning.limits import EFFORT, Limits, PlanningInputs
from rescheduler.planning.plan import Move, in_stages
from rescheduler.planning.planner import plan
from rescheduler.policies.objective import Tier
from rescheduler.scheduling.state import SchedulingState

ROUNDS: Final = 20
"""A cluster that moves pods for longer is restless."""


@dataclass(frozen=True)
class Round:
    """After one plan."""

    badness: Column
    moves: int
    """Of all plans so far."""
    fewest: int | None
    """That bring the cluster to something as good; None: only moves that the documented rules forbid do."""


@dataclass(frozen=True)
class Judged:
    """One cluster."""

    cluster: TinyCluster
    placements: int
    start: Column
    best: Column
    """That moves reach which the documented rules allow."""
    best_of_all: Column
    """That any moves reach."""
    best_moves: int
    rounds: tuple[Round, ...]
    """At least one; the last one moved nothing, unless the cluster is restless."""
    refused: int
    faults: tuple[str, ...]
    moves: tuple[Move, ...]

    def after(self, plans: int) -> Round:
        """After so many plans, or at rest."""
        return self.rounds[min(plans, len(self.rounds)) - 1]

    @property
    def found_wanting(self) -> Tier | None:
        """The tier in which the cluster at rest is worse than the best; None: in none."""
        return worse_in(self.rounds[-1].badness, self.best)

    @property
    def wasted(self) -> int:
        """Moves until rest that were not needed for what was reached."""
        last = self.rounds[-1]
        return last.moves - last.fewest if last.fewest is not None else 0


def judged(cluster: TinyCluster, effort: int = EFFORT) -> Judged:
    """Look at all placements, and at what plans make of the cluster."""
    known = reached(cluster)
    near = known.distances(documented=True)
    best = min((known.badness[one] for one in near), key=_without_unit)
    best_moves = min(moves for one, moves in near.items() if worse_in(known.badness[one], best) is None)
    snapshot = cluster.snapshot
    rounds: list[Round] = []
    faults: list[str] = []
    refused, all_moves = 0, list[Move]()
    start = now = badness_of(snapshot, cluster.policies, SchedulingState(snapshot))
    if worse_in(start, known.badness[known.start]) or worse_in(known.badness[known.start], start):
        faults.append(f"badness {start} of the cluster, {known.badness[known.start]} of the search")
    inputs = PlanningInputs(
        limits=Limits(minimum_gain=0.0, workload_cooldown_s=0.0),
        aggressiveness=1.0,
        unlimited=True,
        effort=effort,
    )
    for number in range(ROUNDS):
        made = plan(snapshot, cluster.policies, inputs, SchedulingState(snapshot))
        done = replay(snapshot, in_stages(made.moves))
        refused += len(done.refused)
        snapshot = done.snapshot
        before, now = now, badness_of(snapshot, cluster.policies, SchedulingState(snapshot))
        if made.moves and not now < before:
            faults.append(f"plan {number} raises {before} to {now}")
        all_moves += made.moves
        rounds.append(Round(now, len(all_moves), _fewest(now, known.badness, near)))
        if not made.moves:
            break
    else:
        faults.append(f"moves in each of {ROUNDS} plans")
    return Judged(
        cluster, len(known.badness), start, best, min(known.badness.values(), key=_without_unit), best_moves,
        tuple(rounds), refused, tuple(faults), tuple(all_moves),
    )  # fmt: skip


def _without_unit(column: Column) -> Column:
    return column[: Tier.EMPTYING]


def _fewest(wanted: Column, badness: Mapping[Placement, Column], near: Mapping[Placement, int]) -> int | None:
    return min((moves for one, moves in near.items() if worse_in(badness[one], wanted) is None), default=None)
