"""``rescheduler reserve watch``: one line for each change, until the Reservations are held or finished."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from rescheduler.cli.clients import NamedCluster, cluster_options
from rescheduler.cli.errors import EXIT_FAILED, CommandError
from rescheduler.cli.following import follow
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.options import parse_seconds
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.cli.reservation_lines import reservation_line
from rescheduler.model.kinds import Kind
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reservations.lifecycle import FINISHED


@click.command("watch")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@click.option("-l", "--selector", default="", metavar="LABELS", help="Label query, as kubectl takes it.")
@click.option(
    "--until",
    type=click.Choice(["available", "finished", "forever"]),
    default="finished",
    show_default=True,
    help="When to stop: all are Available or finished, all are finished, or never.",
)
@click.option(
    "--timeout", default="0s", metavar="DURATION", help="Stop with an error after this time; 0s: never."
)
@cluster_options
def watch_command(
    *,
    names: tuple[str, ...],
    selector: str,
    until: str,
    timeout: str,
    cluster: NamedCluster,
) -> None:
    """Show every change of the named Reservations (default: all), one line each.

    Exits with 1 if one has Failed, or if --timeout is over.
    """
    limit_s = parse_seconds("--timeout", timeout)
    rooms = reservation_client(cluster)
    if not rooms.named(names, selector):
        tell("no Reservations")
    found = follow(
        lambda: [room for room in rooms.select(selector) if not names or room.name in names],
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
