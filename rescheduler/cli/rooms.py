"""Reservations as the commands handle them: made in groups, looked at, given back; no decisions of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from rescheduler.kube.transport import TransportError
from rescheduler.model.api_objects import reservation_manifest
from rescheduler.model.conditions import condition
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, LABEL_GROUP
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase
from rescheduler.reservations.naming import slug

COLLECTION: Final = RESOURCES[Kind.RESERVATION].collection_path

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is wanted: ``count`` rooms of one template for one owner.

    ``template``: PodTemplateSpec as JSON. ``ttl_s`` None: the configured default; 0.0: never expires.
    """

    base: str
    group: str
    count: int
    template: bytes
    namespace: str
    owner: ReservationOwner
    ttl_s: float | None = None
    node: str = ""
    expires_at_s: float | None = None
    pre_allocation: bool = False
    allocate_once: bool = True


def manifests(order: Order) -> list[Json]:
    """The Reservations of an order, ready to be created; their names sort in their order."""
    template = msgspec.json.decode(order.template, type=dict[str, Any])
    metadata = {**(template.get("metadata") or {}), "namespace": order.namespace}
    metadata.pop("creationTimestamp", None)
    template = {**template, "metadata": metadata}
    if order.node:
        template["spec"] = {**template["spec"], "nodeName": order.node}
    width = len(str(order.count))
    stem = f"{slug(order.base, 'room')}-{order.group}"
    names = [stem] if order.count == 1 else [f"{stem}-{i:0{width}}" for i in range(1, order.count + 1)]
    return [
        reservation_manifest(
            name,
            template=template,
            owners=(order.owner,),
            ttl_s=order.ttl_s,
            expires_at_s=order.expires_at_s,
            pre_allocation=order.pre_allocation,
            allocate_once=order.allocate_once,
            labels={LABEL_CREATED_BY: CREATED_BY, LABEL_GROUP: order.group},
        )
        for name in names
    ]


@dataclass(slots=True)
class Rooms:
    """The Reservations of an API server. Methods raise ApiError and TransportError unless they say otherwise."""

    api: KubeApi
    decoder: Decoder

    def create(self, wanted: Sequence[Mapping[str, Any]]) -> None:
        """Make all of them, or none: what was made goes again where one is refused."""
        made: list[str] = []
        try:
            for body in wanted:
                # A lost answer is asked again; a name with a random group in it can be nobody else's then.
                with contextlib.suppress(AlreadyExistsError) if _grouped(body) else contextlib.nullcontext():
                    self.api.create(COLLECTION, body)
                made.append(str(body["metadata"]["name"]))
        except BaseException:
            self.release(made)
            raise

    def rehearse(self, body: Mapping[str, Any]) -> bytes:
        """What the server would store."""
        return self.api.create(COLLECTION, body, dry_run=True)

    def group(self, group: str) -> tuple[Reservation, ...]:
        """The Reservations that were made together, by name."""
        return self.select({"labelSelector": f"{LABEL_GROUP}={group}"})

    def select(self, query: Mapping[str, str]) -> tuple[Reservation, ...]:
        """Reservations by a list query, by name; damaged ones are left out."""
        found = [
            record
            for body in self.api.list(COLLECTION, query)
            for record in self.decoder.page(Kind.RESERVATION, body).records
            if isinstance(record, Reservation)
        ]
        return tuple(sorted(found, key=lambda r: r.name))

    def raw(self, name: str) -> bytes:
        """One Reservation as JSON."""
        return self.api.get(RESOURCES[Kind.RESERVATION].object_path("", name))

    def release(self, names: Sequence[str]) -> list[str]:
        """Delete them; what could not be deleted, with the reason. Never raises."""
        problems: list[str] = []
        for name in names:
            try:
                self.api.delete(RESOURCES[Kind.RESERVATION].object_path("", name))
            except NotFoundError:
                continue
            except (ApiError, TransportError) as error:
                problems.append(f"{name}: {error}")
        return problems


def words(reservation: Reservation) -> str:
    """What a Reservation says of itself: the scheduler's own words while it is Pending."""
    status = reservation.status
    if not status.conditions:
        return "nobody has looked at it yet"
    for kind in (
        ("Scheduled", "Ready") if status.phase is ReservationPhase.PENDING else ("Ready", "Scheduled")
    ):
        said = condition(status.conditions, kind)
        if said is not None and (said.message or said.reason):
            return said.message or said.reason
    return str(status.phase)


def untouched(reservation: Reservation) -> bool:
    """True if no controller has written its status."""
    return not reservation.status.conditions and not reservation.status.observed_generation


def wait_for(
    look: Callable[[], tuple[Reservation, ...]],
    done: Callable[[tuple[Reservation, ...]], bool],
    *,
    ends_s: float,
    clock: Callable[[], float],
    pause: Callable[[], None],
    show: Callable[[tuple[Reservation, ...]], None],
) -> tuple[Reservation, ...]:
    """Look until ``done`` or until ``ends_s`` of ``clock``; the last look."""
    while True:
        found = look()
        show(found)
        if done(found) or clock() >= ends_s:
            return found
        pause()


def _grouped(body: Mapping[str, Any]) -> bool:
    return LABEL_GROUP in body["metadata"].get("labels", {})
