"""``rescheduler reserve create``: Reservations for a workload's next pods, for pods by selector, or from a file."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.dump_files import SourceWarning, opened
from rescheduler.cli.dump_yaml import yaml_items
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.following import NO_CONTROLLER_AFTER_S, follow
from rescheduler.cli.options import time_limit
from rescheduler.cli.output import StatusLine, emit, emit_objects, is_text, tell
from rescheduler.cli.reservation_client import ReservationClient, group_of, reservation_client
from rescheduler.cli.reserve_checks import check_nodes, check_owners, need_room_maker, who_steps_aside
from rescheduler.cli.reserve_flags import CreateFlags, rooms_from_flags
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode import BadObject, Decoder
from rescheduler.model.decode.template_fault import field_fault
from rescheduler.model.kinds import Kind
from rescheduler.model.names import API_VERSION
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.reports.reservation_words import is_unobserved, reservation_line
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.validation import refusal

_LONG = "15m"
"""As long as pods take to step aside, one after the other."""
_HELD = FINISHED | {ReservationPhase.AVAILABLE}

Json = dict[str, Any]


def run(
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
    """Hold room for the next pods of a workload, for pods by selector, or as in a file."""
    rooms = reservation_client(cluster)
    bodies = _manifests(
        rooms.api,
        workload,
        filename,
        CreateFlags(namespace=cluster.namespace(namespace), **flags),
    )
    if not bodies:
        tell(f"{workload} has all of its rooms already")
        return
    check_owners(rooms.api, bodies)
    if filename is None:
        decoded = (Decoder().record(Kind.RESERVATION, msgspec.json.encode(body)) for body in bodies[:1])
        check_nodes(rooms.api, (one for one in decoded if isinstance(one, Reservation)))
    names = [str(body["metadata"]["name"]) for body in bodies]
    aside = any((body.get("spec") or {}).get("makeRoom") for body in bodies)
    by_default = click.get_current_context().get_parameter_source("timeout") is ParameterSource.DEFAULT
    limit_s = time_limit(_LONG if aside and by_default else timeout)
    if dry_run:
        stored = [rooms.create_dry_run(body) for body in bodies]
        _say(stored, names, output, "would be created")
        if aside and is_text(output):
            emit(who_steps_aside(cluster, rooms.api, stored))
        return
    if aside:
        need_room_maker(cluster, rooms.api)
    rooms.create(bodies)
    groups = {group_of(body) for body in bodies}
    group = groups.pop() if len(groups) == 1 else ""
    found = _waited(rooms, names, group, limit_s) if wait else ()
    if not is_text(output) or not wait:
        _say(map(rooms.raw, names), names, output, "created")
    else:
        emit("".join(f"{reservation_line(room)}\n" for room in found))
    _end(found, names, wait=wait)


def _manifests(api: KubeApi, workload: str | None, filename: str | None, flags: CreateFlags) -> list[Json]:
    if filename is None:
        return rooms_from_flags(api, workload, flags, secrets.token_hex(4))
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
    decoder = Decoder()
    with opened(path, lambda _: None) as stream:
        for item in yaml_items(path, stream, refuse):
            if (item.type.api_version, item.type.kind) != (API_VERSION, "Reservation"):
                what = f"{item.type.kind or 'an object without kind'} ({item.type.api_version or 'no apiVersion'})"
                message = f"{path}:{item.line}: {what} is no Reservation of {API_VERSION}"
                raise CommandError(message, EXIT_USAGE)
            body: Json = msgspec.json.decode(item.raw)
            if not (isinstance(body.get("metadata"), dict) and body["metadata"].get("name")):
                raise CommandError(f"{path}:{item.line}: a Reservation needs metadata.name", EXIT_USAGE)
            if wrong := _wrong(decoder, bytes(item.raw)):
                named = f"reservation/{body['metadata']['name']}"
                raise CommandError(f"{path}:{item.line}: {named}: {wrong}", EXIT_USAGE)
            found.append(body)
    if not found:
        raise CommandError(f"{path}: there is no Reservation in it", EXIT_USAGE)
    return found


def _wrong(decoder: Decoder, raw: bytes) -> str:
    """Why it could never be held, as the controller would tell; "" if it may be."""
    room = decoder.attempt(Kind.RESERVATION, raw)
    if isinstance(room, BadObject):
        return field_fault(room.error, "", "reservation")
    assert isinstance(room, Reservation)  # noqa: S101 - what the kind is decoded to
    found = refusal(room)
    if found is not None:
        return found.message
    past = room.expires_at_s is not None and room.expires_at_s <= time.time()
    return "spec.expires is past" if past else ""


def _waited(
    rooms: ReservationClient, names: Sequence[str], group: str, limit_s: float
) -> tuple[Reservation, ...]:
    began_s = time.monotonic()

    def done(found: tuple[Reservation, ...], answered_s: float) -> bool:
        if all(room.status.phase in _HELD for room in found):
            return True
        return all(map(is_unobserved, found)) and answered_s >= NO_CONTROLLER_AFTER_S

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

        return follow(lambda: rooms.again(names, group), done, ends_s=began_s + limit_s, show=show)


def _say(bodies: Iterable[bytes | None], names: Sequence[str], output: str, word: str) -> None:
    text = "".join(f"reservation.rescheduler.dev/{name} {word}\n" for name in names)
    emit_objects(output, "reservation.rescheduler.dev", names, bodies, lambda: text)


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
