"""``python -m harness.mutants``: change one thing at a time in a copy of the repository and see whether a test fails.

Needs cosmic-ray (``pip install --group mutants``). Prints each mutant that survived as a diff, and at the end the score
of each module. Ends with 1 if more survived than ``--most`` allows.
"""

from __future__ import annotations

import os
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import click
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkItem, WorkResult

from harness.mutants.modules import OPERATORS, TESTS
from harness.mutants.trial import copy_repository, fails, import_path, pytest_command

_LIMIT_S = 600.0
"""A mutant whose tests take longer is killed: it made the program hang."""


@click.command()
@click.argument("modules", nargs=-1)
@click.option("--sample", type=int, default=10, show_default=True, help="Mutants of each module; 0: all.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the sample.")
@click.option("--tests", multiple=True, help="Which tests to run, for modules that have none named for them.")
@click.option("--most", type=int, default=-1, help="Survivors that are allowed; negative: any number.")
def main(modules: tuple[str, ...], sample: int, seed: int, tests: tuple[str, ...], most: int) -> None:
    """Mutate MODULES (all that have tests named for it) and print what survives."""
    survivors, scores = 0, []
    with tempfile.TemporaryDirectory(prefix="rescheduler-mutants-") as folder:
        copy_repository(Path(folder))
        os.chdir(folder)  # cosmic-ray changes the files where it runs
        os.environ["PYTHONPATH"] = import_path(Path(folder))
        for module in modules or TESTS:
            began_s, named = time.monotonic(), tests or TESTS[module]
            if fails(Path(folder), named):
                raise click.ClickException(
                    f"{module}: a test fails before anything is changed: correct that first"
                )
            items = mutants(module)
            chosen = items if not sample else _sampled(items, sample, seed)
            alive = [item for item in chosen if not _is_killed(item, named)]
            survivors += len(alive)
            seconds = time.monotonic() - began_s
            scores.append(
                f"{module}: {len(chosen) - len(alive)} of {len(chosen)} killed "
                f"({len(items)} mutants, {seconds:.0f} s)"
            )
            click.echo(scores[-1], err=True)
    click.echo("\n".join(scores))
    sys.exit(1 if 0 <= most < survivors else 0)


def mutants(module: str) -> list[WorkItem]:
    """All changes of a module that are worth trying."""
    with (
        tempfile.TemporaryDirectory() as folder,
        use_db(str(Path(folder) / "db"), WorkDB.Mode.create) as found,
    ):
        init([Path(module)], found, {})
        items = list(found.work_items)
    return [item for item in items if item.mutations[0].operator_name in OPERATORS]


def _sampled(items: list[WorkItem], count: int, seed: int) -> list[WorkItem]:
    ordered = sorted(items, key=lambda i: (i.mutations[0].start_pos, i.mutations[0].operator_name))
    return random.Random(seed).sample(ordered, min(count, len(ordered)))  # noqa: S311 - reproducible


def _is_killed(item: WorkItem, tests: Iterable[str]) -> bool:
    result: WorkResult = mutate_and_test(
        item.mutations, shlex.join(pytest_command("-m", "not realcluster", *tests)), _LIMIT_S
    )
    if not result.is_killed:
        mutation = item.mutations[0]
        click.echo(f"survived: {mutation.module_path}:{mutation.start_pos[0]} {mutation.operator_name}")
        click.echo(result.diff)
    return bool(result.is_killed)


if __name__ == "__main__":
    main()
