"""``rescheduler reserve release``: delete Reservations."""

from __future__ import annotations

import click

from rescheduler.cli.clients import NamedCluster, cluster_options
from rescheduler.cli.errors import CommandError
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.output import emit, tell
from rescheduler.cli.reservation_client import reservation_client
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_MIGRATION
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.lifecycle import FINISHED


@click.command("release")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@click.option("-l", "--selector", default="", metavar="LABELS", help="All Reservations with these labels.")
@click.option(
    "--force",
    is_flag=True,
    help="Also Reservations that a move, or a pod that is being scheduled, depends on.",
)
@cluster_options
def release_command(*, names: tuple[str, ...], selector: str, force: bool, cluster: NamedCluster) -> None:
    """Delete Reservations, by name or by label.

    Without --force a Reservation is kept if it belongs to a move, or if its pod is being scheduled to it.
    """
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
