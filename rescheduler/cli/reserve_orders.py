"""What ``reserve create`` is asked for by flags, turned into an order for rooms; wrong wishes are told apart."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.reserve_options import parse_seconds
from rescheduler.cli.rooms import Order
from rescheduler.cli.workload import parse_workload, read_workload
from rescheduler.kube.client import KubeApi
from rescheduler.model.quantity import QuantityError
from rescheduler.model.reservation import ControllerRef, ObjectRef, ReservationOwner
from rescheduler.model.resource_lists import parse_amounts
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.model.timestamps import parse_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The flags of ``reserve create`` that say what to hold; "" and None are not given."""

    namespace: str
    count: int | None
    replicas: int | None
    name: str
    cpu: str
    memory: str
    requests: tuple[str, ...]
    owner_selector: str
    owner_pod: str
    node: str
    ttl: str
    expires: str
    pre_allocation: bool
    several: bool

    @property
    def given(self) -> str:
        """The first flag that contradicts a file, "" if there is none."""
        flags = {
            "--count": self.count,
            "--replicas": self.replicas,
            "--name": self.name,
            "--cpu": self.cpu,
            "--memory": self.memory,
            "--request": self.requests,
            "--owner-selector": self.owner_selector,
            "--owner-pod": self.owner_pod,
            "--node": self.node,
            "--ttl": self.ttl,
            "--expires": self.expires,
            "--pre-allocation": self.pre_allocation,
            "--several": self.several,
        }
        return next((flag for flag, value in flags.items() if value), "")


def order_of(api: KubeApi, workload: str | None, wishes: Wishes, group: str) -> Order:
    """The order that the flags describe; a workload is looked up.

    Raises:
        CommandError: flags that contradict each other or say nothing.
        ApiError, TransportError: the workload cannot be read.
    """
    if wishes.ttl and wishes.expires:
        raise CommandError("--ttl and --expires exclude each other", EXIT_USAGE)
    base, template, owner, count = (
        _of_workload(api, workload, wishes) if workload is not None else _of_flags(wishes)
    )
    return Order(
        base=wishes.name or base,
        group=group,
        count=count,
        template=template,
        namespace=wishes.namespace,
        owner=owner,
        ttl_s=parse_seconds("--ttl", wishes.ttl) if wishes.ttl else None,
        node=wishes.node,
        expires_at_s=_moment(wishes.expires) if wishes.expires else None,
        pre_allocation=wishes.pre_allocation,
        allocate_once=not wishes.several,
    )


def _of_workload(api: KubeApi, text: str, wishes: Wishes) -> tuple[str, bytes, ReservationOwner, int]:
    if wishes.cpu or wishes.memory or wishes.requests or wishes.owner_selector or wishes.owner_pod:
        message = f"{text} says who may use the room and how large it is: leave the other flags out"
        raise CommandError(message, EXIT_USAGE)
    if wishes.count is not None and wishes.replicas is not None:
        raise CommandError("--count and --replicas exclude each other", EXIT_USAGE)
    found = read_workload(api, parse_workload(text, wishes.namespace))
    if found.unsettled:
        raise CommandError(f"{found.unsettled}; reserve when it is through")
    count = wishes.count or 1
    if wishes.replicas is not None:
        count = wishes.replicas - found.replicas
        if count <= 0:
            message = f"{found.name} has {found.replicas} replicas: none is missing to {wishes.replicas}"
            raise CommandError(message, EXIT_USAGE)
    owner = ControllerRef(
        api_version=found.owner.api_version,
        kind=found.owner.kind,
        name=found.owner.name,
        uid=found.owner.uid,
        namespace=wishes.namespace,
    )
    return found.name.name, found.template, ReservationOwner(controller=owner), count


def _of_flags(wishes: Wishes) -> tuple[str, bytes, ReservationOwner, int]:
    if wishes.replicas is not None:
        raise CommandError("--replicas needs deployment/NAME or statefulset/NAME", EXIT_USAGE)
    requests = _requests(wishes)
    if not requests:
        message = "say what to hold: deployment/NAME, or --cpu, --memory or --request, or -f FILE"
        raise CommandError(message, EXIT_USAGE)
    if bool(wishes.owner_selector) == bool(wishes.owner_pod):
        message = "say who may use the room: --owner-selector or --owner-pod (one of them)"
        raise CommandError(message, EXIT_USAGE)
    container = {"name": "room", "image": "room", "resources": {"requests": requests}}
    if wishes.owner_pod:
        owner = ReservationOwner(object=ObjectRef(namespace=wishes.namespace, name=wishes.owner_pod))
    else:
        owner = ReservationOwner(
            object=ObjectRef(namespace=wishes.namespace), label_selector=_selector(wishes.owner_selector)
        )
    template = msgspec.json.encode({"metadata": {}, "spec": {"containers": [container]}})
    return "room", template, owner, wishes.count or 1


def _requests(wishes: Wishes) -> dict[str, str]:
    found = {name: text for name, text in (("cpu", wishes.cpu), ("memory", wishes.memory)) if text}
    for text in wishes.requests:
        name, equals, amount = text.partition("=")
        if not (name and equals and amount):
            raise CommandError(f"--request: {text!r} is not NAME=AMOUNT", EXIT_USAGE)
        found[name] = amount
    try:
        amounts = parse_amounts(found)
    except QuantityError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    if any(amount <= 0 for amount in amounts.values()):
        raise CommandError("an amount to hold must be larger than 0", EXIT_USAGE)
    return found


def _selector(text: str) -> LabelSelector:
    requirements = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        value = value.removeprefix("=")
        if not (key.strip() and equals):
            message = f"--owner-selector: {part!r} is not KEY=VALUE (a file, -f, takes any selector)"
            raise CommandError(message, EXIT_USAGE)
        requirements.append(Requirement(key.strip(), Operator.IN, (value.strip(),)))
    return LabelSelector(tuple(requirements))


def _moment(text: str) -> float:
    try:
        return parse_timestamp(text)
    except ValueError as error:
        message = f"--expires: {text!r} is not an RFC 3339 time; write it like 2026-11-21T10:00:00Z"
        raise CommandError(message, EXIT_USAGE) from error
