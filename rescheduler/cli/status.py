"""``rescheduler status``: is the controller there, what does it do, what is badly placed, what blocks it."""

from __future__ import annotations

import shutil
import sys
import time

import click

from rescheduler.cli.clients import NamedCluster, cluster_options
from rescheduler.cli.errors import EXIT_FAILED
from rescheduler.cli.options import controller_namespace_option
from rescheduler.cli.output import emit
from rescheduler.cli.status_gathering import Gathering
from rescheduler.cli.status_report import status_text
from rescheduler.reports.structured import pretty_json

_NOT_RUNNING = ("Stopped", "Absent")


@click.command("status")
@click.option("-w", "--watch", is_flag=True, help="Show it again and again, until interrupted.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch.",
)
@click.option(
    "--plan/--no-plan",
    "planned",
    default=True,
    help="Whether to say what is badly placed and what is blocked, for which the whole cluster is read.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@controller_namespace_option
@cluster_options
def status_command(
    *,
    watch: bool,
    every: float,
    planned: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Show the controller, the gate, moves under way with what each waits for, and what is badly placed or blocked.

    Exit codes: 0 a controller leads or it is not known, 1 none is running.
    """
    gathering = Gathering(cluster=cluster, api=cluster.api(), badly_placed=planned)
    while True:
        report = gathering.report()
        width = shutil.get_terminal_size((100, 40)).columns
        text = pretty_json(report) if output == "json" else status_text(report, width)
        if watch and output == "text" and sys.stdout.isatty():
            click.clear()
        emit(text)
        if not watch:
            break
        time.sleep(every)
    if report.controller.presence in _NOT_RUNNING:
        raise SystemExit(EXIT_FAILED)
