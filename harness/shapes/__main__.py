"""``python -m harness.shapes --clusters 300``: plans of random clusters of every shape, held against all that is promised of plans.

Each plan is asked of kube-scheduler's own code move by move, if its program can be built here.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext

import click

from harness.controlplane.binaries import BinariesMissing
from harness.differential.plans.cases import Case
from harness.differential.plans.dumps import Form, read
from harness.differential.plans.judging import Tally, judge
from harness.differential.program import Program, build
from harness.shapes.checks import inexact_changes, order_of_reading, planned, profile_of
from harness.shapes.clusters import random_shapes
from harness.shapes.course import course_of
from harness.shapes.settling import settled


@click.command()
@click.option("--clusters", default=300, show_default=True, help="How many random clusters.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--tight", is_flag=True, help="Clusters whose nodes are full, with more pods that wait.")
@click.option("--show", default=20, show_default=True, help="How many faults to print.")
def main(*, clusters: int, first: int, tight: bool, show: int) -> None:
    """Print the faults with their seeds, and a line of figures; exit code 1 if there is any fault."""
    counts: Counter[str] = Counter()
    tally, faults = Tally(), 0
    with _program() as program:
        for seed in range(first, first + clusters):
            case = random_shapes(seed, tight=tight)
            for words in _faults(case, seed, program, tally, counts):
                faults += 1
                if faults <= show:
                    click.echo(f"seed {seed}: {words}")
    told = ("cycles", "moves", "staged", "rooms", "returns after others", "restless")
    figures = ", ".join(f"{counts[name]} {name}" for name in told)
    click.echo(f"{clusters} clusters until rest: {figures}")
    click.echo(
        f"first plans: {tally.moves} moves, {tally.asked.total()} questions, {tally.refused.total()} refused; {faults} faults"
    )
    sys.exit(int(bool(faults)))


def _program() -> Program | nullcontext[None]:
    try:
        return Program(build())
    except BinariesMissing as missing:
        click.echo(str(missing), err=True)
        return nullcontext()


def _faults(case: Case, seed: int, program: Program | None, tally: Tally, counts: Counter[str]) -> list[str]:
    cluster = read(case.objects, Form.OBJECTS)
    found = list(inexact_changes(case, cluster, seed))
    found += order_of_reading(case, planned(case, cluster), seed)
    if program is not None:
        found += map(str, judge(case, program, tally))
    course = course_of(case, settled(cluster, profile_of(case)))
    counts.update(cycles=course.cycles, moves=course.moves, staged=course.staged, rooms=course.rooms)
    counts.update({"returns after others": course.returns_after_others, "restless": int(course.restless)})
    return [*found, *course.faults]


if __name__ == "__main__":
    main()
