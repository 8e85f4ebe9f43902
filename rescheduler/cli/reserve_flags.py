"""The flags of ``reserve create``, and the Reservations that they describe. Contradictions are errors."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import msgspec

from rescheduler.cli.clients import select
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.label_query import label_query
from rescheduler.cli.options import parse_pairs, parse_seconds
from rescheduler.cli.reservation_client import Json, manifests, room_template, stem_of
from rescheduler.cli.reserve_checks import object_name
from rescheduler.cli.workload import WorkloadName, parse_workload, read_workload
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ForbiddenError
from rescheduler.model.bounds import MOST_TTL
from rescheduler.model.counted import plural
from rescheduler.model.kinds import Kind
from rescheduler.model.reservation import ControllerRef, ObjectRef, Reservation, ReservationOwner
from rescheduler.model.resources import QuantityError, nano, parse_amounts
from rescheduler.model.selectors import LabelSelector
from rescheduler.model.times import parse_duration
from rescheduler.reservations.reservation_lifecycle import FINISHED

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFlags:
    """The flags of ``reserve create`` that describe Reservations. None or an empty value: not given."""

    namespace: str
    count: int | None = None
    replicas: int | None = None
    name: str = ""
    cpu: str = ""
    memory: str = ""
    request: tuple[str, ...] = ()
    owner_selector: str = ""
    node: str = ""
    ttl: str = ""
    pre_allocation: bool = False
    make_room: bool = False
    several: bool = False

    @property
    def given(self) -> str:
        """The first given flag, which contradicts a file; empty if there is none."""
        given = (one.name for one in fields(self) if one.name != "namespace" and getattr(self, one.name))
        flag = next(given, "")
        return f"--{flag.replace('_', '-')}" if flag else ""


def rooms_from_flags(api: KubeApi, workload: str | None, given: CreateFlags, group: str) -> list[Json]:
    """The Reservations that the flags describe, ready to be created; a workload is read from the API server.

    Raises:
        CommandError: the flags contradict each other, or a flag is missing.
        ApiError, TransportError: the workload cannot be read.
    """
    ttl_s = parse_seconds("--ttl", given.ttl) if given.ttl else None
    if ttl_s is not None and ttl_s > parse_duration(MOST_TTL):
        raise CommandError(f"--ttl {given.ttl}: at most {MOST_TTL}; 0s never expires", EXIT_USAGE)
    base, template, owner, count = (
        _of_workload(api, workload, given) if workload is not None else _of_flags(given)
    )
    room = Reservation(
        name=object_name("--name", given.name) if given.name else stem_of(base, group),
        template_raw=room_template(template, given.namespace, given.node),
        owners=(owner,),
        ttl_s=ttl_s,
        pre_allocation=given.pre_allocation,
        make_room=given.make_room,
        allocate_once=not given.several,
    )
    return manifests(room, count, group)


def _of_workload(api: KubeApi, text: str, given: CreateFlags) -> tuple[str, bytes, ReservationOwner, int]:
    if given.cpu or given.memory or given.request or given.owner_selector:
        message = f"{text} determines which pods may use the room and its size: remove the other flags"
        raise CommandError(message, EXIT_USAGE)
    if given.count is not None and given.replicas is not None:
        raise CommandError("--count and --replicas exclude each other", EXIT_USAGE)
    found = read_workload(api, parse_workload(text, given.namespace))
    if found.unsettled:
        raise CommandError(f"{found.unsettled}; reserve again when it has finished")
    count = given.count or 1
    if given.replicas is not None:
        count = given.replicas - found.replicas
        if count <= 0:
            message = f"{found.name} has {plural(found.replicas, 'replica')} already: --replicas {given.replicas} adds none"
            raise CommandError(message, EXIT_USAGE)
        count = max(0, count - len(rooms_of_workload(api, found.name)))
    # By name, without a uid: so the room is also for the pods of the next rollout, or of a workload that is created again.
    owner = ControllerRef(
        api_version="apps/v1", kind=found.name.api_kind, name=found.name.name, namespace=given.namespace
    )
    return found.name.name, found.template, ReservationOwner(controller=owner), count


def rooms_of_workload(api: KubeApi, name: WorkloadName) -> list[Reservation]:
    """Reservations of earlier commands that wait for pods of the workload, by its name; none if they may not be read."""
    try:
        rooms = select(api, Kind.RESERVATION, Reservation)
    except ForbiddenError:
        return []
    wanted = (name.api_kind, name.name, name.namespace)

    def fits(room: Reservation) -> bool:
        owners = [one.controller for one in room.owners if one.controller is not None]
        return any((one.kind, one.name, one.namespace) == wanted for one in owners)

    return [r for r in rooms if r.status.phase not in FINISHED and not r.status.current_owners and fits(r)]


def _of_flags(given: CreateFlags) -> tuple[str, bytes, ReservationOwner, int]:
    if given.replicas is not None:
        raise CommandError("--replicas needs deployment/NAME or statefulset/NAME", EXIT_USAGE)
    requests = _requests(given)
    if not requests:
        message = "nothing to hold: give deployment/NAME, or --cpu, --memory or --request, or -f FILE"
        raise CommandError(message, EXIT_USAGE)
    if not given.owner_selector:
        message = "no pods may use the room: give --owner-selector"
        raise CommandError(message, EXIT_USAGE)
    resources = {"requests": requests}
    # The API server takes no pod without such limits.
    limits = {name: amount for name, amount in requests.items() if name not in _STANDARD}
    if limits:
        resources["limits"] = limits
    container = {"name": "room", "image": "room", "resources": resources}
    owner = ReservationOwner(
        object=ObjectRef(namespace=given.namespace), label_selector=_selector(given.owner_selector)
    )
    template = msgspec.json.encode({"metadata": {}, "spec": {"containers": [container]}})
    return "room", template, owner, given.count or 1


def _requests(given: CreateFlags) -> dict[str, str]:
    found = {name: text for name, text in (("cpu", given.cpu), ("memory", given.memory)) if text}
    for text in given.request:
        name, equals, amount = text.partition("=")
        if not (name and equals and amount):
            raise CommandError(f"--request: {text!r} is not NAME=AMOUNT", EXIT_USAGE)
        if not ("/" in name or name in _STANDARD or name.startswith("hugepages-")):
            message = f"--request: {name!r} is no resource; other ones than {', '.join(_STANDARD)} have a domain, as nvidia.com/gpu"
            raise CommandError(message, EXIT_USAGE)
        if name in found:
            raise CommandError(f"--request: {name} is given twice", EXIT_USAGE)
        found[name] = amount
    try:
        amounts = parse_amounts(found)
    except QuantityError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    if none := next((name for name, amount in amounts.items() if amount <= 0), ""):
        raise CommandError(f"{none}: {found[none]} holds nothing; give more, or leave {none} out", EXIT_USAGE)
    odd = next((name for name, amount in amounts.items() if name not in _STANDARD and amount % nano(1)), "")
    if odd:
        raise CommandError(f"--request: {odd}={found[odd]}: only a whole number can be held", EXIT_USAGE)
    return found


def _selector(text: str) -> LabelSelector:
    pairs = parse_pairs("--owner-selector", text, " (in a file, -f, any selector is possible)")
    return LabelSelector(
        tuple(
            one
            for key, value in pairs
            for one in label_query("--owner-selector", f"{key}={value}").requirements
        )
    )
