"""One round's view of promises and hand-overs by node: who must stand back for whom. Gathering, no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rescheduler.controller.index import RoundIndex
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.promised import waits_for_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """``by_node``: placeholders that wait for room, the oldest first. ``users``: uids of Reservations in hand-over."""

    by_node: Mapping[str, tuple[Pod, ...]]
    users: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, index: RoundIndex, namespace: str, unbound: Iterable[Pod]) -> Promises:
        """Gathered from ``unbound`` pods and all Reservations."""
        found: dict[str, list[Pod]] = {}
        for pod in unbound:
            if pod.namespace != namespace or pod.controller is None or pod.terminal or pod.deleting:
                continue
            node = pinned_node(pod)
            if node and (waits_for_room(pod) or pod.nominated_node):
                found.setdefault(node, []).append(pod)
        users: dict[str, set[str]] = {}
        for reservation in index.snapshot.reservations.values():
            if index.in_flight(reservation):
                users.setdefault(reservation.status.node_name, set()).add(reservation.uid)
        return cls(
            by_node={node: tuple(sorted(pods, key=age)) for node, pods in found.items()},
            users={node: frozenset(names) for node, names in users.items()},
        )

    def on(self, node: str) -> tuple[Pod, ...]:
        """Promises on that node, the oldest first."""
        return self.by_node.get(node, ())

    def younger(self, promise: Pod, node: str) -> tuple[Pod, ...]:
        """Those that come after it."""
        return tuple(other for other in self.on(node) if age(other) > age(promise))

    def older(self, promise: Pod, node: str) -> tuple[Pod, ...]:
        """Those that go first."""
        return tuple(other for other in self.on(node) if age(other) < age(promise))

    def handing_over(self, node: str, other_than: Reservation) -> bool:
        """True while another Reservation's claimant is on its way to the node."""
        return bool(self.users.get(node, frozenset()) - {other_than.uid})

    def crowds(self, node: str, reservation: Reservation) -> bool:
        """True while another's promise counts there. The rest of a room in hand-over is no promise: its room is empty."""
        users = self.users.get(node, frozenset()) | {reservation.uid}
        return any(
            promise.nominated_node and promise.controller is not None and promise.controller.uid not in users
            for promise in self.on(node)
        )


def age(promise: Pod) -> tuple[float, str]:
    """The order in which promises are kept."""
    return promise.created_at_s, promise.name
