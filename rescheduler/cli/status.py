"""``rescheduler status``: is the controller there, what does it do, what is badly placed, what blocks it."""

from __future__ import annotations

import sys
import time
from functools import partial

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_FAILED
from rescheduler.cli.output import emit_as, is_text, terminal_width
from rescheduler.cli.status_gathering import Gathering
from rescheduler.reports.status_text import status_text


def run(
    *,
    watch: bool,
    every: float,
    planned: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Show the controller, the gate, moves under way with what each waits for, and what is badly placed or blocked."""
    gathering = Gathering(cluster=cluster, api=cluster.api(), badly_placed=planned)
    while True:
        report = gathering.report()
        if watch and is_text(output) and sys.stdout.isatty():
            click.clear()
        text = partial(status_text, report, terminal_width() if output == "text" else None)
        emit_as(output, document=partial(lambda found: found, report), text=text, one_of_many=watch)
        if not watch:
            break
        time.sleep(every)
    if not report.controller.runs:
        raise SystemExit(EXIT_FAILED)
