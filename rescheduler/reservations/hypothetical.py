"""The pod that a room is for, before there is one: what our own rules judge and count in its place. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.records import Pod, PodSpec, PodVolume, VolumeKind
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.owners import namespace_of_pods

_PLACEHOLDER_PRIORITY: Final = 1_000_000_000


def hypothetical_pod(reservation: Reservation) -> Pod:
    """A pending pod of the template, of a placeholder's priority; there must be a template."""
    template = reservation.template
    if template is None:
        raise ValueError(f"Reservation {reservation.name} has no template")
    return Pod(
        namespace=namespace_of_pods(reservation),
        name=f"{reservation.name}+",
        uid=f"{reservation.uid}+",
        spec=msgspec.structs.replace(
            template, priority=_PLACEHOLDER_PRIORITY, volumes=_claims_there(template)
        ),
        labels=reservation.template_labels,
        held=template.requests,
    )


def keeps_its_distance(reservation: Reservation) -> bool:
    """True if its pods matter to the affinity or spread of others, or of each other."""
    if reservation.template is None or reservation.status.phase in FINISHED or not reservation.allocate_once:
        return False
    return bool(reservation.template_labels or reservation.template.pod_anti_affinity)


def _claims_there(template: PodSpec) -> tuple[PodVolume, ...]:
    """Claims of ephemeral volumes are made for a pod once it exists: nothing can be judged of them before."""
    return tuple(volume for volume in template.volumes if volume.kind is not VolumeKind.EPHEMERAL)
