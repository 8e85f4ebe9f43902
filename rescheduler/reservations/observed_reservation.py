"""What the Reservation machine looks at: one Reservation, and the objects around it at one moment.

Everything that a step needs is in here, so a step is a function of values and a crash loses nothing.
Fields that only memory can know are marked; starting again with their defaults is safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rescheduler.model import names
from rescheduler.model.migration import MoveMode, PodMigration
from rescheduler.model.records import Node, Pod
from rescheduler.model.reservation import KoordinatorReservation, Reservation
from rescheduler.model.selectors import NodeSelector
from rescheduler.planning.single_pod import Choice
from rescheduler.reservations.waits import PlaceholderTurn, Wait

NOT_ASKED: Final = Choice()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMaking:
    """The room that others make for it (``coordination.waiting_room``)."""

    given_up: str = ""
    """Why the pods that step aside for it will not make its room; "": they may, or none does."""
    others_wanted: str = ""
    """Why others than were planned must step aside for the rest of its room."""
    step_aside: tuple[str, ...] = ()
    """Pods that step aside for it, each with its new node."""


NOBODY_MAKES_ROOM: Final = ObservedMaking()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReservation:
    """One Reservation at one moment."""

    reservation: Reservation
    placeholders: tuple[Pod, ...] = ()
    """Its placeholder pods, of any state; more than one only while a room for several pods is split."""
    node: Node | None = None
    """That of ``status.nodeName``, else of the placeholder; None if there is no such node."""
    choice: Choice = NOT_ASKED
    """Asked for only while no placeholder is bound."""
    assigned: tuple[Pod, ...] = ()
    """Gated owners that the assignment gives to this Reservation: one, unless it is for several."""
    owners: tuple[Pod, ...] = ()
    """Pods of ``status.currentOwners`` that are there."""
    arrival: Pod | None = None
    """Soft mode only: the first owner that was bound after the eviction."""
    migration: PodMigration | None = None
    """The move that it serves: the one that it was made for, or that took it."""
    namespace_ends: bool = False
    """The namespace of its move is being deleted, and the move with it."""
    prepares_gate: bool = False
    """The move wants the gate on, although it has not written the intent to evict yet."""
    evicted: bool = False
    """The API server has answered that the pod of the move is evicted; the status of the move may not say it yet."""
    wait: Wait | None = None
    """Why its claimants take no further step; None: they take it now."""
    turn: PlaceholderTurn = PlaceholderTurn.WAIT
    """What its placeholder does, if it is not bound."""
    claimed_since_s: float = 0.0
    """When claimants without a gate were first seen; 0.0: there are none. Only memory knows it."""
    unfit: str = ""
    """Why kube-scheduler would refuse a claimant without a gate, also in the empty room; "": it would not."""
    needs_taint: bool = False
    """True while its node must carry the hand-over taint for its sake."""
    passes_on: bool = False
    """True if only the nomination of its claimant lacks before its placeholder may be deleted."""
    koordinator: KoordinatorReservation | None = None
    """Koordinator's Reservation that holds the room."""
    by_koordinator: bool = False
    """True if Koordinator holds the room, or is to do so."""
    template_refused: str | None = ""
    """Why the API server takes no pod of the template; "": it does, or need not be asked; None: it has not been asked yet."""
    beyond_quota: str = ""
    """Why it must wait until others of its namespace have ended; "": it need not."""
    node_request: Pod | None = None
    """The pending pod that asks the node autoscaler for a node."""
    refused: str = ""
    """What its last call, or that for the taint of its node, failed of; "": it did not."""
    node_request_refused: str = ""
    """Why the API server refused that pod; "": it did not."""
    making: ObservedMaking = NOBODY_MAKES_ROOM
    higher_waits: str = ""
    """Why its owners would lose its capacity to a pending pod of higher priority as soon as they land; "": they would not."""
    other_node: str = ""
    """A node that would take its gated pods now, while its own node takes no pods; "": it does, or no other one would."""
    landed_since_s: float = 0.0
    """When its claimant was first seen to be bound; 0.0: it is not. Only memory knows it."""
    threatened: str = ""
    """Which pending pod of higher priority is about to preempt the claimant that has landed; "": none."""
    ungated: str = ""
    """Why new pods of its owners are not held for it although they should be; "": they are, or need not be."""
    owners_wait: str = ""
    """Which pending pod of its owners cannot use it, and why; "": none is kept out."""
    volumes: tuple[NodeSelector, ...] = ()
    """Node affinity of the volumes that the template's claims are bound to."""
    changed: str = ""
    """Why its placeholder does not hold what was asked for; "": it does, or there is none."""
    lost: str = "is gone"
    """What became of its placeholder, if that holds nothing any more; the end of a sentence."""
    unremovable: str = ""
    """Why a placeholder of it stays when it is deleted; "": none does."""
    unbound_claims: tuple[str, ...] = ()
    """Claims of the template that have no volume yet."""

    @property
    def placeholder(self) -> Pod | None:
        """The one that holds the room, else any that is there."""
        standing = (pod for pod in self.placeholders if pod.node and not pod.deleting)
        return next(standing, self.placeholders[0] if self.placeholders else None)

    @property
    def claimant(self) -> Pod | None:
        """The first pod of ``status.currentOwners``, if it is there."""
        claimed = self.reservation.status.current_owners
        return next((pod for pod in self.owners if claimed and pod.uid == claimed[0].uid), None)

    @property
    def in_flight(self) -> tuple[Pod, ...]:
        """Claimants that are not bound yet."""
        return tuple(pod for pod in self.owners if not pod.node and not pod.deleting)

    @property
    def flying(self) -> bool:
        """True while one of them is not bound, even if it is being deleted."""
        return any(not pod.node for pod in self.owners)

    @property
    def soft(self) -> bool:
        """True if the placeholder yields to its owner by preemption, and no gate is used."""
        return soft_mode(self.reservation)

    @property
    def held(self) -> bool:
        """True if the room is held at this moment, whatever the status says yet."""
        if self.koordinator is not None:
            return self.koordinator.holds
        pod = self.placeholder
        return pod is not None and bool(pod.node) and not pod.deleting and not pod.terminal

    @property
    def node_usable(self) -> bool:
        """True if the node is there, Ready and schedulable."""
        return usable(self.node)


def usable(node: Node | None) -> bool:
    """True if the scheduler may bind a pod there now, as far as the node itself is concerned."""
    return node is not None and node.usable


def soft_mode(reservation: Reservation) -> bool:
    """True for a Reservation that is marked as soft."""
    return reservation.annotations.get(names.ANNOTATION_MODE) == MoveMode.SOFT
