"""Who really holds the room of a Reservation: the seam behind which engines can be exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rescheduler.model.reservation import Reservation
from rescheduler.reservations.observed import ReservationSettings
from rescheduler.reservations.parts import WHOLE, Part
from rescheduler.reservations.placeholder import placeholder_manifest, placeholder_name


class Engine(Protocol):
    """Makes the object that holds a room. Pure: it gives manifests, others send them."""

    def holder_name(self, reservation: Reservation, part: Part = WHOLE) -> str:
        """The name of the holding object, always the same for one part of a Reservation."""
        ...

    def holder(self, reservation: Reservation, node: str, part: Part = WHOLE) -> bytes:
        """The manifest of the object that holds the room, or a part of it, on ``node``, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class PlaceholderEngine:
    """Rooms held by pause pods: works on any cluster with the stock kube-scheduler."""

    settings: ReservationSettings

    def holder_name(self, reservation: Reservation, part: Part = WHOLE) -> str:
        """The name of the placeholder."""
        return placeholder_name(reservation, part.suffix)

    def holder(self, reservation: Reservation, node: str, part: Part = WHOLE) -> bytes:
        """The placeholder pod."""
        return placeholder_manifest(reservation, node, self.settings, part)
