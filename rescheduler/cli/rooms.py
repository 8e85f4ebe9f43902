"""Reservations as the commands handle them: made in groups, looked at, given back; no decisions of the machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import TransportError
from rescheduler.model.api_objects import reservation_manifest
from rescheduler.model.conditions import condition
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, LABEL_GROUP
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase
from rescheduler.reservations.naming import slug

COLLECTION: Final = RESOURCES[Kind.RESERVATION].collection_path
_AT_ONCE: Final = 32
_LEAST_S: Final = 1.0

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
    """The Reservations of an API server. Methods raise ApiError and TransportError unless they say otherwise.

    ``patience_s``: how long giving back may take, however many there are.
    """

    api: KubeApi
    decoder: Decoder
    patience_s: float = 30.0

    def create(self, wanted: Sequence[Mapping[str, Any]]) -> None:
        """Make all of them, or none: what was made goes again where one is refused; the error's note says what is left."""
        made: dict[str, str] = {}
        group = ""
        try:
            for body in wanted:
                name, group = str(body["metadata"]["name"]), _group(body)
                if group:  # its answer may be lost, and the Reservation be there
                    made[name] = ""
                # A lost answer is asked again; a name with a random group in it can be nobody else's then.
                with contextlib.suppress(AlreadyExistsError) if group else contextlib.nullcontext():
                    made[name] = _uid(self.api.create(COLLECTION, body))
        except BaseException as error:
            left = self.release(made)
            if left:
                error.add_note(end_of_release(left, group))
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

    def release(self, uids: Mapping[str, str]) -> dict[str, str]:
        """Delete them all at once, within one limit of time; what may be left, with the reason. Never raises.

        ``uids``: by name; "" where nobody else can come by the name.
        """
        if not uids:
            return {}
        ends_s = time.monotonic() + self.patience_s

        def reason(item: tuple[str, str]) -> str:
            left_s = max(ends_s - time.monotonic(), _LEAST_S)
            api = KubeApi(self.api.transport, Retry(deadline_s=left_s), timeout_s=left_s)
            name, uid = item
            path = RESOURCES[Kind.RESERVATION].object_path("", name)
            try:
                api.delete(path, uid=uid, own_name=not uid)
            except (NotFoundError, ConflictError):  # a conflict: another one has the name now
                return ""
            except TransportError:
                return "no answer from the API server"
            except ApiError as error:
                return error.message or str(error.status)
            return ""

        with ThreadPoolExecutor(min(len(uids), _AT_ONCE)) as pool:
            reasons = list(pool.map(reason, uids.items()))
        return {name: why for name, why in zip(uids, reasons, strict=True) if why}


def end_of_release(left: Mapping[str, str], group: str = "") -> str:
    """What people must know once rooms, of a group or not, were given back: ``left`` could not be."""
    if not left:
        return "Everything was released."
    whys = ", ".join(sorted(set(left.values())))
    chosen = f"-l {LABEL_GROUP}={group}" if group else " ".join(left)
    return (
        f"Not released ({whys}): {', '.join(left)}. What is there of them holds room until it expires; "
        f"to remove it: rescheduler reserve release {chosen}"
    )


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


def _uid(body: bytes) -> str:
    return str(msgspec.json.decode(body)["metadata"].get("uid", ""))


def _group(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("labels", {}).get(LABEL_GROUP, ""))
