"""Whether a node should be avoided by the pods that a room is for: PreferAvoidPods hints against their controllers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rescheduler.model.records import AvoidEntry, Node, OwnerRef
from rescheduler.model.reservation import ControllerRef, Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.owners import controller_matches


def avoided_by(reservation: Reservation, snapshot: Snapshot, node: Node) -> bool:
    """True if the node has a hint that has not ended against a controller that the Reservation is for, or one below it."""
    if not node.avoid:
        return False
    wanted = [
        owner.controller
        for owner in reservation.owners
        if owner.controller is not None and owner.controller != ControllerRef()
    ]
    return any(
        controller_matches(controller, entry.namespace, ref)
        for entry in node.avoid
        if entry.expires_at_s > snapshot.taken_at_s
        for ref in _controllers(entry, snapshot)
        for controller in wanted
    )


def _controllers(entry: AvoidEntry, snapshot: Snapshot) -> Iterator[OwnerRef]:
    workload = snapshot.workloads.get(entry.controller_uid)
    if workload is None or workload.namespace != entry.namespace:
        return
    yield OwnerRef(workload.api_version, workload.kind, workload.name, workload.uid)
    if workload.controller is not None:
        yield workload.controller
