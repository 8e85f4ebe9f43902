"""``rescheduler reserve create``: Reservations for a workload's next pods, for pods by selector or name, or from a file."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from rescheduler.cli.clients import NamedCluster, cluster_options
from rescheduler.cli.dump_files import SourceWarning, opened
from rescheduler.cli.dump_yaml import yaml_items
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.following import follow
from rescheduler.cli.options import (
    controller_namespace_option,
    parse_seconds,
    target_namespace_option,
    timeout_option,
)
from rescheduler.cli.output import emit, tell
from rescheduler.cli.owner_checks import check_owners
from rescheduler.cli.progress import StatusLine
from rescheduler.cli.reservation_client import (
    NOT_PROCESSED_AFTER_S,
    ReservationClient,
    is_unobserved,
    manifests,
    reservation_client,
)
from rescheduler.cli.reservation_lines import reservation_line
from rescheduler.cli.reserve_flags import CreateFlags, request_from_flags
from rescheduler.cli.stepping_aside import need_room_maker, who_steps_aside
from rescheduler.cli.text_files import PathText
from rescheduler.kube.client import KubeApi
from rescheduler.model.names import API_VERSION
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reports.structured import objects_text
from rescheduler.reservations.lifecycle import FINISHED

_LONG = "15m"
"""As long as pods take to step aside, one after the other."""
_HELD = FINISHED | {ReservationPhase.AVAILABLE}

Json = dict[str, Any]


@click.command("create")
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
    "--replicas", type=click.IntRange(1), help="As many rooms as a scale to that many replicas needs."
)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="Name of the Reservation; of several, each has its number behind it.",
)
@click.option("--cpu", default="", metavar="AMOUNT", help="CPU of one room, such as 500m or 2.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory of one room, such as 512Mi or 4Gi.")
@click.option("--request", multiple=True, metavar="NAME=AMOUNT", help="Any other resource.")
@click.option(
    "--owner-selector", default="", metavar="LABELS", help="Pods with these labels: app=web,tier=front."
)
@click.option("--owner-pod", default="", metavar="NAME", help="The pod of this name in the namespace.")
@click.option("--node", default="", metavar="NAME", help="Hold the room on this node.")
@click.option(
    "--ttl", default="", metavar="DURATION", help="Time to live; 0s: never expires. Default: as configured."
)
@click.option("--expires", default="", metavar="TIME", help="Time at which it expires, RFC 3339.")
@click.option("--pre-allocation", is_flag=True, help="Preallocate room that is not free yet.")
@click.option(
    "--make-room",
    is_flag=True,
    help="Where it fits on no node, running pods step aside for it, each with a room of its own first.",
)
@click.option(
    "--several", is_flag=True, help="Let several pods use parts of the room, not only the first pod."
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until all rooms are held.")
@timeout_option("1m", "How long to wait; the Reservations are kept. With --make-room the default is 15m.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only let the API server validate them, and say which pods would step aside; nothing is stored.",
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True
)
@controller_namespace_option
@cluster_options
@click.pass_context
def create_command(
    ctx: click.Context,
    /,
    *,
    workload: str | None,
    filename: str | None,
    namespace: str | None,
    wait: bool,
    timeout: str,
    dry_run: bool,
    output: str,
    cluster: NamedCluster,
    **flags: Any,
) -> None:
    """Hold room for the next pods of a workload, for pods by selector or name, or as in a file.

    Examples: reserve create deployment/web -n shop --replicas 20;
    reserve create --name batch --cpu 4 --memory 8Gi --owner-selector app=batch -n jobs --ttl 1h;
    reserve create -f rooms.yaml.

    Exit codes: 0 all rooms are held (with --no-wait: all are created), 1 one has failed, 3 some still wait.
    """
    rooms = reservation_client(cluster)
    bodies = _manifests(
        rooms.api,
        workload,
        filename,
        CreateFlags(namespace=cluster.namespace(namespace), **flags),
    )
    check_owners(rooms.api, bodies)
    aside = any((body.get("spec") or {}).get("makeRoom") for body in bodies)
    by_default = ctx.get_parameter_source("timeout") is ParameterSource.DEFAULT
    limit_s = parse_seconds("--timeout", _LONG if aside and by_default else timeout)
    if dry_run:
        stored = [rooms.create_dry_run(body) for body in bodies]
        _say(stored, output, "would be created")
        if aside and output == "text":
            emit(who_steps_aside(cluster, rooms.api, stored))
        return
    if aside:
        need_room_maker(cluster, rooms.api)
    rooms.create(bodies)
    names = [str(body["metadata"]["name"]) for body in bodies]
    found = _waited(rooms, names, limit_s) if wait else ()
    if output != "text" or not wait:
        _say([rooms.raw(name) for name in names], output, "created")
    else:
        emit("".join(f"{reservation_line(room)}\n" for room in found))
    _end(found, names, wait=wait)


def _manifests(api: KubeApi, workload: str | None, filename: str | None, flags: CreateFlags) -> list[Json]:
    if filename is None:
        return manifests(request_from_flags(api, workload, flags, secrets.token_hex(4)))
    if workload is not None or flags.given:
        message = f"-f: the file contains the whole Reservations; remove {workload or flags.given}"
        raise CommandError(message, EXIT_USAGE)
    return read_reservations(filename)


def read_reservations(path: str) -> list[Json]:
    """The Reservations of a YAML or JSON file ("-": standard input).

    Raises:
        InputError: no such file, or no YAML.
        CommandError: something in it is no Reservation.
    """

    def refuse(warning: SourceWarning) -> None:
        raise CommandError(str(warning), EXIT_USAGE)

    found: list[Json] = []
    with opened(path, lambda _: None) as stream:
        for item in yaml_items(path, stream, refuse):
            if (item.type.api_version, item.type.kind) != (API_VERSION, "Reservation"):
                what = f"{item.type.kind or 'an object without kind'} ({item.type.api_version or 'no apiVersion'})"
                message = f"{path}:{item.line}: {what} is no Reservation of {API_VERSION}"
                raise CommandError(message, EXIT_USAGE)
            found.append(msgspec.json.decode(item.raw))
    if not found:
        raise CommandError(f"{path}: there is no Reservation in it", EXIT_USAGE)
    unnamed = [body for body in found if not (body.get("metadata") or {}).get("name")]
    if unnamed:
        raise CommandError(f"{path}: a Reservation needs metadata.name", EXIT_USAGE)
    return found


def _waited(rooms: ReservationClient, names: Sequence[str], limit_s: float) -> tuple[Reservation, ...]:
    began_s = time.monotonic()

    def look() -> tuple[Reservation, ...]:
        return tuple(room for room in rooms.select() if room.name in names)

    def done(found: tuple[Reservation, ...], answered_s: float) -> bool:
        if all(room.status.phase in _HELD for room in found):
            return True
        return all(map(is_unobserved, found)) and answered_s >= NOT_PROCESSED_AFTER_S

    with StatusLine() as status:
        told: set[str] = set()

        def show(found: tuple[Reservation, ...]) -> None:
            for room in found:
                line = reservation_line(room) if room.status.making_room is not None else ""
                if room.status.phase is ReservationPhase.WAITING and line and line not in told:
                    told.add(line)
                    status.clear()
                    tell(line)
            held = sum(room.status.phase is ReservationPhase.AVAILABLE for room in found)
            waiting = next((reservation_line(room) for room in found if room.status.phase not in _HELD), "")
            status.show(f"{held} of {len(names)} held; {waiting}")

        return follow(look, done, ends_s=began_s + limit_s, show=show)


def _say(bodies: Sequence[bytes], output: str, word: str) -> None:
    if output == "text":
        listed = [msgspec.json.decode(body)["metadata"]["name"] for body in bodies]
        emit("".join(f"reservation.rescheduler.dev/{name} {word}\n" for name in listed))
    else:
        emit(objects_text(bodies, output))


def _end(found: Sequence[Reservation], names: Sequence[str], *, wait: bool) -> None:
    if not wait:
        return
    if found and all(map(is_unobserved, found)):
        raise CommandError(
            "no controller has processed the Reservations: is the controller running (rescheduler run)? "
            "They are kept until you release them"
        )
    failed = [room.name for room in found if room.status.phase is ReservationPhase.FAILED]
    gone = sorted(set(names) - {room.name for room in found})
    if failed or gone:
        raise SystemExit(EXIT_FAILED)
    if any(room.status.phase not in _HELD for room in found):
        raise SystemExit(EXIT_BLOCKED)
