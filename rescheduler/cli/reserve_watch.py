"""``rescheduler reserve watch``: one line for each change, until the Reservations are held or finished."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_FAILED, CommandError
from rescheduler.cli.following import follow
from rescheduler.cli.options import parse_seconds
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.cli.reservation_lines import reservation_line
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reservations.lifecycle import FINISHED


def run(
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
