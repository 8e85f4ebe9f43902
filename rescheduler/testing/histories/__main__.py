"""``python -m rescheduler.testing.histories``: play random histories, or one of them again with a trace.

Prints each history that breaks a promise with the command that replays it, and at the end what was met.
Ends with 1 if a promise was broken.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator

import click
import structlog

from rescheduler.testing.histories.history import Outcome, play

_CHUNK = 5


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--histories", type=int, default=1, show_default=True, help="How many, from that seed on.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option("--trace", is_flag=True, help="Print every write of each history.")
def main(seed: int, histories: int, jobs: int, trace: bool) -> None:  # noqa: FBT001 - click's way
    """Random histories of the whole program on the embedded cluster, in virtual time."""
    began_s = time.monotonic()
    seeds = range(seed, seed + histories)
    _hush()
    told = Told()
    with contextlib.suppress(KeyboardInterrupt):  # what was played until then is summed up
        for outcome in map(_traced, seeds) if trace else _played(seeds, jobs):
            told.add(outcome)
    told.sum_up(time.monotonic() - began_s)
    sys.exit(1 if told.broken else 0)


class Told:
    """What all histories together have shown."""

    def __init__(self) -> None:
        self.broken = 0
        self._histories = self._rough = self._evictions = self._writes = 0
        self._cpu_s = 0.0
        self._met: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """One more history; a broken promise is printed at once."""
        self._histories += 1
        self._rough += outcome.rough
        self._evictions += outcome.evictions
        self._writes += outcome.writes
        self._cpu_s += outcome.cpu_s
        self._met += outcome.met
        self._ended += outcome.ended
        if outcome.faults:
            self.broken += 1
            click.echo(f"seed {outcome.seed}: {'; '.join(outcome.faults)}")
            click.echo(f"  python -m rescheduler.testing.histories --seed {outcome.seed} --trace")
            sys.stdout.flush()

    def sum_up(self, seconds: float) -> None:
        """The figures."""
        click.echo(
            f"{self._histories} histories ({self._rough} with rough deeds), {self._evictions} evictions, "
            f"{self._writes} writes, {self.broken} broken; "
            f"{seconds:.0f} s, {self._cpu_s / max(1, self._histories):.2f} CPU s each"
        )
        for title, table in (("ended", self._ended), ("met", self._met)):
            click.echo(f"{title}:")
            for words, count in sorted(table.items()):
                click.echo(f"  {count:7}  {words}")


def _played(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    if jobs <= 1:
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(play, seeds, chunksize=_CHUNK)


def _traced(seed: int) -> Outcome:
    click.echo(f"seed {seed}")
    return play(seed, click.echo)


def _hush() -> None:
    """Refused calls are what histories are made of; the log need not tell."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an end from outside sums up as well
    main()
