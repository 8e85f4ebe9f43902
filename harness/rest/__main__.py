"""``python -m harness.rest --clusters 300``: every set of policies on random clusters, planned and moved until nothing moves.

``--controller 60`` instead: the whole controller with every shipped document on so many clusters, for hours of virtual time.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from itertools import islice, zip_longest

import click
import structlog

from harness.rest.clusters import random_cluster
from harness.rest.controller import controller_course
from harness.rest.course import course_of
from harness.rest.sets import DOCUMENTS, PolicySet, documents, pairs

_COUNTED = ("moves", "restless", "returns after others")


@click.command()
@click.option("--clusters", default=300, show_default=True, help="How many for each document.")
@click.option("--pair-clusters", default=30, show_default=True, help="How many for each two policies.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--only", default="", help="The name of one set, such as aggressive or taints+spread.")
@click.option(
    "--controller", default=0, help="Run the controller on so many clusters for each document, and no plans."
)
@click.option(
    "--hours",
    default=3,
    show_default=True,
    help="Of virtual time, for each cluster; with moves in the last one, more.",
)
@click.option("--show", default=5, show_default=True, help="How many faults of a set to print.")
def main(
    *, clusters: int, pair_clusters: int, first: int, only: str, controller: int, hours: int, show: int
) -> None:
    """Print a line for each set of policies, and its faults with their seeds; exit code 1 if there is any."""
    if controller:
        sys.exit(int(_controllers(range(first, first + controller), only, hours, show)))
    sets = [(one, clusters) for one in documents()] + [(one, pair_clusters) for one in pairs()]
    failed = False
    for one, number in sets:
        if only in ("", one.name):
            counts, faults = _tried(one, range(first, first + number))
            numbers = ", ".join(f"{counts[key]} {key}" for key in _COUNTED)
            click.echo(f"{one.name}: {number} clusters, {numbers}, {len(faults)} faults")
            for fault in islice(faults, show):
                click.echo(f"  {fault}")
            failed = failed or bool(faults)
    sys.exit(int(failed))


def _controllers(seeds: range, only: str, hours: int, show: int) -> bool:
    """True if there is any fault."""
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed = False
    for path in sorted(DOCUMENTS.glob("*.yaml")):
        if only in ("", path.stem):
            courses = {seed: controller_course(seed, path.read_bytes(), hours=hours) for seed in seeds}
            by_hour = zip_longest(*(course.moves for course in courses.values()), fillvalue=0)
            moves = [sum(numbers) for numbers in by_hour]
            after_others = sum(len(course.returns_after_others) for course in courses.values())
            faults = [f"seed {seed}: {fault}" for seed, course in courses.items() for fault in course.faults]
            click.echo(
                f"{path.stem}: {len(seeds)} clusters, moves by hour {moves}, {after_others} returns after others, "
                f"{len(faults)} faults"
            )
            for fault in faults[:show]:
                click.echo(f"  {fault}")
            failed = failed or bool(faults)
    return failed


def _tried(one: PolicySet, seeds: range) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for seed in seeds:
        course = course_of(random_cluster(seed), one.policies, one.inputs, hints=one.hints)
        counts["moves"] += course.moves
        counts["restless"] += course.restless
        counts["returns after others"] += course.returns_after_others
        faults.extend(f"seed {seed}: {fault}" for fault in course.faults)
    return counts, faults


if __name__ == "__main__":
    main()
