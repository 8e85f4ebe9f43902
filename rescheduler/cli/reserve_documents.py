"""Reservations as documents: written for scripts, and read from the files that users give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.input_errors import SourceWarning
from rescheduler.cli.streams import opened
from rescheduler.cli.yaml_items import yaml_items
from rescheduler.model.names import API_VERSION

Json = dict[str, Any]


def json_list(bodies: Sequence[bytes]) -> str:
    """A List in JSON, as kubectl writes it."""
    return msgspec.json.format(msgspec.json.encode(_list(bodies)), indent=4).decode() + "\n"


def yaml_list(bodies: Sequence[bytes]) -> str:
    """A List in YAML."""
    return yaml.safe_dump(_list(bodies), sort_keys=False)


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


def _list(bodies: Sequence[bytes]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": [msgspec.json.decode(body) for body in bodies]}
