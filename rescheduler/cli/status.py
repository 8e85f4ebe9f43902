"""``rescheduler status``: is the controller there, what does it do, what is badly placed, what blocks it."""

from __future__ import annotations

import sys
import time

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_FAILED
from rescheduler.cli.output import emit, terminal_width
from rescheduler.cli.status_gathering import Gathering
from rescheduler.reports.status_text import status_text
from rescheduler.reports.structured import pretty_json, pretty_yaml


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
        match output:
            case "json":
                text = pretty_json(report)
            case "yaml":
                text = pretty_yaml(report)
            case _:
                text = status_text(report, terminal_width())
        if watch and output == "text" and sys.stdout.isatty():
            click.clear()
        emit(text)
        if not watch:
            break
        time.sleep(every)
    if not report.controller.runs:
        raise SystemExit(EXIT_FAILED)
