"""Plans beside the best plans there are: random clusters, exact integer programs, every plan replayed.

Usage: python -m bench.optima [--clusters 30] [--first SEED] [--kind KIND ...] [--seconds 20] [--each] [--budgets]

| kind | what is compared | bar |
|---|---|---|
| tight, ordinary | violations that two stages of moves repair | 0.95, 0.98 |
| consolidation | nodes emptied with at most 10, 20, 40 moves, and without a limit | 0.97 in the mean, none below 0.85 |
| balance | excess above the target thresholds that at most 10, 20 moves take away, and without a limit | 0.99 |

and for the same result, how many moves the planner takes for each of the fewest possible (bar: 1.1). Where the solver has not proven the
optimum in its time, what is found is compared with its bound. The models do not judge hard spread, which depends on the order in which
the pods of a stage land: so what they find is a bound of every plan; but that of balance has nobody arrive at a node that was above its
target thresholds, which a plan may fill again once others have left it (seed 7001). Needs the extra ``prove``.

``--budgets`` compares something else: the nodes emptied of clusters of kind consolidation in which every application has a budget that
lets one pod go at a time, with those emptied without any budget (bar: 0.95), and what a second plan finds.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.exact_models import (
    Relief,
    fewest_emptying_moves,
    fewest_relieving_moves,
    fewest_repairing_moves,
    least_excess,
)
from bench.random_clusters import Kind, RandomCluster, random_cluster, with_budgets
from bench.replay import replay
from bench.staged_repairs import fewest_violations
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.optima.fillings import Consolidation, most_emptied
from rescheduler.optima.integer_program import Solution
from rescheduler.optima.placement import Places
from rescheduler.planning.chain_moves import MAKES_ROOM
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import Move, in_stages, stages_of
from rescheduler.planning.planner import plan
from rescheduler.policies.framework import Policy
from rescheduler.scheduling.state import SchedulingState

STAGES: Final = 2
ORDERS: Final = 3
"""Orders of the moves of each stage in which a plan is carried out, besides its own."""
LIMITS: Final[dict[Kind, tuple[int | None, ...]]] = {
    Kind.TIGHT: (None,),
    Kind.ORDINARY: (None,),
    Kind.CONSOLIDATION: (10, 20, 40, None),
    Kind.BALANCE: (10, 20, None),
}
BARS: Final = {Kind.TIGHT: 0.95, Kind.ORDINARY: 0.98, Kind.CONSOLIDATION: 0.97, Kind.BALANCE: 0.99}
MOVES_BAR: Final = 1.1
_NOTHING: Final = 1e-6


@dataclass(frozen=True)
class Planned:
    """What the planner made of a cluster."""

    snapshot: Snapshot
    """After all stages."""
    moves: int
    refused: int
    """In the order of the moves in which most are refused."""
    seconds: float
    """Of the process, for all stages."""


@dataclass(frozen=True)
class Compared:
    """One question to one cluster."""

    kind: Kind
    seed: int
    limit: int | None
    start: float
    """Violations, nodes in use or excess before."""
    found: float
    """How much of it the plan takes away."""
    optimum: float
    """The most that can be taken away."""
    proven: bool
    moves: int
    fewest: float
    """Moves that a plan with the same result needs at least."""
    refused: int
    seconds: float

    @property
    def share(self) -> float:
        """found / optimum; 1 where nothing can be taken away."""
        return self.found / self.optimum if self.optimum > _NOTHING else 1.0


def planned(
    snapshot: Snapshot, policies: Sequence[Policy], *, stages: int = 1, max_moves: int | None = None
) -> Planned:
    """Plan, carry out, and plan again for as many stages as there may be; without any limit besides ``max_moves``."""
    limits = Limits(minimum_gain=0.0, workload_cooldown_s=0.0)
    inputs = PlanningInputs(limits=limits, aggressiveness=1.0, unlimited=True, max_moves=max_moves)
    moves, refused, seconds, done = 0, 0, 0.0, 0
    while done < stages:
        start = time.process_time()
        made = plan(snapshot, policies, inputs, SchedulingState(snapshot))
        seconds += time.process_time() - start
        if not made.moves:
            break
        steps = in_stages(within(made.moves, stages - done))
        carried_out = replay(snapshot, steps)
        mixed = [replay(snapshot, steps, random.Random(seed)) for seed in range(ORDERS)]
        snapshot = carried_out.snapshot
        done += len(steps)
        moves += sum(map(len, steps))
        refused += max(len(one.refused) for one in (carried_out, *mixed))
    return Planned(snapshot, moves, refused, seconds)


def within(moves: Sequence[Move], stages: int) -> list[Move]:
    """The moves of the first stages, without those that only make room for moves of later ones."""
    kept = [move for move, stage in zip(moves, stages_of(moves), strict=True) if stage <= stages]
    while True:
        awaited = {pod for move in kept for pod in move.after}
        needed = [move for move in kept if move.reason != MAKES_ROOM or move.pod in awaited]
        if len(needed) == len(kept):
            return kept
        kept = needed


def compare(cluster: RandomCluster, seconds: float) -> Iterator[Compared]:
    """The plan beside the optimum, for every limit of the kind."""
    for limit in LIMITS[cluster.kind]:
        yield _compare(cluster, limit, seconds)


def _compare(cluster: RandomCluster, limit: int | None, seconds: float) -> Compared:
    places = Places(cluster.snapshot)
    repairs = cluster.kind in (Kind.TIGHT, Kind.ORDINARY)
    done = planned(cluster.snapshot, cluster.policies, stages=STAGES if repairs else 1, max_moves=limit)
    start, left, best, fewest = _outcome(cluster, places, done, limit, seconds)
    bound = best.objective if best.proven else best.bound
    if not math.isfinite(bound):
        bound = left  # nothing is known: counted as reached, and as not proven
    return Compared(
        kind=cluster.kind, seed=cluster.seed, limit=limit, start=start, found=start - left, optimum=start - bound,
        proven=best.proven and fewest.proven, moves=done.moves,
        fewest=fewest.objective if fewest.proven else max(fewest.bound, 0.0),
        refused=done.refused, seconds=done.seconds,
    )  # fmt: skip


def _outcome(
    cluster: RandomCluster, places: Places, done: Planned, limit: int | None, seconds: float
) -> tuple[float, float, Solution, Solution]:
    """Before, after, the optimum (least left) and the fewest moves for the same result."""
    placement, counts = places.placement, places.counts(done.snapshot)
    if cluster.thresholds is None:
        left = placement.violations(counts)
        best = fewest_violations(placement, STAGES, seconds, any_order=True)
        fewest = fewest_repairing_moves(placement, STAGES, left, seconds, any_order=True)
        return placement.violations(placement.start), left, best, fewest
    low, high = cluster.thresholds.low, cluster.thresholds.high
    if cluster.kind is Kind.CONSOLIDATION:
        asked = Consolidation.of(placement, low, high, limit)
        start, left = placement.in_use(placement.start), placement.in_use(counts)
        best = most_emptied(placement, asked, seconds)
        best = Solution(start + best.objective, start + best.bound, best.values)
        return start, left, best, fewest_emptying_moves(placement, asked, start - left, seconds)
    relief = Relief.of(placement, low, high, limit, any_order=True)
    excess = placement.excess(counts, high)
    fewest = fewest_relieving_moves(placement, relief, excess, seconds)
    return placement.excess(placement.start, high), excess, least_excess(placement, relief, seconds), fewest


def report(found: Sequence[Compared]) -> None:
    """One line for each kind and limit."""
    groups: defaultdict[tuple[Kind, int | None], list[Compared]] = defaultdict(list)
    for one in found:
        groups[one.kind, one.limit].append(one)
    print(f"{'kind':14} {'moves':>6} {'found':>9} / {'optimum':>9}  share   mean  least   bar | "
          f"{'moves':>6} / {'fewest':>7}  times | refused proven  s max")  # fmt: skip
    for (kind, limit), rows in groups.items():
        total, optimum = sum(r.found for r in rows), sum(r.optimum for r in rows)
        moves, fewest = sum(r.moves for r in rows), sum(r.fewest for r in rows)
        shares = [r.share for r in rows]
        print(
            f"{kind:14} {limit or 'all':>6} {total:9.4g} / {optimum:9.4g} {total / max(optimum, _NOTHING):6.3f} "
            f"{sum(shares) / len(shares):6.3f} {min(shares):6.3f} {BARS[kind]:5.2f} | {moves:6d} / {fewest:7.0f} "
            f"{moves / fewest if fewest else 1.0:6.2f} | {sum(r.refused for r in rows):7d} "
            f"{sum(r.proven for r in rows):3d}/{len(rows):2d} {max(r.seconds for r in rows):6.2f}"
        )
    kinds = Counter(r.kind for r in found if r.refused)
    if kinds:
        print("refused moves in:", dict(kinds))


def compare_budgets(seeds: Sequence[int], *, each: bool) -> None:
    """Print a line for the clusters without budgets, one for the same with budgets, and the share of nodes."""
    totals = {"without": Counter[str](), "with": Counter[str]()}
    for seed in seeds:
        free = random_cluster(Kind.CONSOLIDATION, seed)
        for name, cluster in (("without", free), ("with", with_budgets(free))):
            counts = _emptied(cluster)
            totals[name] += counts
            if each:
                print(seed, name, dict(counts), flush=True)
    for name, counts in totals.items():
        print(f"{name} budgets:", ", ".join(f"{number} {what}" for what, number in counts.items()))
    print(
        f"share of nodes: {totals['with']['nodes emptied'] / max(totals['without']['nodes emptied'], 1):.3f}"
    )


def _emptied(cluster: RandomCluster) -> Counter[str]:
    """What one plan does, and what the plan after it finds."""
    inputs = PlanningInputs(
        limits=Limits(minimum_gain=0.0, workload_cooldown_s=0.0), aggressiveness=1.0, unlimited=True
    )
    start = time.process_time()
    steps = in_stages(_plan(cluster.snapshot, cluster, inputs))
    seconds = time.process_time() - start
    mixed = [replay(cluster.snapshot, steps, random.Random(seed)) for seed in range(ORDERS)]
    done = replay(cluster.snapshot, steps)
    again = _plan(done.snapshot, cluster, inputs)
    return Counter({
        "nodes in use": len(_in_use(cluster.snapshot)),
        "nodes emptied": len(_in_use(cluster.snapshot)) - len(_in_use(done.snapshot)),
        "moves": sum(map(len, steps)),
        "stages": len(steps),
        "refused": max(len(one.refused) for one in (done, *mixed)),
        "overrun": sum(_overrun(cluster.snapshot, stage) for stage in steps),
        "second plans with moves": int(bool(again)),
        "moves of second plans": len(again),
        "ms of CPU": round(seconds * 1000),
    })  # fmt: skip


def _plan(snapshot: Snapshot, cluster: RandomCluster, inputs: PlanningInputs) -> tuple[Move, ...]:
    return plan(snapshot, cluster.policies, inputs, SchedulingState(snapshot)).moves


def _in_use(snapshot: Snapshot) -> set[str]:
    return {pod.node for pod in snapshot.pods.values() if not belongs_to_node(pod)}


def _overrun(snapshot: Snapshot, stage: Sequence[Move]) -> int:
    """By how many pods a stage takes more from budgets than they allow."""
    pods = [snapshot.pods[ObjectKey(move.pod.namespace, move.pod.name)] for move in stage]
    taken = (
        sum(budget.selector is not None and budget.selector.matches(pod.labels) for pod in pods)
        - budget.disruptions_allowed
        for budget in snapshot.budgets.values()
    )
    return sum(more for more in taken if more > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clusters", type=int, default=30)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), nargs="*", default=list(Kind))
    parser.add_argument("--seconds", type=float, default=20.0, help="time of the solver for each program")
    parser.add_argument("--each", action="store_true", help="print every cluster")
    parser.add_argument(
        "--budgets", action="store_true", help="compare plans with and without budgets instead"
    )
    given = parser.parse_args()
    if given.budgets:
        compare_budgets(range(given.first, given.first + given.clusters), each=given.each)
        return
    found: list[Compared] = []
    for kind in given.kind:
        for seed in range(given.first, given.first + given.clusters):
            for one in compare(random_cluster(kind, seed), given.seconds):
                found.append(one)
                if given.each:
                    print(
                        f"{kind} {seed} moves {one.limit or 'all'}: {one.found:.4g} of {one.optimum:.4g} "
                        f"(of {one.start:.4g}), moves {one.moves} / {one.fewest:.0f}, refused {one.refused}, "
                        f"{one.seconds:.2f} s{'' if one.proven else ', not proven'}",
                        flush=True,
                    )
    report(found)


if __name__ == "__main__":
    main()
