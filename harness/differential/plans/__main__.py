"""Command: asks kube-scheduler's code about the plans of many random clusters, move by move."""

from __future__ import annotations

import sys
import time
from collections import Counter

import click

from harness.controlplane.binaries import BinariesMissing
from harness.differential.plans.asked import asked_moves
from harness.differential.plans.dumps import Misread
from harness.differential.plans.judging import Tally, judge, judge_moves
from harness.differential.program import Program, build
from harness.shapes.clusters import random_shapes

_COMMAND = "python -m harness.differential.plans"


@click.command()
@click.option(
    "--moves", default=1000, show_default=True, help="How many moves to judge; the last plan is judged whole."
)
@click.option("--first", default=0, show_default=True, help="Seed of the first cluster.")
@click.option("--show", default=20, show_default=True, help="How many refusals to print.")
@click.option(
    "--asked", is_flag=True, help="Moves that people ask for while others are under way, not plans."
)
def main(*, moves: int, first: int, show: int, asked: bool) -> None:
    """Asks kube-scheduler's own code about every move of our plans, as each has its turn."""
    try:
        path = build()
    except BinariesMissing as missing:
        click.echo(str(missing), err=True)
        sys.exit(2)
    tally, problems, seed, start = Tally(), 0, first, time.monotonic()
    with Program(path) as program:
        while tally.moves < moves:
            for found in _judged(seed, program, tally, asked=asked):
                problems += 1
                if problems <= show:
                    click.echo(
                        f"seed {seed}, {found}\n  again: {_COMMAND}{' --asked' * asked} --first {seed} --moves 1"
                    )
            seed += 1
    _report(tally, time.monotonic() - start)
    sys.exit(1 if problems else 0)


def _judged(seed: int, program: Program, tally: Tally, *, asked: bool) -> list[str]:
    try:
        case = random_shapes(seed, tight=seed % 4 == 0, aged=True, rare=seed % 3 != 0)
        if asked:
            return [str(found) for found in judge_moves(case, asked_moves(case, seed), program, tally)]
        return [str(found) for found in judge(case, program, tally)]
    except Misread as wrong:
        tally.misread += 1
        return [str(wrong)]


def _report(tally: Tally, took_s: float) -> None:
    click.echo(
        f"{tally.moves} moves of {tally.plans} plans, {tally.configured} of them under a random scheduler configuration, "
        f"{tally.asked.total()} questions, {tally.refused.total()} refused, {tally.misread} dumps misread, {took_s:.0f} s"
    )
    _table("by mode", tally.modes)
    _table("by policy", tally.policies)
    _table("by controller", tally.owners)
    _table("questions by moment", tally.asked)
    _table("refused", tally.refused)


def _table(title: str, counted: Counter[str]) -> None:
    if counted:
        click.echo(f"{title}:")
    for name, count in counted.most_common():
        click.echo(f"  {count:7d} {name}")


if __name__ == "__main__":
    main()
