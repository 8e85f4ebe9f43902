"""``rescheduler reserve list``."""

from __future__ import annotations

import time

import click

from rescheduler.cli.clients import NamedCluster, cluster_options
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.cli.reservation_lines import reservations_table
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.kinds import Kind
from rescheduler.reports.structured import objects_text


@click.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@click.option("-l", "--selector", default="", metavar="LABELS", help="Label query, as kubectl takes it.")
@click.option("-o", "--output", type=click.Choice(["text", "wide", "name", "json", "yaml"]), default="text")
@cluster_options
def list_command(*, names: tuple[str, ...], selector: str, output: str, cluster: NamedCluster) -> None:
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
