"""``rescheduler reserve release``: delete Reservations."""

from __future__ import annotations

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import CommandError
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.model.names import ANNOTATION_MIGRATION
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.lifecycle import FINISHED


def run(*, names: tuple[str, ...], selector: str, force: bool, cluster: NamedCluster) -> None:
    """Delete Reservations, by name or by label."""
    if bool(names) == bool(selector):
        raise click.UsageError("name Reservations, or give a label query with -l")
    rooms = reservation_client(cluster)
    chosen = rooms.named(names, selector)
    kept = [(r, why) for r in chosen if (why := _needed(r)) and not force]
    given = {r.name: r.uid for r in chosen if force or not _needed(r)}
    left = rooms.release(given)
    emit("".join(f"{name} released\n" for name in given if name not in left))
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
