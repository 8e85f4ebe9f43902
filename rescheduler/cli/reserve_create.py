"""``rescheduler reserve create``: rooms for a workload's next pods, for pods by selector, or from a file."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_FAILED, EXIT_USAGE, CommandError, reports_errors
from rescheduler.cli.options import cluster_options
from rescheduler.cli.output import emit
from rescheduler.cli.reserve_documents import json_list, read_reservations, yaml_list
from rescheduler.cli.reserve_options import (
    PATIENCE_S,
    api_for_people,
    namespace_option,
    parse_seconds,
    timeout_option,
)
from rescheduler.cli.reserve_orders import Wishes, order_of
from rescheduler.cli.reserve_view import line
from rescheduler.cli.rooms import Rooms, manifests, untouched
from rescheduler.cli.status_line import StatusLine
from rescheduler.cli.waiting import NOBODY_ACTS_S, wait_for
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode import Decoder
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reservations.lifecycle import FINISHED

_PAUSE_S = 0.3
_HELD = FINISHED | {ReservationPhase.AVAILABLE}

Json = dict[str, Any]


@click.command("create", short_help="Hold room.")
@click.argument("workload", required=False, metavar="[deployment/NAME|statefulset/NAME]")
@click.option("-f", "--filename", metavar="FILE", help="Reservations in YAML or JSON; - is standard input.")
@namespace_option
@click.option("--count", type=click.IntRange(1, 1000), help="How many rooms; default 1.")
@click.option("--replicas", type=click.IntRange(1), help="Rooms for a scale to that many replicas.")
@click.option("--name", default="", metavar="NAME", help="Beginning of the Reservations' names.")
@click.option("--cpu", default="", metavar="AMOUNT", help="CPU of one room, such as 500m or 2.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory of one room, such as 512Mi or 4Gi.")
@click.option("--request", "requests", multiple=True, metavar="NAME=AMOUNT", help="Any other resource.")
@click.option(
    "--owner-selector", default="", metavar="LABELS", help="Pods with these labels: app=web,tier=front."
)
@click.option("--owner-pod", default="", metavar="NAME", help="The pod of this name in the namespace.")
@click.option("--node", default="", metavar="NAME", help="The one node to hold the room on.")
@click.option(
    "--ttl", default="", metavar="DURATION", help="Time to live; 0s: never ends. Default: configured."
)
@click.option("--expires", default="", metavar="TIME", help="The moment at which it ends, RFC 3339.")
@click.option("--pre-allocation", is_flag=True, help="Promise room that is not free yet.")
@click.option(
    "--several", is_flag=True, help="Hand out parts to several pods instead of ending with the first."
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until all are held.")
@timeout_option("1m", "Limit of waiting; the Reservations stay.")
@click.option("--dry-run", is_flag=True, help="The server checks them; nothing is stored.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True
)
@cluster_options
@reports_errors
def create_command(
    *,
    workload: str | None,
    filename: str | None,
    wait: bool,
    timeout: str,
    dry_run: bool,
    output: str,
    kubeconfig: str | None,
    context: str | None,
    **wishes: Any,
) -> None:
    """Hold room for the next pods of a workload, for pods by selector or name, or as a file says.

    Examples: reserve create deployment/web -n shop --replicas 20;
    reserve create --name batch --cpu 4 --memory 8Gi --owner-selector app=batch -n jobs --ttl 1h;
    reserve create -f rooms.yaml.

    Exit codes: 0 all held (or, with --no-wait, all created), 1 one has failed, 3 some still wait.
    """
    limit_s = parse_seconds("--timeout", timeout)
    api = api_for_people(kubeconfig, context)
    wanted = _wanted(api, workload, filename, Wishes(**wishes))
    rooms = Rooms(api, Decoder(), PATIENCE_S)
    if dry_run:
        _say([rooms.rehearse(body) for body in wanted], output, "would be created")
        return
    rooms.create(wanted)
    names = [str(body["metadata"]["name"]) for body in wanted]
    found = _waited(rooms, names, limit_s) if wait else ()
    if output != "text" or not wait:
        _say([rooms.raw(name) for name in names], output, "created")
    else:
        emit("".join(f"{line(room)}\n" for room in found))
    _end(found, names, wait=wait)


def _wanted(api: KubeApi, workload: str | None, filename: str | None, wishes: Wishes) -> list[Json]:
    if filename is None:
        return manifests(order_of(api, workload, wishes, secrets.token_hex(4)))
    if workload is not None or wishes.given:
        message = f"-f: the file says everything; leave out {workload or wishes.given}"
        raise CommandError(message, EXIT_USAGE)
    return read_reservations(filename)


def _waited(rooms: Rooms, names: Sequence[str], limit_s: float) -> tuple[Reservation, ...]:
    began_s = time.monotonic()

    def look() -> tuple[Reservation, ...]:
        return tuple(room for room in rooms.select({}) if room.name in names)

    def done(found: tuple[Reservation, ...], answered_s: float) -> bool:
        if all(room.status.phase in _HELD for room in found):
            return True
        return all(map(untouched, found)) and answered_s >= NOBODY_ACTS_S

    with StatusLine() as status:

        def show(found: tuple[Reservation, ...]) -> None:
            held = sum(room.status.phase is ReservationPhase.AVAILABLE for room in found)
            waiting = next((line(room) for room in found if room.status.phase not in _HELD), "")
            status.show(f"{held} of {len(names)} held; {waiting}")

        return wait_for(
            look,
            done,
            ends_s=began_s + limit_s,
            clock=time.monotonic,
            pause=lambda: time.sleep(_PAUSE_S),
            show=show,
        )


def _say(bodies: Sequence[bytes], output: str, word: str) -> None:
    if output == "text":
        listed = [msgspec.json.decode(body)["metadata"]["name"] for body in bodies]
        emit("".join(f"reservation.rescheduler.dev/{name} {word}\n" for name in listed))
    else:
        emit(json_list(bodies) if output == "json" else yaml_list(bodies))


def _end(found: Sequence[Reservation], names: Sequence[str], *, wait: bool) -> None:
    if not wait:
        return
    if found and all(map(untouched, found)):
        raise CommandError(
            "nobody acts on the Reservations: is the controller running (rescheduler run)? They stay until released"
        )
    failed = [room.name for room in found if room.status.phase is ReservationPhase.FAILED]
    gone = sorted(set(names) - {room.name for room in found})
    if failed or gone:
        raise SystemExit(EXIT_FAILED)
    if any(room.status.phase not in _HELD for room in found):
        raise SystemExit(EXIT_BLOCKED)
