"""Pending pods that a hand-over taint does not keep off its node, and that would take a room there from its owner (pure).

The API server lets nobody take a toleration off. A pod that got one for a claim, or for its release, and was not bound then
(its Reservation failed, ended or was deleted, or the pod was refused) passes the taint of that node for as long as it is pending.
If it is an owner of the next room there, it is served first (``pending_owners``); of higher priority it ends the Reservation
(``lost_targets``). In all other cases no room of that node is handed over by taint while it would take it.

The wait ends when the pod is bound, deleted or fits there no more, at the latest with the Reservation, which names it. All is read
from the objects, so a restart changes nothing. Hand-overs by nomination do not depend on it: kube-scheduler counts
the nomination against all pods of the same or lower priority.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.records import Pod
from rescheduler.reservations.handover import tolerates_taint
from rescheduler.reservations.reservation_lifecycle import FINISHED

MOST_ASKED: Final = 32
"""So many of them are tried for one room in a round. A trial takes milliseconds, and anybody may give pods our toleration."""


@dataclass(frozen=True, kw_only=True)
class KeptTolerations:
    """Those of one round."""

    index: RoundIndex
    placement: Placement

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """Pending pods that tolerate a hand-over taint by its key: looked for only where a room is to be handed over.

        Placeholders, which tolerate all of them, have an order of their own.

        That those which tolerate every taint may take a room is a limit (docs/design/06-room-for-pending-pods.md).
        """
        return tuple(p for p in self.index.waiting if p.namespace != self.placement.namespace and _by_key(p))

    def overtakes(
        self, pods: Sequence[Pod], node: str, holder: Pod | None, served: Collection[str] = ()
    ) -> Pod | None:
        """The pod that would be bound to ``node`` instead of one of ``pods`` once ``holder`` is deleted; None if there is none.

        ``served``: uids of pods that claim a room of that node now.
        """
        behind = [pod for pod in self.pods if tolerates_taint(pod, node)]
        owners = self._owners(node) if behind else frozenset()
        least = min(pod.spec.priority for pod in pods)
        others = [
            pod
            for pod in behind
            if pod.spec.priority <= least and pod.uid not in owners and pod.uid not in served
        ]
        return self.placement.overtaking(pods, others[:MOST_ASKED], node, holder) if others else None

    def landing(self, node: str) -> bool:
        """True while a claimant that the taint holds the room for is on its way there: whoever tolerates it could be faster."""
        behind = [pod.uid for pod in self.pods if tolerates_taint(pod, node)]
        return bool(behind) and not self._owners(node).isdisjoint(behind)

    def _owners(self, node: str) -> frozenset[str]:
        """Who has a room on the node. All of them fit there together, so it does not matter which of them takes which."""
        return frozenset(
            owner.uid
            for reservation in self.index.snapshot.reservations.values()
            if reservation.status.node_name == node and reservation.status.phase not in FINISHED
            for owner in reservation.status.current_owners
        )


def _by_key(pod: Pod) -> bool:
    return any(toleration.key == names.ANNOTATION_HANDOVER_TAINT for toleration in pod.spec.tolerations)
