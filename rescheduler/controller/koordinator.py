"""Koordinator's Reservations as the reconciler sees them: which of ours each holds, and pods that wait for a lost one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rescheduler.controller.index import RoundIndex
from rescheduler.model import names
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.actions import Unsteer
from rescheduler.reservations.koordinator import backs
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.placeholder import placeholder_name


def with_koordinator(
    observed: ObservedReservation, snapshot: Snapshot, scheduler: str
) -> ObservedReservation:
    """``observed`` with what Koordinator holds for it. What exists decides, then the configuration.

    So a Reservation keeps its engine for life, whatever is configured later. ``scheduler`` "": not in force.
    """
    reservation = observed.reservation
    held = snapshot.koordinator.get(placeholder_name(reservation))
    if held is None or held.reservation is None or held.reservation.uid != reservation.uid:
        if observed.placeholder is not None or not backs(reservation, scheduler):
            return observed
        return dataclasses.replace(observed, by_koordinator=True)
    node = reservation.status.node_name or held.node
    return dataclasses.replace(
        observed, koordinator=held, by_koordinator=True, node=snapshot.nodes.get(node) if node else None
    )


def led_astray(index: RoundIndex) -> Iterable[tuple[Pod, Unsteer]]:
    """Pending pods that we told to use a room which is not theirs any more, or not there."""
    for pod in index.waiting:
        name = pod.annotations.get(names.ANNOTATION_RESERVATION)
        if not name or names.KOORDINATOR_AFFINITY not in pod.annotations:
            continue
        reservation = index.snapshot.reservations.get(name)
        live = reservation is not None and reservation.status.phase not in FINISHED
        if (
            reservation is None
            or not live
            or all(o.uid != pod.uid for o in reservation.status.current_owners)
        ):
            yield pod, Unsteer(pod.key, pod.uid)
