"""``rescheduler reserve window list``."""

from __future__ import annotations

import click

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.installed import allowed, installed
from rescheduler.cli.listing import listed
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.options import cluster_options
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reserve.options import api_client
from rescheduler.model.conditions import condition
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.times import format_seconds
from rescheduler.reports.table import table

_HEAD = ("NAME", "SCHEDULE", "ZONE", "PHASE", "START", "END", "GATHERED", "PLACED", "SAYS")


@click.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION_WINDOW))
@cluster_options
def list_command(*, names: tuple[str, ...], kubeconfig: str | None, context: str | None) -> None:
    """List ReservationWindows: the window that is gathered for or open, else the next one."""
    api = api_client(kubeconfig, context)
    with (
        installed("reservationwindows"),
        allowed("list reservationwindows", "ClusterRole rescheduler-viewer"),
    ):
        found = listed(api, Decoder(), Kind.RESERVATION_WINDOW, ReservationWindow)
    missing = sorted(set(names) - {window.name for window in found})
    if missing:
        raise CommandError(f"there is no ReservationWindow {', '.join(missing)}", EXIT_USAGE)
    chosen = [window for window in found if not names or window.name in names]
    if not chosen:
        tell("no ReservationWindows")
        return
    rows = [_row(window) for window in sorted(chosen, key=lambda w: w.name)]
    emit("\n".join(text.removeprefix("  ") for text in table(_HEAD, rows)) + "\n")


def _row(window: ReservationWindow) -> tuple[str, ...]:
    status = window.status
    told = condition(status.conditions, "Valid")
    if told is None or told.status == "True":
        told = condition(status.conditions, "Gathered")
    return (
        window.name,
        window.cron,
        window.time_zone or "Etc/UTC",
        str(status.phase or "-"),
        _at(status.start_s),
        _at(status.end_s),
        f"{status.gathered}/{status.wanted}",
        f"{len(status.placed_pods)}/{window.pods}",
        told.message if told is not None else "no controller has looked at it",
    )


def _at(at_s: float | None) -> str:
    return format_seconds(at_s) if at_s is not None else "-"
