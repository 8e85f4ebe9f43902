"""``rescheduler reserve window create``: a ReservationWindow from flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import available_timezones

import msgspec

from rescheduler.cli.clients import NamedCluster, allowed, installed
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.output import emit
from rescheduler.cli.owner_checks import check_owners
from rescheduler.cli.reservation_client import manifests, reservation_client
from rescheduler.cli.reserve_flags import CreateFlags, request_from_flags
from rescheduler.cli.stepping_aside import need_room_maker
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import API_VERSION
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.room_sets.schedule import ScheduleError, schedule_of
from rescheduler.suggestions import did_you_mean

_RIGHT = "ClusterRole rescheduler-reserver, docs/security.md"


def run(
    *,
    name: str,
    workload: str | None,
    cron: str,
    duration: str,
    end: str,
    time_zone: str,
    ago: str,
    pods: int,
    in_sum: bool,
    dry_run: bool,
    namespace: str | None,
    cluster: NamedCluster,
    **flags: Any,
) -> None:
    """Hold room for pods at certain hours."""
    if workload is not None and in_sum:
        raise CommandError(f"{workload} determines the size of each room: remove --sum", EXIT_USAGE)
    api = reservation_client(cluster).api
    given = CreateFlags(namespace=cluster.namespace(namespace), **flags)
    (room,) = manifests(request_from_flags(api, workload, given, ""))
    template = room["spec"]["template"]
    given_spec = {
        "cron": cron,
        "duration": duration,
        "end": end,
        "timeZone": time_zone,
        "startReserveAgo": ago,
        "podNumToReserve": pods,
        "resources": template["spec"]["containers"][0]["resources"]["requests"] if in_sum else None,
        "template": None if in_sum else template,
        "owners": room["spec"]["owners"],
        "makeRoom": given.make_room,
    }
    spec = {key: value for key, value in given_spec.items() if value}
    body = {"apiVersion": API_VERSION, "kind": "ReservationWindow", "metadata": {"name": name}, "spec": spec}
    _check_schedule(body)
    check_owners(api, [body])
    if given.make_room and not dry_run:
        need_room_maker(cluster, api)
    path = RESOURCES[Kind.RESERVATION_WINDOW].object_path("", "")
    with installed("reservationwindows"), allowed("create reservationwindows", _RIGHT):
        api.create(path, msgspec.json.encode(body), dry_run=dry_run)
    emit(f"reservationwindow.rescheduler.dev/{name} {'would be created' if dry_run else 'created'}\n")


def _check_schedule(body: Mapping[str, Any]) -> None:
    """By the same rules as the controller, which would only call the object Invalid. Raises CommandError."""
    window = Decoder().record(Kind.RESERVATION_WINDOW, msgspec.json.encode({**body, "status": {}}))
    if not isinstance(window, ReservationWindow):
        return  # the API server says what is wrong with it
    try:
        schedule_of(window)
    except ScheduleError as error:
        zone = window.time_zone
        near = did_you_mean(zone, available_timezones()) if zone and "timeZone" in str(error) else ""
        raise CommandError(f"{error}{near}", EXIT_USAGE) from error
