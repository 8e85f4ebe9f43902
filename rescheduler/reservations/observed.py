"""What the Reservation machine looks at: one Reservation, and the objects around it at one moment.

Everything that a step needs is in here, so a step is a function of values and a crash loses nothing.
Fields that only memory can know are marked; starting again with their defaults is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rescheduler.model import names
from rescheduler.model.koordinator import KoordinatorReservation
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.records import Node, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.selectors import NodeSelector
from rescheduler.planning.target import Choice
from rescheduler.reservations.scheduler_lag import NO_LAG, SchedulerLag
from rescheduler.reservations.shares import Share

NOT_ASKED: Final = Choice()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationSettings:
    """Limits of a Reservation's life, in seconds, and where placeholders live.

    ``default_ttl_s``: for a Reservation that names neither ttl nor expires (row K28).
    ``finished_ttl_s``: a finished one is deleted after it (row K71).
    ``gate_limit_s``: no pod is held by the gate for longer.
    ``landing_limit_s``: an ungated claimant is watched for at least so long, counted from its creation.
    ``node_grace_s``: how long the node may be NotReady or unschedulable before the room counts as lost.
    ``retarget_s``: a placeholder that the scheduler refuses for so long is given another node, though our own rules
    do not know why it is refused there (they would send it back at once, for ever); where they do, it moves on at once.
    ``taint_settle_s``: nodes and pods reach the scheduler by two informers; the wait between them.
    ``lag``: schedulers that may not have heard yet of what was just nominated.
    ``orphan_grace_s``: a Reservation made for a PodMigration that is not there is given up after it.
    ``koordinator_scheduler``: schedulerName of pods whose rooms Koordinator holds; "": its engine is not in force.
    ``shares``: how much may be reserved for the pods of a namespace, ``*`` for all.
    """

    namespace: str = "rescheduler"
    pause_image: str = "registry.k8s.io/pause:3.10"
    default_ttl_s: float = 86_400.0
    finished_ttl_s: float = 3_600.0
    gate_limit_s: float = 60.0
    landing_limit_s: float = 300.0
    node_grace_s: float = 60.0
    retarget_s: float = 30.0
    taint_settle_s: float = 1.0
    lag: SchedulerLag = NO_LAG
    orphan_grace_s: float = 30.0
    koordinator_scheduler: str = ""
    shares: Mapping[str, Share] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedMigration:
    """The part of a PodMigration that its Reservation depends on. ``created``: made for this migration."""

    key: str
    phase: MigrationPhase
    created: bool
    mode: MoveMode = MoveMode.RESERVE_FIRST
    pod_name: str = ""
    pod_uid: str = ""
    eviction_requested_at_s: float = 0.0
    evicted_at_s: float = 0.0

    @property
    def finished(self) -> bool:
        """True if the move has ended, well or badly."""
        return self.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReservation:
    """One Reservation at one moment.

    ``placeholder``: its placeholder pod, of any state. ``node``: the node of ``status.nodeName``, else of
    the placeholder; None if there is no such node. ``choice``: asked for only while no placeholder exists.
    ``outrun``: others were faster on the node that its placeholder waits for, and ``choice`` has room.
    ``offered``: the gated owners that ``allocation`` gives to this Reservation (one, unless it is for several).
    ``claimant``: the pod of ``status.currentOwners``. ``owners``, ``holders``: where several may use the room, all of
    them that are there, and all placeholders. ``room_free``: a promised room could be had now. ``yields``: a promise on
    this node must stand back for the moment; ``shut``: the scheduler keeps others off the node, so it may;
    ``stands_back``: the node is to be shut for its sake. ``crowded``: another promise or placeholder there has not stood back yet.
    ``beside_hand_over``: another room is handed over on the node that its own placeholder waits for.
    ``after_landing``: a neighbour lands first, ours is not nominated before. ``before_landing``: a nominated neighbour's
    room is not empty yet, ours is not let go before. ``arrival``: soft mode only, the first owner that was bound after
    the eviction. ``contended``: pods of higher priority than the claimant's wait and could take its room.
    ``tainted_since_s`` (memory): when our hand-over taint was first seen on the node, 0.0 = it is not there.
    ``beyond_share``: why it must wait until others of its namespace have ended, in words; "": it need not.
    ``volumes``: node affinity of the volumes that the template's claims are bound to; ``unbound_claims``: those without.
    ``koordinator``: Koordinator's Reservation that holds the room; ``by_koordinator``: it does, or is to do so.
    """

    reservation: Reservation
    placeholder: Pod | None = None
    node: Node | None = None
    choice: Choice = NOT_ASKED
    outrun: bool = False
    offered: tuple[Pod, ...] = ()
    claimant: Pod | None = None
    owners: tuple[Pod, ...] = ()
    holders: tuple[Pod, ...] = ()
    arrival: Pod | None = None
    migration: LinkedMigration | None = None
    contended: bool = False
    tainted_since_s: float = 0.0
    koordinator: KoordinatorReservation | None = None
    by_koordinator: bool = False
    beyond_share: str = ""
    volumes: tuple[NodeSelector, ...] = ()
    unbound_claims: tuple[str, ...] = ()
    room_free: bool = False
    yields: bool = False
    shut: bool = False
    stands_back: bool = False
    crowded: bool = False
    beside_hand_over: bool = False
    after_landing: bool = False
    before_landing: bool = False

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
        """True if the node is there, Ready and schedulable: the last look before anything is given up."""
        return usable(self.node)


def usable(node: Node | None) -> bool:
    """True if the scheduler may bind a pod there now, as far as the node itself is concerned."""
    return node is not None and node.ready and not node.unschedulable and not node.deleting


def soft_mode(reservation: Reservation) -> bool:
    """True for a Reservation that is marked as soft."""
    return reservation.annotations.get(names.ANNOTATION_MODE) == MoveMode.SOFT
