"""What plans of large clusters reach within so much time, beside what no plan can pass.

Usage: python -m bench.effort [--nodes 500 1000 5000] [--kind consolidation balance] [--seconds 2 10 60] [--max-moves 1000] [--first SEED]

The planner has no clock: it is asked with one effort after the other, each four times the last, until a plan takes longer than the
longest time. In each cell stands the best plan that took no longer, with its effort, its moves and its CPU seconds, from records in memory on. The
bound is that of ``plan --prove``: of every plan with as many moves. Needs the extra ``prove``.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bench.random_clusters import Kind, RandomCluster, large_cluster
from rescheduler.optima.bounds import JudgedPlan, bounds
from rescheduler.planning.limits import MOST_EFFORT, Limits, PlanningInputs
from rescheduler.planning.plan import Plan, PlanBound
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState

LEAST: Final = 8
"""The first effort after 1."""
TIMES: Final = 4


class Tried(NamedTuple):
    """One plan of a cluster."""

    effort: int
    seconds: float
    moves: int
    bound: PlanBound


def inputs(effort: int, max_moves: int | None) -> PlanningInputs:
    """All moves, as ``plan`` shows them."""
    limits = Limits(minimum_gain=0.0, workload_cooldown_s=0.0)
    return PlanningInputs(
        limits=limits, aggressiveness=1.0, unlimited=True, max_moves=max_moves, effort=effort
    )


def efforts() -> Iterator[int]:
    """Those that are tried, in turn."""
    yield 1
    effort = LEAST
    while effort <= MOST_EFFORT:
        yield effort
        effort *= TIMES


def tried(cluster: RandomCluster, longest_s: float, max_moves: int | None) -> Iterator[Tried]:
    """Plans with more and more effort; the last may have taken longer than that. Each has the bound of the first."""
    known: PlanBound | None = None
    for effort in efforts():
        asked = inputs(effort, max_moves)
        gc.collect()
        begun = time.process_time()
        made = plan(cluster.snapshot, cluster.policies, asked, SchedulingState(cluster.snapshot))
        seconds = time.process_time() - begun
        known = _bound(cluster, made, asked, 1.0 if known else longest_s, known)
        yield Tried(effort, seconds, len(made.moves), known)
        if seconds * 2 > longest_s:
            return


def _bound(
    cluster: RandomCluster, made: Plan, asked: PlanningInputs, seconds: float, known: PlanBound | None
) -> PlanBound:
    """What the plan reached, beside the lowest bound that is known."""
    (found,) = bounds(_judged(cluster, made, asked, seconds))
    if known is None or known.bound is None or (found.bound is not None and found.bound < known.bound):
        return found
    return PlanBound(question=found.question, reached=found.reached, bound=known.bound, notes=known.notes)


def _judged(cluster: RandomCluster, made: Plan, asked: PlanningInputs, seconds: float) -> JudgedPlan:
    if cluster.thresholds is None:
        raise ValueError(f"clusters of kind {cluster.kind} have no thresholds")
    name = "HighNodeUtilization" if cluster.kind is Kind.CONSOLIDATION else "LowNodeUtilization"
    given = {"thresholds": cluster.thresholds.low, "target_thresholds": cluster.thresholds.high}
    return JudgedPlan(
        snapshot=cluster.snapshot,
        plan=made,
        policies=(REGISTRY[name].args(**given),),
        inputs=asked,
        profile=Profile(),
        seconds=seconds,
    )


def best_within(found: Sequence[Tried], seconds: float) -> Tried | None:
    """The plan that reaches most of those that took no longer, of equal ones that with the least effort; None: none took so little."""
    soon = [one for one in found if one.seconds <= seconds]
    return max(soon, key=lambda one: (one.bound.reached or 0.0, -one.moves, -one.effort), default=None)


def row(kind: Kind, nodes: int, found: Sequence[Tried], limits: Sequence[float]) -> str:
    """One line of the table."""
    cells = []
    for seconds in limits:
        one = best_within(found, seconds)
        if one is None:
            cells.append("-")
            continue
        cells.append(f"{one.bound.reached:.4g} ({one.moves} moves, effort {one.effort}, {one.seconds:.1f} s)")
    bound = min((one.bound.bound for one in found if one.bound.bound is not None), default=None)
    cells.append("not known" if bound is None else f"{bound:.4g}")
    return f"| {kind} | {nodes:,} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="*", default=[500, 1000, 5000])
    asked = (Kind.CONSOLIDATION, Kind.BALANCE)
    parser.add_argument("--kind", type=Kind, choices=asked, nargs="*", default=asked)
    parser.add_argument("--seconds", type=float, nargs="*", default=[2.0, 10.0, 60.0])
    parser.add_argument("--max-moves", type=int, default=1000, help="0: no limit")
    parser.add_argument("--first", type=int, default=1, help="the seed")
    given = parser.parse_args()
    print("| kind | nodes | " + " | ".join(f"within {s:g} s" for s in given.seconds) + " | at most |")
    print("|---|---|" + "---|" * (len(given.seconds) + 1))
    for kind in given.kind:
        for nodes in given.nodes:
            cluster = large_cluster(kind, given.first, nodes)
            found = list(tried(cluster, max(given.seconds), given.max_moves or None))
            print(row(kind, nodes, found, given.seconds), flush=True)


if __name__ == "__main__":
    main()
