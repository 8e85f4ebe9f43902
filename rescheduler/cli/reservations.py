"""Reservations that exist: ``rescheduler reserve list``, ``watch`` and ``release``.

``watch`` prints one line for each change, until the Reservations are held or finished. ``release`` deletes nothing that a move or a
pod on its way depends on, unless it is told to.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_FAILED, CommandError
from rescheduler.cli.following import follow
from rescheduler.cli.options import parse_seconds
from rescheduler.cli.output import emit, emit_objects, is_document, is_text, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.model.counted import plural, verb
from rescheduler.model.names import ANNOTATION_MIGRATION
from rescheduler.model.own_objects import who_waits
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reports.reservation_words import (
    amounts,
    owner_text,
    reservation_line,
    span,
    status_message,
    until,
)
from rescheduler.reports.table import flat_table
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.visible import visible_line

NARROW: Final = ("NAME", "PHASE", "NODE", "FOR", "USED BY", "ENDS", "AGE")
WIDE: Final = (*NARROW, "ROOM", "ALLOCATED", "SAYS")


def list_reservations(
    *,
    names: tuple[str, ...],
    selector: str,
    every: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """List Reservations with phase, node, owners and the pods that use them; -o wide adds amounts and message."""
    rooms = reservation_client(cluster)
    found = rooms.named(names, selector)
    hidden = frozenset() if every or names else FINISHED
    chosen = [room for room in found if room.status.phase not in hidden]
    if hidden and len(chosen) < len(found):
        ended = len(found) - len(chosen)
        tell(f"{plural(ended, 'Reservation')} that {verb(ended, 'has', 'have')} ended: --all shows them, too")
    names_found = [room.name for room in chosen]
    emit_objects(
        output,
        "reservation.rescheduler.dev",
        names_found,
        map(rooms.raw, names_found),
        lambda: reservations_table(chosen, time.time(), wide=output == "wide") if chosen else "",
    )
    if is_text(output) and not chosen:
        tell("no Reservations")


def watch(
    *,
    names: tuple[str, ...],
    selector: str,
    until: str,
    timeout: str,
    cluster: NamedCluster,
) -> None:
    """Show every change of the named Reservations (default: all), one line each."""
    limit_s = parse_seconds("--timeout", timeout)
    rooms = reservation_client(cluster)
    if not rooms.named(names, selector):
        tell("no Reservations")
    found = follow(
        lambda: rooms.again(names) if names else rooms.select(selector),
        lambda found, _: _ended(found, until),
        ends_s=time.monotonic() + limit_s if limit_s else float("inf"),
        show=_Changes().show,
    )
    if not _ended(found, until):
        raise CommandError(f"the Reservations are not all {until} after {timeout}")
    if any(room.status.phase is ReservationPhase.FAILED for room in found):
        raise SystemExit(EXIT_FAILED)


class _Changes:
    """Prints the lines that differ from those shown before; a released Reservation is printed once."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, rooms: Sequence[Reservation]) -> None:
        """What has changed since the last call."""
        lines = {room.name: reservation_line(room) for room in rooms}
        changed = [text for name, text in lines.items() if self._shown.get(name) != text]
        gone = [f"{name}: released" for name in sorted(self._shown.keys() - lines.keys())]
        self._shown = lines
        emit("".join(f"{text}\n" for text in (*changed, *gone)))


def _ended(rooms: Sequence[Reservation], until: str) -> bool:
    if until == "forever":
        return False
    good = FINISHED if until == "finished" else FINISHED | {ReservationPhase.AVAILABLE}
    return all(room.status.phase in good for room in rooms)


def release(
    *,
    names: tuple[str, ...],
    selector: str,
    force: bool,
    dry_run: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Delete Reservations, by name or by label."""
    if bool(names) == bool(selector):
        raise click.UsageError("name Reservations, or give a label query with -l")
    rooms = reservation_client(cluster)
    chosen = rooms.named(names, selector)
    kept = [(r, why) for r in chosen if (why := _needed(r)) and not force]
    given = {r.name: r.uid for r in chosen if force or not _needed(r)}
    bodies = {name: rooms.raw(name) for name in given} if is_document(output) else {}
    left = {} if dry_run else rooms.release(given)
    gone = [name for name in given if name not in left]
    done = "would be released" if dry_run else "released"
    emit_objects(
        output,
        "reservation.rescheduler.dev",
        gone,
        (bodies[name] for name in gone),
        lambda: "".join(f"{name} {done}\n" for name in gone),
    )
    problems = [f"{name}: {why}" for name, why in left.items()]
    problems += [f"{room.name}: {why} (use --force to release it anyway)" for room, why in kept]
    if problems:
        raise CommandError("; ".join(problems))
    if not chosen:
        tell("no Reservations")


def _needed(room: Reservation) -> str:
    if room.status.phase in FINISHED:
        return ""
    migration = room.annotations.get(ANNOTATION_MIGRATION)
    if migration:
        return f"it belongs to PodMigration {migration}"
    if room.status.current_owners and room.allocate_once:
        owner = room.status.current_owners[0]
        return f"pod {owner.namespace}/{owner.name} is being scheduled to it"
    return ""


def reservations_table(rooms: Sequence[Reservation], now_s: float, *, wide: bool) -> str:
    """A table, and a line for each pod that its Reservation keeps out; ``now_s``: epoch seconds."""
    rows = [row(room, now_s, wide=wide) for room in rooms]
    waiting = ((room.name, who_waits(room.status.conditions)) for room in rooms)
    lines = "".join(f"{visible_line(f'{name}: {waits}')}\n" for name, waits in waiting if waits)
    return flat_table(WIDE if wide else NARROW, rows) + lines


def row(room: Reservation, now_s: float, *, wide: bool) -> tuple[str, ...]:
    """One Reservation."""
    status = room.status
    narrow = (
        room.name,
        str(status.phase),
        status.node_name or room.template_node or "-",
        ", ".join(owner_text(owner) for owner in room.owners) or "-",
        ", ".join(f"{o.namespace}/{o.name}" for o in status.current_owners) or "-",
        until(room, now_s),
        span(now_s - room.created_at_s),
    )
    if not wide:
        return narrow
    asked = room.template.requests if room.template is not None else status.allocatable
    return (*narrow, amounts(asked), amounts(status.allocated), status_message(room))
