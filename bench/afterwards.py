"""What is left to plan after a plan: random small clusters, each planned, moved and planned again.

Usage: python -m bench.afterwards [--clusters 2000] [--first SEED] [--document NAME ...] [--each]

The clusters are those of ``harness.rest``: at most 8 nodes, on which every rule and wish is broken by some pods. Each shipped document plans
them in turn, without limits. A line for each document tells how many clusters were at rest after one plan, which policies found how
many moves in the second plan, and on how many clusters a plan made the sum over all policies worse by tier (bar: none).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from harness.rest.clusters import random_cluster
from harness.rest.cycles import badness_of, moved
from harness.rest.sets import PolicySet, documents
from rescheduler.planning.plan import Move
from rescheduler.planning.planner import plan
from rescheduler.scheduling.state import SchedulingState

_FOUND = (
    "clusters",
    "with moves",
    "at rest after one plan",
    "worse by tier",
    "moves",
    "moves of second plans",
)


def tried(one: PolicySet, seed: int) -> tuple[Counter[str], Sequence[Move]]:
    """What one plan did to a cluster, and the moves of the plan after it."""
    cluster = random_cluster(seed)
    state = SchedulingState(cluster)
    before = badness_of(cluster, one.policies, state)
    first = plan(cluster, one.policies, one.inputs, state)
    after = moved(cluster, first)
    worse = badness_of(after, one.policies, state) > before
    second = plan(after, one.policies, one.inputs, state).moves if first.moves else ()
    counts = Counter({
        "clusters": 1,
        "with moves": int(bool(first.moves)),
        "at rest after one plan": int(not second),
        "worse by tier": int(worse),
        "moves": len(first.moves),
        "moves of second plans": len(second),
    })  # fmt: skip
    return counts, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clusters", type=int, default=2000, help="over all documents")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--document", nargs="*", default=[], help="only these, by name")
    parser.add_argument("--each", action="store_true", help="print each second plan that is not empty")
    given = parser.parse_args()
    sets = [one for one in documents() if one.name.endswith(" unlimited")]
    sets = [one for one in sets if not given.document or one.name.split()[0] in given.document]
    totals = {one.name: Counter[str]() for one in sets}
    policies = {one.name: Counter[str]() for one in sets}
    for number in range(given.clusters):
        one, seed = sets[number % len(sets)], given.first + number
        counts, second = tried(one, seed)
        totals[one.name] += counts
        policies[one.name] += Counter(move.policy for move in second)
        if given.each and second:
            print(seed, one.name, [(m.policy, m.pod.name, m.source, m.target) for m in second], flush=True)
    for name, counts in totals.items():
        print(f"{name}: " + ", ".join(f"{counts[what]} {what}" for what in _FOUND), dict(policies[name]))


if __name__ == "__main__":
    main()
