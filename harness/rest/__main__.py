"""``python -m harness.rest --clusters 300``: every set of policies on random clusters, planned and moved until nothing moves."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import islice

import click

from harness.rest.clusters import random_cluster
from harness.rest.cycles import course_of
from harness.rest.sets import PolicySet, documents, pairs


@click.command()
@click.option("--clusters", default=300, show_default=True, help="How many for each document.")
@click.option("--pair-clusters", default=30, show_default=True, help="How many for each two policies.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--only", default="", help="The name of one set, such as aggressive or taints+spread.")
@click.option("--show", default=5, show_default=True, help="How many faults of a set to print.")
def main(clusters: int, pair_clusters: int, first: int, only: str, show: int) -> None:
    """Print a line for each set of policies, and its faults with their seeds; exit code 1 if there is any."""
    sets = [(one, clusters) for one in documents()] + [(one, pair_clusters) for one in pairs()]
    failed = False
    for one, number in sets:
        if only in ("", one.name):
            counts, faults = _tried(one, range(first, first + number))
            numbers = ", ".join(f"{counts[key]} {key}" for key in ("moves", "restless", "returns", "swaps"))
            click.echo(f"{one.name}: {number} clusters, {numbers}, {len(faults)} faults")
            for fault in islice(faults, show):
                click.echo(f"  {fault}")
            failed = failed or bool(faults)
    sys.exit(int(failed))


def _tried(one: PolicySet, seeds: range) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for seed in seeds:
        course = course_of(random_cluster(seed), one.policies, one.inputs, hints=one.hints)
        counts["moves"] += sum(course.moves)
        counts["restless"] += not course.at_rest
        counts["returns"] += len(course.returns)
        counts["swaps"] += len(course.swaps)
        faults.extend(f"seed {seed}: {fault}" for fault in course.faults)
    return counts, faults


if __name__ == "__main__":
    main()
