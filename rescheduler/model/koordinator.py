"""Koordinator's own Reservation (scheduling.koordinator.sh/v1alpha1), as far as decisions rest on it.

Its scheduler holds the room in memory and writes status; there is no pod that stands for it. ``room`` is that pod
for our own rules: whoever counts the pods of a node counts the held room with them.
"""

from __future__ import annotations

import enum

import msgspec

from rescheduler.model.records import OwnerRef, Pod
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.resources import NO_RESOURCES, Resources


class KoordinatorPhase(enum.StrEnum):
    """status.phase. WAITING is declared by Koordinator and never set (koordinator #2498)."""

    PENDING = "Pending"
    WAITING = "Waiting"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class KoordinatorReservation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One of them. ``reservation``: our Reservation that it serves, None: somebody else made it.

    ``pinned_node``: the node that its template names. ``refusal``: why its scheduler finds no node.
    ``failure``: reason and message of Ready=False. ``room``: what it keeps from others now, as a pod; None if nothing.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    created_at_s: float = 0.0
    deleting: bool = False
    reservation: OwnerRef | None = None
    pinned_node: str = ""
    phase: KoordinatorPhase = KoordinatorPhase.PENDING
    node: str = ""
    refusal: str = ""
    failure: str = ""
    allocatable: Resources = NO_RESOURCES
    allocated: Resources = NO_RESOURCES
    current_owners: tuple[ObjectRef, ...] = ()
    room: Pod | None = None

    @property
    def holds(self) -> bool:
        """True if the room is kept for its owners."""
        return self.phase is KoordinatorPhase.AVAILABLE and bool(self.node) and not self.deleting
