"""Command: compares many random clusters and prints the agreement."""

from __future__ import annotations

import sys

import click

from harness.controlplane.binaries import BinariesMissing
from harness.differential.clusters import random_cluster
from harness.differential.comparison import Tally, compare
from harness.differential.program import Program, build


@click.command()
@click.option("--clusters", default=500, show_default=True, help="How many random clusters.")
@click.option("--first", default=0, show_default=True, help="Seed of the first cluster.")
@click.option("--show", default=10, show_default=True, help="How many differences to print.")
def main(clusters: int, first: int, show: int) -> None:
    """Compares our verdicts, reasons and scores with kube-scheduler's own code."""
    try:
        path = build()
    except BinariesMissing as missing:
        click.echo(str(missing), err=True)
        sys.exit(2)
    tally, differing, shown = Tally(), 0, 0
    with Program(path) as program:
        for seed in range(first, first + clusters):
            question = random_cluster(seed)
            answer = program.ask(question)
            if answer.error:
                click.echo(f"seed {seed}: {answer.error}", err=True)
                sys.exit(1)
            for difference in compare(question, answer, tally):
                differing += 1
                if shown < show:
                    shown += 1
                    click.echo(f"seed {seed}: {difference}")
    _report(tally, differing, clusters)
    sys.exit(1 if differing else 0)


def _report(tally: Tally, differing: int, clusters: int) -> None:
    click.echo(
        f"{clusters} clusters, {tally.verdicts} verdicts, {tally.feasible} feasible, {differing} differ, "
        f"{tally.not_judged} not judged"
    )
    click.echo("refused by:")
    for name, count in tally.refused_by.most_common():
        click.echo(f"  {count:7d} {name}")
    click.echo("scored (other than 0 and 100) by:")
    for name, count in tally.scored_by.most_common():
        click.echo(f"  {count:7d} {name}")


if __name__ == "__main__":
    main()
