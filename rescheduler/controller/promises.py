"""One round's view of promises and hand-overs by node: who must stand back for whom. Gathering, no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rescheduler.controller.index import RoundIndex
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.promised import waits_for_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """``by_node``: placeholders that wait for room, the oldest first. ``users``: uids of Reservations in hand-over.

    ``let_in``: placeholders that no gate holds and that are not bound: they take whatever becomes free on their node.
    """

    by_node: Mapping[str, tuple[Pod, ...]]
    let_in: Mapping[str, tuple[Pod, ...]]
    users: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, index: RoundIndex, namespace: str, unbound: Iterable[Pod]) -> Promises:
        """Gathered from ``unbound`` pods and all Reservations."""
        found: dict[str, list[Pod]] = {}
        let_in: dict[str, list[Pod]] = {}
        for pod in unbound:
            if pod.namespace != namespace or pod.controller is None or pod.terminal or pod.deleting:
                continue
            node = pinned_node(pod)
            if node and (waits_for_room(pod) or pod.nominated_node):
                found.setdefault(node, []).append(pod)
            if node and not waits_for_room(pod):
                let_in.setdefault(node, []).append(pod)
        users: dict[str, set[str]] = {}
        for reservation in index.snapshot.reservations.values():
            if reservation.status.phase not in FINISHED and index.in_flight(reservation):
                users.setdefault(reservation.status.node_name, set()).add(reservation.uid)
        return cls(
            by_node={node: tuple(sorted(pods, key=age)) for node, pods in found.items()},
            let_in={node: tuple(pods) for node, pods in let_in.items()},
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
        """True while another's promise counts there, or its placeholder would outrank whoever the room is for.

        The rest of a room in hand-over is neither: its room is empty.
        """
        users = self.users.get(node, frozenset()) | {reservation.uid}
        nominated = (promise for promise in self.on(node) if promise.nominated_node)
        return any(
            holder.controller is not None and holder.controller.uid not in users
            for holder in (*nominated, *self.let_in.get(node, ()))
        )


def age(promise: Pod) -> tuple[float, str]:
    """The order in which promises are kept."""
    return promise.created_at_s, promise.name
