"""Which pods that are pending already, without a gate of ours, get which rooms (pure; rows K11, K65, K79).

The gate holds pods that are created while their room is open. A pod that kube-scheduler has refused before that would be locked out by its own
room. It gets what gated pods leave, by the same order, if it fits the room and kube-scheduler would bind it there once the
placeholder is gone. Before it claims the room it must tolerate the hand-over taint (``reservations.pending_claimant``). It keeps
that toleration, so on one node nobody is prepared while others land, and nobody claims while others are prepared: whoever
passes the taint has a room there, is served first, or is waited for (``kept_tolerations``).

Left out: rooms of moves, which are for the pod that comes in the place of the evicted one, and pods that have not been refused yet, are
held by a scheduling gate of another program, or belong to a scheduler whose rules are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_tolerations import KeptTolerations
from rescheduler.coordination.placement import Placement
from rescheduler.migrations.observed_migration import Permission
from rescheduler.model.names import LABEL_PLACEHOLDER, LABEL_START_FIRST
from rescheduler.model.never_moves import waits_for_others
from rescheduler.model.records import Pod
from rescheduler.reservations.assignment import Room, assign, larger_than, rooms_for
from rescheduler.reservations.handover import tolerates_taint
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.scheduler_probe import is_probe

_NOT_ASKED: Final = Permission(ok=False, message="many different pods wait for it")
MOST_KINDS_ASKED: Final = 32
"""So many different pods are tried for one room in a round; pods of one template are one kind. A trial takes milliseconds."""


class PendingClaims(NamedTuple):
    """The outcome of one round."""

    claims: Mapping[str, tuple[Pod, ...]]
    """Pods by name of the Reservation that they claim now."""
    preparing: tuple[tuple[Pod, str], ...]
    """Pods that must tolerate the taint of the node first, with the Reservation that they are to claim."""
    overtaken: Mapping[str, str]
    """Name of a Reservation that its owner would lose to a pod behind the taint -> what waits, for people."""


NO_PENDING_CLAIMS = PendingClaims({}, (), {})


@dataclass(slots=True, kw_only=True)
class PendingOwners:
    """Assigns rooms to pods without a gate, in one round."""

    index: RoundIndex
    placement: Placement
    resting: Callable[[Pod], bool]
    """True for a pod that could not be prepared a moment ago: another one gets the room, if this one cannot take it."""
    kept: KeptTolerations
    _asked: dict[str, dict[tuple[object, ...], Permission]] = field(default_factory=dict)
    """Answers of the scheduling rules in this round, by name of the Reservation and kind of the pod."""

    def waiting(self, taken: Collection[str]) -> list[Pod]:
        """Pods that a scheduler has refused and that have claimed no room. ``taken``: uids of those that have."""
        return [pod for pod in self.index.waiting if pod.uid not in taken and self._may_claim(pod)]

    def of(
        self, pods: Iterable[Pod], rooms: Iterable[Room], observed: Mapping[str, ObservedReservation]
    ) -> PendingClaims:
        """``rooms``: those that no gated pod claims now."""
        eligible = [room for room in rooms if room.open and _for_anybody(observed[room.reservation.name])]
        if not eligible:
            return NO_PENDING_CLAIMS

        def admits(pod: Pod, room: Room) -> bool:
            return self.admits(pod, observed[room.reservation.name]).ok

        # An earlier claim let it behind the taint of the node, and tolerations stay: it would take the room of any other pod.
        def goes_first(pod: Pod, room: Room) -> bool:
            return tolerates_taint(pod, room.reservation.status.node_name)

        given = assign(list(pods), eligible, self.index.controllers, admits=admits, goes_first=goes_first)
        return self._ordered(given.claims, observed)

    def _ordered(
        self, claims: Mapping[str, tuple[Pod, ...]], observed: Mapping[str, ObservedReservation]
    ) -> PendingClaims:
        """The claims that may be written now, and the pods that are prepared first."""
        nodes = {name: observed[name].reservation.status.node_name for name in claims}
        served = {
            node: {pod.uid for name, pods in claims.items() if nodes[name] == node for pod in pods}
            for node in nodes.values()
        }
        ready: dict[str, tuple[Pod, ...]] = {}
        preparing: list[tuple[Pod, str]] = []
        overtaken: dict[str, str] = {}
        for name, pods in claims.items():
            node = nodes[name]
            other = self.kept.overtakes(pods, node, observed[name].placeholder, served[node])
            if other is not None:
                overtaken[name] = (
                    f"pod {pods[0].key} waits: pod {other.key} is pending and would take the room on node/{node}, "
                    "because it still tolerates the hand-over taint there"
                )
                continue
            behind = tuple(pod for pod in pods if tolerates_taint(pod, node))
            if len(behind) == len(pods) or (behind and self.kept.landing(node)):
                ready[name] = behind
            elif not self.kept.landing(node):
                preparing.extend((pod, name) for pod in pods if pod not in behind)
        shut = {nodes[name] for _, name in preparing}
        ready = {name: pods for name, pods in ready.items() if nodes[name] not in shut}
        return PendingClaims(ready, tuple(preparing), overtaken)

    def _may_claim(self, pod: Pod) -> bool:
        ours = pod.namespace == self.placement.namespace or LABEL_PLACEHOLDER in pod.labels or is_probe(pod)
        refused = bool(pod.unschedulable_message) and LABEL_START_FIRST not in pod.labels
        return refused and not ours and not self.resting(pod)

    def kept_out(
        self,
        pods: Iterable[Pod],
        rooms: Iterable[Room],
        observed: Mapping[str, ObservedReservation],
        served: Collection[str],
    ) -> dict[str, str]:
        """Name of a Reservation -> which pending owner cannot use it, and why. ``served``: uids of pods that get capacity.

        Told is the oldest pod. A pod that only comes after another one is not kept out by the Reservation.
        """
        found: dict[str, str] = {}
        eligible = [room for room in rooms if room.open and _for_anybody(observed[room.reservation.name])]
        waiting = [pod for pod in pods if pod.uid not in served] if eligible else []
        for pod in sorted(waiting, key=lambda pod: (pod.created_at_s, pod.namespace, pod.name)):
            for room in rooms_for(pod, eligible, self.index.controllers(pod)):
                name = room.reservation.name
                why = larger_than(pod, room)
                if not why and not waits_for_others(pod):
                    answer = self.admits(pod, observed[name])
                    why = "" if answer.ok else f"node/{room.reservation.status.node_name}: {answer.message}"
                if why:
                    found.setdefault(name, f"pod {pod.key} waits: {why}")
        return found

    def admits(self, pod: Pod, observed: ObservedReservation) -> Permission:
        """Whether the scheduler's rules take the pod in place of the placeholder. One answer for all pods of one template."""
        name, node = observed.reservation.name, observed.reservation.status.node_name
        answers, kind = self._asked.setdefault(name, {}), _kind(pod)
        if kind not in answers:
            if len(answers) >= MOST_KINDS_ASKED:
                return _NOT_ASKED
            answers[kind] = self.placement.would_take(pod, node, observed.placeholder)
        return answers[kind]


def _for_anybody(observed: ObservedReservation) -> bool:
    return observed.migration is None and observed.node_usable and not observed.by_koordinator


def _kind(pod: Pod) -> tuple[object, ...]:
    """Equal for pods that the rules judge alike. Equal specs are one object (``model.decode.interning``)."""
    claims = pod.name if pod.spec.volumes else ""
    return pod.namespace, id(pod.spec), pod.labels, claims
