"""What an engineer asks of plans, on the random clusters of ``bench.random_clusters``: which pods go, how hot the hottest node stays, what comes together.

Usage: python -m bench.by_eye [--clusters 30] [--first SEED] [--seconds 20] [--alone]

Consolidation is planned with WorkloadSpread, as every document has it unless it switches it off (``--alone``: without it).

| line | what is compared |
|---|---|
| disruption | of all pods that leave emptied nodes, with the least for which so many nodes can be emptied (exact) |
| hottest node | how far it is above its target after all moves, with the least that can be reached (exact) |
| together | workloads of several replicas with more of them on one node, or in one zone, after consolidation than before, and how many the plan tells |

Needs the extra ``prove``.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from bench.exact_models import Relief, cheapest_emptying, coolest
from bench.random_clusters import Kind, RandomCluster, random_cluster
from bench.replay import replay
from rescheduler.model.names import ZONE
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.snapshot import Snapshot
from rescheduler.optima.fillings import Consolidation
from rescheduler.optima.placement import Places
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import Plan, in_stages
from rescheduler.planning.planner import plan
from rescheduler.planning.refusals import disruption_of
from rescheduler.policies.workload_spread import WorkloadSpread, WorkloadSpreadArgs
from rescheduler.scheduling.state import SchedulingState

_TOLD = re.compile(r"(\d+) workloads? ha(?:s|ve) more replicas (on one node|in one zone)")


def _planned(cluster: RandomCluster) -> tuple[Plan, Snapshot]:
    limits = Limits(minimum_gain=0.0, workload_cooldown_s=0.0)
    inputs = PlanningInputs(limits=limits, aggressiveness=1.0, unlimited=True)
    made = plan(cluster.snapshot, cluster.policies, inputs, SchedulingState(cluster.snapshot))
    return made, replay(cluster.snapshot, in_stages(made.moves)).snapshot


def consolidation(seed: int, seconds: float, *, alone: bool) -> Counter[str]:
    """Disruption beside the least, and what comes together."""
    cluster = random_cluster(Kind.CONSOLIDATION, seed)
    if not alone:
        cluster = replace(cluster, policies=(*cluster.policies, WorkloadSpread(WorkloadSpreadArgs())))
    if cluster.thresholds is None:
        return Counter()
    made, done = _planned(cluster)
    before, after = (
        {p.node for p in s.pods.values() if not belongs_to_node(p)} for s in (cluster.snapshot, done)
    )
    emptied = before - after
    costs: Counter[str] = Counter()
    for pod in cluster.snapshot.pods.values():
        if not belongs_to_node(pod):
            costs[pod.node] += round(disruption_of(pod, cluster.snapshot) * 10_000)
    places = Places(cluster.snapshot)
    low, high = cluster.thresholds.low, cluster.thresholds.high
    asked = Consolidation.of(places.placement, low, high, None, any_order=True)
    asked = replace(asked, prices=np.array([float(costs[name]) for name in cluster.snapshot.nodes]))
    best = cheapest_emptying(places.placement, asked, len(emptied), seconds)
    found = Counter({
        "nodes emptied": len(emptied),
        "disruption": sum(costs[name] for name in emptied),
        "least disruption": round(best.objective if best.proven else best.bound),
    })  # fmt: skip
    zones = {name: node.labels.get(ZONE) or "" for name, node in cluster.snapshot.nodes.items()}
    for where, domain in (("on one node", lambda node: node), ("in one zone", zones.__getitem__)):
        found.update(dict(_together(cluster.snapshot, done, where, domain)))
    for warning in made.metadata.warnings:
        if told := _TOLD.search(warning):
            found[f"told more {told[2]}"] += int(told[1])
    return found


def _together(
    before: Snapshot, after: Snapshot, where: str, domain: Callable[[str], str]
) -> Iterator[tuple[str, int]]:
    most: list[dict[str, Counter[str]]] = []
    for snapshot in (before, after):
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in snapshot.pods.values():
            if pod.controller is not None and not belongs_to_node(pod):
                counts[pod.controller.uid][domain(pod.node)] += 1
        most.append(counts)
    several = [uid for uid, counts in most[0].items() if counts.total() > 1]
    yield "workloads", len(several) if where == "on one node" else 0
    yield f"all {where} before", sum(len(most[0][uid]) == 1 for uid in several)
    yield f"all {where} after", sum(len(most[1][uid]) == 1 for uid in several)
    closer = (max(most[1][u].values()) > max(most[0][u].values()) for u in several)
    yield f"more {where}", sum(closer)


def balance(seed: int, seconds: float) -> Counter[str]:
    """The hottest node beside the coolest that it can be, in millionths of a node above the target."""
    cluster = random_cluster(Kind.BALANCE, seed)
    if cluster.thresholds is None:
        return Counter()
    made, done = _planned(cluster)
    places, high = Places(cluster.snapshot), cluster.thresholds.high
    asked = Relief.of(places.placement, cluster.thresholds.low, high, None, any_order=True)
    best = coolest(places.placement, asked, seconds)
    load = places.placement.load(places.counts(done))
    hottest = 0.0
    for resource, percent in high.items():
        at = places.placement.resources.index(resource)
        hottest = max(hottest, float((load[:, at] / places.placement.capacity[:, at]).max()) - percent / 100)
    least = max(best.objective if best.proven else best.bound, 0.0)
    return Counter({
        "hottest node above target": round(max(hottest, 0.0) * 1e6),
        "least possible": round(least * 1e6),
        "moves": len(made.moves),
        "proven": int(best.proven),
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clusters", type=int, default=30)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seconds", type=float, default=20.0, help="time of the solver for each program")
    parser.add_argument("--alone", action="store_true", help="consolidate without WorkloadSpread")
    given = parser.parse_args()
    packed = partial(consolidation, alone=given.alone)
    for name, one in (("consolidation", packed), ("balance", balance)):
        total: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.clusters):
            total += one(seed, given.seconds)
        print(f"{name}:", ", ".join(f"{number} {what}" for what, number in total.items()), flush=True)


if __name__ == "__main__":
    main()
