"""``rescheduler reserve watch``: one line for each change, until the Reservations are held or finished."""

from __future__ import annotations

import time

import click

from rescheduler.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.options import cluster_options, parse_seconds
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import ReservationClient
from rescheduler.cli.reserve.options import api_client
from rescheduler.cli.reserve.printing import reservation_line
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reservations.lifecycle import FINISHED

_PAUSE_S = 0.5


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
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show every change of the named Reservations (default: all), one line each.

    Exits with 1 if one has Failed, or if --timeout is over.
    """
    limit_s = parse_seconds("--timeout", timeout)
    rooms = ReservationClient(api_client(kubeconfig, context), Decoder())
    query = {"labelSelector": selector} if selector else {}
    ends_s = time.monotonic() + limit_s if limit_s else float("inf")
    shown: dict[str, str] = {}
    known: dict[str, Reservation] = {}
    first = True
    while True:
        found = {r.name: r for r in rooms.select(query) if not names or r.name in names}
        missing = sorted(set(names) - set(found) - set(known))
        if first and missing:
            raise CommandError(f"there is no Reservation {', '.join(missing)}", EXIT_USAGE)
        if first and not found:
            tell("no Reservations")
        first = False
        _print_changes(found, known, shown)
        known.update(found)
        if _ended(list(found.values()), until):
            break
        if time.monotonic() >= ends_s:
            raise CommandError(f"the Reservations are not all {until} after {timeout}")
        time.sleep(_PAUSE_S)
    if any(r.status.phase is ReservationPhase.FAILED for r in found.values()):
        raise SystemExit(EXIT_FAILED)


def _print_changes(
    found: dict[str, Reservation], known: dict[str, Reservation], shown: dict[str, str]
) -> None:
    """Print the lines that differ from those shown before; a released Reservation is printed once."""
    for name in sorted(found):
        text = reservation_line(found[name])
        if shown.get(name) != text:
            shown[name] = text
            emit(f"{text}\n")
    for name in sorted(set(known) - set(found)):
        del known[name]
        shown.pop(name, None)
        emit(f"{name}: released\n")


def _ended(rooms: list[Reservation], until: str) -> bool:
    if until == "forever":
        return False
    good = FINISHED if until == "finished" else FINISHED | {ReservationPhase.AVAILABLE}
    return all(r.status.phase in good for r in rooms)
