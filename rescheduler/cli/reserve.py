"""``rescheduler reserve``: its commands with their options. The work of each is in a module of its own, imported when it is called."""

from __future__ import annotations

import click

from rescheduler.cli.deferred import CommandGroup, command
from rescheduler.cli.options import (
    MOST_PODS,
    PathText,
    cluster_options,
    controller_namespace_option,
    flag,
    names_of,
    output_option,
    target_namespace_option,
    text,
    timeout_option,
)
from rescheduler.model.bounds import MOST_ROOMS
from rescheduler.model.kinds import Kind


@command("create", "rescheduler.cli.reserve_create:run", "Hold room.")
@click.argument("workload", required=False, metavar="[deployment/NAME|statefulset/NAME]")
@click.option(
    "-f",
    "--filename",
    type=PathText(),
    metavar="FILE",
    help="Reservations in YAML or JSON; - is standard input.",
)
@target_namespace_option
@click.option("--count", type=click.IntRange(1, 1000), help="How many rooms; default 1.")
@click.option(
    "--replicas",
    type=click.IntRange(1, MOST_PODS),
    help="As many rooms as a scale to that many replicas needs.",
)
@text("--name", metavar="NAME", help="Name of the Reservation; of several, each has its number behind it.")
@text("--cpu", metavar="AMOUNT", help="CPU of one room, such as 500m or 2.")
@text("--memory", metavar="AMOUNT", help="Memory of one room, such as 512Mi or 4Gi.")
@click.option("--request", multiple=True, metavar="NAME=AMOUNT", help="Any other resource.")
@text("--owner-selector", metavar="LABELS", help="Pods with these labels: app=web,tier=front.")
@text("--node", metavar="NAME", help="Hold the room on this node.")
@text("--ttl", metavar="DURATION", help="Time to live; 0s: never expires. Default: as configured.")
@flag("--pre-allocation", help="Preallocate room that is not free yet.")
@flag(
    "--make-room",
    help="Where it fits on no node, running pods step aside for it, each with a room of its own first.",
)
@flag("--several", help="Let several pods use parts of the room, not only the first pod.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until all rooms are held.")
@timeout_option("1m", "How long to wait; the Reservations are kept. With --make-room the default is 15m.")
@flag(
    "--dry-run",
    help="Only let the API server validate them, and say which pods would step aside; nothing is stored.",
)
@output_option()
@controller_namespace_option
@cluster_options
def create_command() -> None:
    """Hold room for the next pods of a workload, for pods by selector, or as in a file.

    Examples: reserve create deployment/web -n shop --replicas 20;
    reserve create --name batch --cpu 4 --memory 8Gi --owner-selector app=batch -n jobs --ttl 1h;
    reserve create -f rooms.yaml.

    Exit codes: 0 all rooms are held (with --no-wait: all are created), 1 one has failed, 3 some still wait.
    """


