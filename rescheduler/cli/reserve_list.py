"""``rescheduler reserve list``."""

from __future__ import annotations

import time

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.cli.reservation_lines import reservations_table
from rescheduler.kube.errors import NotFoundError
from rescheduler.reports.structured import objects_text


def run(*, names: tuple[str, ...], selector: str, output: str, cluster: NamedCluster) -> None:
    """List Reservations with phase, node, owners and the pods that use them; -o wide adds amounts and message."""
    rooms = reservation_client(cluster)
    chosen = rooms.named(names, selector)
    if output == "name":
        emit("".join(f"reservation.rescheduler.dev/{room.name}\n" for room in chosen))
        return
    if output in ("text", "wide"):
        if not chosen:
            tell("no Reservations")
            return
        emit(reservations_table(chosen, time.time(), wide=output == "wide"))
        return
    bodies = []
    for room in chosen:
        try:
            bodies.append(rooms.raw(room.name))
        except NotFoundError:  # released since the list
            continue
    emit(objects_text(bodies, output))
