"""Where the new pods of a workload would go now, by the scheduling rules of this project; nothing is written."""

from __future__ import annotations

import msgspec

from rescheduler.cli.reservation_client import ReservationRequest, manifests
from rescheduler.cli.workload import FoundWorkload
from rescheduler.coordination.placement import Placement
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.reservation import ControllerRef, Reservation, ReservationOwner
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.single_pod import Choice
from rescheduler.replacements.replacement import Replacements


def place_new_pods(snapshot: Snapshot, workload: FoundWorkload, count: int) -> list[Choice]:
    """A node, or the reason why there is none, for each of ``count`` new pods, one after the other."""
    request = ReservationRequest(
        base=workload.name.name,
        group="dry-run",
        count=count,
        template=workload.template,
        namespace=workload.name.namespace,
        owner=ReservationOwner(controller=ControllerRef(uid=workload.owner.uid)),
    )
    placement = Placement(namespace=DEFAULT_NAMESPACE)
    placement.begin(Replacements(snapshot))
    decoder = Decoder()
    choices: list[Choice] = []
    for body in manifests(request):
        record = decoder.record(Kind.RESERVATION, msgspec.json.encode(body))
        if isinstance(record, Reservation):
            choices.append(placement.for_reservation(record))
    return choices
