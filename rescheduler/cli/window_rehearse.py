"""``rescheduler reserve window rehearse``: what there would be if a window began now. Nothing is changed."""

from __future__ import annotations

import datetime as dt

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_USAGE, CommandError
from rescheduler.cli.output import emit
from rescheduler.cli.snapshot_input import read_input
from rescheduler.model.counted import plural
from rescheduler.model.resources import format_amount
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.times import format_seconds
from rescheduler.room_sets.node_forecast import Rehearsal, rehearse
from rescheduler.room_sets.schedule import ScheduleError, schedule_of
from rescheduler.room_sets.windows import gather_from_s, part_of, running
from rescheduler.visible import visible_line


def run(*, name: str, cluster: NamedCluster) -> None:
    """Say on which nodes a ReservationWindow would have room if it began now, and by when the rest is foreseen."""
    snapshot = read_input(cluster).snapshot
    window = snapshot.windows.get(name)
    if window is None:
        raise CommandError(f"there is no ReservationWindow {name}", EXIT_USAGE)
    try:
        schedule_of(window)
    except ScheduleError as error:
        raise CommandError(f"ReservationWindow {name}: {error}") from error
    template = window.template if window.template_raw else None
    if window.template_raw and template is None:
        raise CommandError(f"ReservationWindow {name}: spec.template cannot be read as a pod")
    room = template.requests if template is not None else part_of(window.resources, window.pods)
    now_s = snapshot.taken_at_s
    found = rehearse(snapshot, window, room, now_s)
    emit("".join(f"{visible_line(line)}\n" for line in (*_lines(found), _next(window, now_s))))
    if found.rest_by_s is None:
        raise SystemExit(EXIT_BLOCKED)


def _lines(found: Rehearsal) -> list[str]:
    held = sum(place.rooms for place in found.now)
    name = next((name for name, amount in found.room.items() if amount), "")
    amount = found.room.amount(name)
    words = {"cpu": "CPUs"}.get(name, name)
    sums = (
        f", {format_amount(name, amount * held)} of {format_amount(name, amount * found.wanted)} {words}"
        if name
        else ""
    )
    rest = ""
    if held < found.wanted:
        rest = (
            f", the rest by {format_seconds(found.rest_by_s)}"
            if found.rest_by_s is not None
            else f", {found.foreseen} of {found.wanted} rooms are foreseen; the rest is gathered from what becomes free"
        )
    where = [f"  {place.node}: {plural(place.rooms, 'room')}" for place in found.now]
    return [
        f"if it began now: {plural(len(found.now), 'node')}, {held} of {plural(found.wanted, 'room')}{sums}{rest}",
        *where,
    ]


def _next(window: ReservationWindow, now_s: float) -> str:
    coming, _ = running(window, now_s)
    if coming is None:
        return "no window will begin any more"
    zone = schedule_of(window).zone
    local = [dt.datetime.fromtimestamp(at_s, zone).strftime("%H:%M") for at_s in coming]
    which = "this window" if coming.start_s <= now_s else "the next window"
    return (
        f"{which}: {format_seconds(coming.start_s)} to {format_seconds(coming.end_s)} ({' to '.join(local)} {zone.key}), "
        f"gathered from {format_seconds(gather_from_s(window, coming))}"
    )
