"""Where the new pods of a workload would go now, by our own scheduling rules; nothing is written."""

from __future__ import annotations

import msgspec

from rescheduler.cli.rooms import Order, manifests
from rescheduler.cli.workload import FoundWorkload
from rescheduler.controller.rules import RulesPlacement
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.reservation import ControllerRef, Reservation, ReservationOwner
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.target import Choice


def rehearse(snapshot: Snapshot, workload: FoundWorkload, count: int) -> list[Choice]:
    """A node, or the reason why there is none, for each of ``count`` new pods; each takes the room it gets."""
    order = Order(
        base=workload.name.name,
        group="rehearsal",
        count=count,
        template=workload.template,
        namespace=workload.name.namespace,
        owner=ReservationOwner(controller=ControllerRef(uid=workload.owner.uid)),
    )
    placement = RulesPlacement(namespace=DEFAULT_NAMESPACE)
    placement.begin(snapshot)
    decoder = Decoder()
    choices: list[Choice] = []
    for body in manifests(order):
        record = decoder.record(Kind.RESERVATION, msgspec.json.encode(body))
        if isinstance(record, Reservation):
            choices.append(placement.for_reservation(record))
    return choices