@command("list", "rescheduler.cli.reservations:list_reservations", "List Reservations.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@text("-l", "--selector", metavar="LABELS", help="Label query, as kubectl takes it.")
@flag("-a", "--all", "every", help="Also those that have ended.")
@output_option()
@cluster_options
def list_command() -> None:
    """List Reservations with phase, node, owners and the pods that use them; -o wide adds amounts and message.

    Those that have ended are left out, unless they are named or asked for with --all.
    """


@command("watch", "rescheduler.cli.reservations:watch", "Show every change of Reservations.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@text("-l", "--selector", metavar="LABELS", help="Label query, as kubectl takes it.")
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
def watch_command() -> None:
    """Show every change of the named Reservations (default: all), one line each.

    Exits with 1 if one has Failed, or if --timeout is over.
    """


@command("release", "rescheduler.cli.reservations:release", "Release reserved room.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION))
@text("-l", "--selector", metavar="LABELS", help="All Reservations with these labels.")
@flag("--force", help="Also Reservations that a move, or a pod that is being scheduled, depends on.")
@flag("--dry-run", help="Only say what would be released.")
@output_option()
@cluster_options
def release_command() -> None:
    """Delete Reservations, by name or by label.

    Without --force a Reservation is kept if it belongs to a move, or if its pod is being scheduled to it.
    """


@command("create", "rescheduler.cli.windows:create", "Hold room at certain hours.")
@click.argument("name")
@click.argument("workload", required=False, metavar="[deployment/NAME|statefulset/NAME]")
@click.option(
    "--cron", required=True, metavar="FIELDS", help='Starts: "0 3 * * *", or "0 3-4 * * *" from 3 to 4.'
)
@text("--duration", metavar="DURATION", help="How long it lasts, such as 1h.")
@text("--end", metavar="HH:MM", help="When it ends, instead of --duration.")
@text("--time-zone", metavar="ZONE", help="IANA name; default: Etc/UTC.")
@text("--ago", metavar="DURATION", help="How long before the start room is gathered.")
@click.option("--pods", required=True, type=click.IntRange(1, MOST_ROOMS), help="For how many pods.")
@text("--cpu", metavar="AMOUNT", help="CPU of one pod; with --sum of all of them.")
@text("--memory", metavar="AMOUNT", help="Memory of one pod; with --sum of all of them.")
@click.option("--request", multiple=True, metavar="NAME=AMOUNT", help="Any other resource.")
@flag("--sum", "in_sum", help="The amounts are the sum for all pods, of whatever sizes.")
@text("--owner-selector", metavar="LABELS", help="Pods with these labels: app=web.")
@flag("--make-room", help="For what is foreseen on no node running pods step aside.")
@flag("--dry-run", help="Only let the API server validate it; nothing is stored.")
@output_option()
@target_namespace_option
@controller_namespace_option
@cluster_options
def window_create_command() -> None:
    """Hold room for pods at certain hours.

    Examples: reserve window create nightly --cron "0 3 * * *" --duration 1h --ago 2h --pods 10 --cpu 3 --owner-selector app=report -n night;
    reserve window create peak deployment/web --cron "0 8 * * MON-FRI" --end 10:00 --time-zone Europe/Berlin --ago 1h --pods 20 -n shop.
    """


@command("list", "rescheduler.cli.windows:list_windows", "List ReservationWindows.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of(Kind.RESERVATION_WINDOW))
@output_option()
@cluster_options
def window_list_command() -> None:
    """List ReservationWindows: the window that is gathered for or open, else the next one."""


@command("delete", "rescheduler.cli.windows:delete", "Delete ReservationWindows.")
@click.argument("names", nargs=-1, required=True, shell_complete=names_of(Kind.RESERVATION_WINDOW))
@flag("--dry-run", help="Only say what would be deleted.")
@output_option()
@cluster_options
def window_delete_command() -> None:
    """Delete ReservationWindows; the controller releases the rooms that no pod uses."""


@command("rehearse", "rescheduler.cli.windows:tell_rehearsal", "What there would be if it began now.")
@click.argument("name", shell_complete=names_of(Kind.RESERVATION_WINDOW))
@cluster_options
def window_rehearse_command() -> None:
    """Say on which nodes a ReservationWindow would have room if it began now, and by when the rest is foreseen.

    Foreseen is what running pods have declared: activeDeadlineSeconds, or the annotation volcano.sh/maximum-runtime.
    Exit code 3: not all of it is foreseen.
    """


@click.group(
    "window",
    cls=CommandGroup,
    commands=[window_create_command, window_list_command, window_rehearse_command, window_delete_command],
    short_help="Room at certain hours.",
)
def window_group() -> None:
    """Room that is gathered and held in a window of time that recurs.

    The controller (rescheduler run) must be running: it makes the Reservations.
    """


@click.group(
    "reserve",
    cls=CommandGroup,
    commands=[create_command, list_command, watch_command, window_group, release_command],
    short_help="Create, list, watch and release Reservations.",
)
def reserve_group() -> None:
    """Hold room on nodes for pods that do not exist yet.

    The controller (rescheduler run) must be running: it processes Reservations.
    """
