"""``python -m harness.histories``: play random histories, or one of them again with a trace.

Prints each history that breaks an invariant, with the command that replays it; every minute the progress; and at the end
a summary. After SIGTERM or SIGINT it stops within seconds and prints the summary of the histories played until then.
The exit code is 1 if an invariant was broken.
"""

from __future__ import annotations

import functools
import itertools
import logging
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.pool import Pool
from types import FrameType

import click
import structlog

from harness.histories.history import Outcome, play

_LOOK_S = 0.5
_PROGRESS_S = 60.0

Play = Callable[..., Outcome]
"""``history.play``, with options."""


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--histories", type=int, default=1, show_default=True, help="How many, from that seed on.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option("--owners", is_flag=True, help="Owners and admission change things in every history.")
@click.option("--trace", is_flag=True, help="Print every write of each history.")
def main(seed: int, histories: int, jobs: int, owners: bool, trace: bool) -> None:  # noqa: FBT001 - click's way
    """Random histories of the whole program on the sandbox, in virtual time."""
    began_s = time.monotonic()
    seeds = range(seed, seed + histories)
    _hush()
    asked, told = Asked(), Told("--owners " if owners else "")
    one = functools.partial(play, owners=owners)
    with asked:
        click.echo(f"{histories} histories from seed {seed} on", err=True)
        for outcome in _traced(one, seeds, asked) if trace else _played(one, seeds, jobs, asked):
            told.add(outcome)
    told.sum_up(time.monotonic() - began_s)
    sys.exit(1 if told.broken else 0)


class Asked:
    """Whether SIGTERM or SIGINT was received. A flag, because an exception could be raised inside of code that must finish."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.to_end = False

    def __enter__(self) -> None:
        self._before = [signal.signal(number, self._hear) for number in self._SIGNALS]

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(self._SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.to_end = True


class Told:
    """Counts the outcomes of all histories."""

    def __init__(self, options: str = "") -> None:
        """``options``: those of the command that replays a history."""
        self._options = options
        self.broken = 0
        self._histories = self._rough = self._owners = self._evictions = self._writes = 0
        self._cpu_s = 0.0
        self._tells_at_s = time.monotonic() + _PROGRESS_S
        self._met: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count one history; a broken invariant is printed at once."""
        self._histories += 1
        self._rough += outcome.rough
        self._owners += outcome.owners
        self._evictions += outcome.evictions
        self._writes += outcome.writes
        self._cpu_s += outcome.cpu_s
        self._met += outcome.met
        self._ended += outcome.ended
        if outcome.faults:
            self.broken += 1
            click.echo(f"seed {outcome.seed}: {'; '.join(outcome.faults)}")
            click.echo(f"  python -m harness.histories {self._options}--seed {outcome.seed} --trace")
            sys.stdout.flush()
        if time.monotonic() >= self._tells_at_s:
            self._tells_at_s = time.monotonic() + _PROGRESS_S
            click.echo(f"{self._histories} histories, {self.broken} broken", err=True)

    def sum_up(self, seconds: float) -> None:
        """Print the summary."""
        click.echo(
            f"{self._histories} histories ({self._rough} with rough disturbances, "
            f"{self._owners} with changes of owners), {self._evictions} evictions, "
            f"{self._writes} writes, {self.broken} broken; "
            f"{seconds:.0f} s, {self._cpu_s / max(1, self._histories):.2f} CPU s each"
        )
        for title, table in (("ended", self._ended), ("met", self._met)):
            click.echo(f"{title}:")
            for words, count in sorted(table.items()):
                click.echo(f"  {count:7}  {words}")


def _played(one: Play, seeds: Iterable[int], jobs: int, asked: Asked) -> Iterator[Outcome]:
    if jobs <= 1:
        yield from map(one, _until(asked, seeds))
        return
    with workers(jobs) as pool:
        outcomes = pool.imap_unordered(one, seeds)
        while not asked.to_end:
            try:
                yield outcomes.next(timeout=_LOOK_S)
            except multiprocessing.TimeoutError:
                continue
            except StopIteration:
                return


def workers(jobs: int) -> Pool:
    """Processes. SIGTERM waits until a worker has a handler of its own: a signal that comes during the fork would be lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        return multiprocessing.get_context("fork").Pool(jobs, initializer=_dies_at_once)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _dies_at_once() -> None:
    """A worker ends at once on SIGTERM, and ignores SIGINT, which its parent handles."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _traced(one: Play, seeds: Iterable[int], asked: Asked) -> Iterator[Outcome]:
    for seed in _until(asked, seeds):
        click.echo(f"seed {seed}")
        yield one(seed, click.echo)


def _until(asked: Asked, seeds: Iterable[int]) -> Iterator[int]:
    return itertools.takewhile(lambda _: not asked.to_end, seeds)


def _hush() -> None:
    """Switch the program's log off: refused calls are expected in histories."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    main()
