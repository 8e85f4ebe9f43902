"""What the Reservations of one node need to know of each other while rooms there are handed over or waited for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rescheduler.coordination.memory import Sightings
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.handover import tainted
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.preallocation import waits_for_room


@dataclass(frozen=True, slots=True)
class Claim:
    """The claimants of one Reservation that are not bound yet, as far as other hand-overs on the node depend on them."""

    name: str
    landing: bool
    """Its room is empty and all its claimants are nominated: it waits for nothing but the scheduler."""
    doubled: bool
    """Its claimants are nominated and its placeholder is still bound: kube-scheduler counts its room twice."""


@dataclass(slots=True)
class NodeOrder:
    """What the Reservations of one node need to know of each other."""

    claims: list[Claim] = field(default_factory=list)
    handing_over: set[str] = field(default_factory=set)
    """Uids of Reservations with an owner that is not bound yet."""
    preallocations: list[Pod] = field(default_factory=list)
    """Placeholders that wait for room or are nominated."""
    ungated: list[Pod] = field(default_factory=list)
    """Placeholders that no gate holds and that are not bound."""

    def another_hands_over(self, reservation: Reservation) -> bool:
        """True while another room of the node is handed over."""
        return bool(self.handing_over - {reservation.uid})

    def younger(self, holder: Pod) -> tuple[Pod, ...]:
        """The preallocations after this one."""
        return tuple(other for other in self.preallocations if _age(other) > _age(holder))

    def older(self, holder: Pod) -> tuple[Pod, ...]:
        """Those before it."""
        return tuple(other for other in self.preallocations if _age(other) < _age(holder))

    def unbound_placeholder(self, reservation: Reservation) -> bool:
        """True while a placeholder of another Reservation is nominated here, or could be bound before the claimants.

        A placeholder of a Reservation that is itself handing over does not count: its own room is empty.
        """
        parties = self.handing_over | {reservation.uid}
        nominated = [holder for holder in self.preallocations if holder.nominated_node]
        return any(
            holder.controller is not None and holder.controller.uid not in parties
            for holder in (*nominated, *self.ungated)
        )


def placeholders_by_node(unbound: Iterable[Pod], namespace: str) -> defaultdict[str, NodeOrder]:
    """The orders of all nodes with their unbound placeholders; claims are added to them."""
    nodes: defaultdict[str, NodeOrder] = defaultdict(NodeOrder)
    for pod in unbound:
        ours = pod.namespace == namespace and pod.controller is not None
        node = pinned_node(pod) if ours and not pod.deleting else ""
        if not node:
            continue
        if waits_for_room(pod) or pod.nominated_node:
            nodes[node].preallocations.append(pod)
        if not waits_for_room(pod):
            nodes[node].ungated.append(pod)
    return nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTaints:
    """Since when hand-over taints have been seen on their nodes."""

    sightings: Sightings
    unseen: Callable[[ObjectKey], bool]
    """True if the cache does not show yet what a machine wrote last: a node's may be its taint or the end of it."""
    now_s: float

    def since_s(self, node: Node | None) -> float:
        """When our taint was first seen on the node; 0.0: it is not there, or may have been removed since."""
        if node is None:
            return 0.0
        machine = taint_machine(node.name)
        stands = tainted(node) and not self.unseen(machine)
        return self.sightings.since("taint", machine, self.now_s, state=stands)


def taint_machine(node: str) -> ObjectKey:
    """The key under which the hand-over taint of a node is remembered."""
    return ObjectKey("taint", node)


def _age(holder: Pod) -> tuple[float, str]:
    return holder.created_at_s, holder.name
