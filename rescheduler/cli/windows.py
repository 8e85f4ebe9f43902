"""``rescheduler reserve window``: create a ReservationWindow from flags, list them, and say what there would be if one began now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from zoneinfo import available_timezones

import msgspec

from rescheduler.cli.by_name import chosen
from rescheduler.cli.clients import NamedCluster, allowed, installed, select
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_USAGE, CommandError
from rescheduler.cli.options import parse_seconds
from rescheduler.cli.output import emit, emit_objects, is_document, is_text, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.cli.reserve_checks import check_owners, need_room_maker, object_name
from rescheduler.cli.reserve_flags import CreateFlags, rooms_from_flags
from rescheduler.cli.snapshot_input import read_input
from rescheduler.kube.client import KubeApi
from rescheduler.model.counted import plural
from rescheduler.model.decode import Decoder
from rescheduler.model.decode.template_fault import template_fault
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import API_VERSION
from rescheduler.model.own_objects import condition
from rescheduler.model.resources import format_amount
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.schedule import LONGEST_WINDOW_S, ScheduleError, schedule_of
from rescheduler.model.times import format_duration, format_seconds
from rescheduler.reports.table import flat_table
from rescheduler.room_sets.node_forecast import Rehearsal, rehearse
from rescheduler.room_sets.windows import gather_from_s, part_of, running
from rescheduler.suggestions import did_you_mean
from rescheduler.visible import visible_line

_RESOURCE = "reservationwindow.rescheduler.dev"
_RIGHT = "ClusterRole rescheduler-reserver, docs/security.md"
_HEAD = ("NAME", "SCHEDULE", "ZONE", "PHASE", "START", "END", "GATHERED", "PLACED", "SAYS")


def create(
    *,
    name: str,
    workload: str | None,
    cron: str,
    duration: str,
    end: str,
    time_zone: str,
    ago: str,
    pods: int,
    in_sum: bool,
    dry_run: bool,
    namespace: str | None,
    output: str,
    cluster: NamedCluster,
    **flags: Any,
) -> None:
    """Hold room for pods at certain hours."""
    object_name("NAME", name)
    if duration and end:
        raise CommandError("--duration and --end exclude each other", EXIT_USAGE)
    if workload is not None and in_sum:
        raise CommandError(f"{workload} determines the size of each room: remove --sum", EXIT_USAGE)
    api = reservation_client(cluster).api
    given = CreateFlags(namespace=cluster.namespace(namespace), **flags)
    (room,) = rooms_from_flags(api, workload, given, "")
    template = room["spec"]["template"]
    given_spec = {
        "cron": cron,
        "duration": duration,
        "end": end,
        "timeZone": time_zone,
        "startReserveAgo": ago,
        "podNumToReserve": pods,
        "resources": template["spec"]["containers"][0]["resources"]["requests"] if in_sum else None,
        "template": None if in_sum else template,
        "owners": room["spec"]["owners"],
        "makeRoom": given.make_room,
    }
    spec = {key: value for key, value in given_spec.items() if value}
    body = {"apiVersion": API_VERSION, "kind": "ReservationWindow", "metadata": {"name": name}, "spec": spec}
    _check_schedule(body, parse_seconds("--ago", ago or "0s"))
    check_owners(api, [body])
    if given.make_room and not dry_run:
        need_room_maker(cluster, api)
    path = RESOURCES[Kind.RESERVATION_WINDOW].object_path("", "")
    with installed("reservationwindows"), allowed("create reservationwindows", _RIGHT):
        stored = api.create(path, msgspec.json.encode(body), dry_run=dry_run)
    text = f"{_RESOURCE}/{name} {'would be created' if dry_run else 'created'}\n"
    emit_objects(output, _RESOURCE, [name], [stored], lambda: text)


def _check_schedule(body: Mapping[str, Any], ago_s: float) -> None:
    """By the same rules as the controller, which would only call the object Invalid. Raises CommandError."""
    window = Decoder().record(Kind.RESERVATION_WINDOW, msgspec.json.encode({**body, "status": {}}))
    if not isinstance(window, ReservationWindow):
        return  # the API server says what is wrong with it
    try:
        period_s = schedule_of(window).check_apart()
    except ScheduleError as error:
        zone = window.time_zone
        near = did_you_mean(zone, available_timezones()) if zone and "timeZone" in str(error) else ""
        raise CommandError(f"{error}{near}", EXIT_USAGE) from error
    most_s = min(period_s, LONGEST_WINDOW_S)
    if ago_s > most_s:
        message = f"--ago {format_duration(ago_s)}: at most {format_duration(most_s)}, or it begins before the window that comes first"
        raise CommandError(message, EXIT_USAGE)


def _windows(api: KubeApi, names: Sequence[str]) -> list[ReservationWindow]:
    right = "ClusterRole rescheduler-viewer"
    found = {one.name: one for one in select(api, Kind.RESERVATION_WINDOW, ReservationWindow, right=right)}
    return chosen(found, sorted(names) or sorted(found), "ReservationWindow")


def delete(*, names: tuple[str, ...], dry_run: bool, output: str, cluster: NamedCluster) -> None:
    """Delete ReservationWindows; the controller releases the rooms that no pod uses."""
    api = reservation_client(cluster).api
    found = _windows(api, names)
    bodies = [api.get(_path(window)) for window in found] if is_document(output) else []
    for window in () if dry_run else found:
        with allowed("delete reservationwindows", _RIGHT):
            api.delete(_path(window), uid=window.uid)
    done = "would be deleted" if dry_run else "deleted"
    text = "".join(f"{_RESOURCE}/{window.name} {done}\n" for window in found)
    emit_objects(output, _RESOURCE, [window.name for window in found], bodies, lambda: text)


def _path(window: ReservationWindow) -> str:
    return RESOURCES[Kind.RESERVATION_WINDOW].object_path("", window.name)


def list_windows(*, names: tuple[str, ...], output: str, cluster: NamedCluster) -> None:
    """List ReservationWindows: the window that is gathered for or open, else the next one."""
    api = reservation_client(cluster).api
    windows = _windows(api, names)
    shown = [window.name for window in windows]
    bodies = (api.get(_path(window)) for window in windows)
    rows = [_row(window) for window in windows]
    table = partial(flat_table, _HEAD, rows) if rows else str
    emit_objects(output, _RESOURCE, shown, bodies, table)
    if is_text(output) and not windows:
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


def tell_rehearsal(*, name: str, cluster: NamedCluster) -> None:
    """Say on which nodes a ReservationWindow would have room if it began now, and by when the rest is foreseen."""
    snapshot = read_input(cluster).snapshot
    window = snapshot.windows.get(name)
    if window is None:
        raise CommandError(f"there is no reservationwindow/{name}", EXIT_USAGE)
    try:
        schedule_of(window)
    except ScheduleError as error:
        raise CommandError(f"ReservationWindow {name}: {error}") from error
    template = window.template if window.template_raw else None
    if window.template_raw and template is None:
        raise CommandError(f"ReservationWindow {name}: {template_fault(window.template_raw)}")
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
