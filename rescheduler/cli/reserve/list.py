"""``rescheduler reserve list``."""

from __future__ import annotations

import time

import click

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.options import cluster_options
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import ReservationClient
from rescheduler.cli.reserve.options import api_client
from rescheduler.cli.reserve.printing import json_list, reservations_table, yaml_list
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind


@click.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@click.option("-l", "--selector", default="", metavar="LABELS", help="Label query, as kubectl takes it.")
@click.option("-o", "--output", type=click.Choice(["text", "wide", "name", "json", "yaml"]), default="text")
@cluster_options
def list_command(
    *, names: tuple[str, ...], selector: str, output: str, kubeconfig: str | None, context: str | None
) -> None:
    """List Reservations with phase, node, owners and the pods that use them; -o wide adds amounts and message."""
    api = api_client(kubeconfig, context)
    rooms = ReservationClient(api, Decoder())
    query = {"labelSelector": selector} if selector else {}
    found = rooms.select(query)
    missing = sorted(set(names) - {r.name for r in found})
    if missing:
        raise CommandError(f"there is no Reservation {', '.join(missing)}", EXIT_USAGE)
    chosen = [r for r in found if not names or r.name in names]
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
    emit(json_list(bodies) if output == "json" else yaml_list(bodies))
