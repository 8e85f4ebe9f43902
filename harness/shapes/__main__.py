"""``python -m harness.shapes --clusters 300``: plans of random clusters of every shape, held against all that is promised of plans.

What kube-scheduler's own code says of such plans: ``harness.differential.plans``.
"""

from __future__ import annotations

import sys
from collections import Counter

import click

from harness.differential.plans.case import Case
from harness.differential.plans.dumps import Form, read
from harness.rest.course import course_of
from harness.rest.settling import settled
from harness.shapes.checks import inexact_changes, order_of_reading, planned, sums_that_differ
from harness.shapes.clusters import random_shapes


@click.command()
@click.option("--clusters", default=300, show_default=True, help="How many random clusters.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--tight", is_flag=True, help="Clusters whose nodes are full, with more pods that wait.")
@click.option("--show", default=20, show_default=True, help="How many faults to print.")
def main(*, clusters: int, first: int, tight: bool, show: int) -> None:
    """Print the faults with their seeds, and a line of figures; exit code 1 if there is any fault."""
    counts: Counter[str] = Counter()
    faults = 0
    for seed in range(first, first + clusters):
        for words in _faults(random_shapes(seed, tight=tight), seed, counts):
            faults += 1
            if faults <= show:
                click.echo(f"seed {seed}: {words}")
    told = ("cycles", "moves", "staged", "rooms", "returns after others", "restless")
    figures = ", ".join(f"{counts[name]} {name}" for name in told)
    click.echo(f"{clusters} clusters until rest: {figures}; {faults} faults")
    sys.exit(int(bool(faults)))


def _faults(case: Case, seed: int, counts: Counter[str]) -> list[str]:
    cluster = read(case.objects, Form.OBJECTS)
    found = list(inexact_changes(case, cluster, seed))
    made = planned(case, cluster)
    found += order_of_reading(case, made, seed)
    found += sums_that_differ(made)
    profile = case.profile
    course = course_of(settled(cluster, profile), case.policies, case.inputs, profile)
    counts.update(cycles=course.cycles, moves=course.moves, staged=course.staged, rooms=course.rooms)
    counts.update({"returns after others": course.returns_after_others, "restless": int(course.restless)})
    return [*found, *course.faults]


if __name__ == "__main__":
    main()
