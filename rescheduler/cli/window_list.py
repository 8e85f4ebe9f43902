"""``rescheduler reserve window list``."""

from __future__ import annotations

from rescheduler.cli.by_name import chosen
from rescheduler.cli.clients import NamedCluster, allowed, installed, listed
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.model.kinds import Kind
from rescheduler.model.own_objects import condition
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.times import format_seconds
from rescheduler.reports.table import flat_table

_HEAD = ("NAME", "SCHEDULE", "ZONE", "PHASE", "START", "END", "GATHERED", "PLACED", "SAYS")


def run(*, names: tuple[str, ...], cluster: NamedCluster) -> None:
    """List ReservationWindows: the window that is gathered for or open, else the next one."""
    api = reservation_client(cluster).api
    with (
        installed("reservationwindows"),
        allowed("list reservationwindows", "ClusterRole rescheduler-viewer"),
    ):
        found = {one.name: one for one in listed(api, Kind.RESERVATION_WINDOW, ReservationWindow)}
    windows = chosen(found, sorted(names) or sorted(found), "ReservationWindow")
    if windows:
        emit(flat_table(_HEAD, [_row(window) for window in windows]))
    else:
        tell("no ReservationWindows")


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
