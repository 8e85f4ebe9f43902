"""Placeholders of one round, and the pods that required anti-affinity keeps them apart from (``planning.placeholder_rules``). Pure.

The scheduling state of a round shows the pods of Reservations in place of their placeholders, and the placeholders of moves in place of
their replacements. kube-scheduler sees the placeholders now and the pods later, so what the state does not show is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rescheduler.coordination.moves_under_way import MoveUnderWay
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.placeholder_rules import HOLDER_APART, PLUGIN, PlaceholderRules, both
from rescheduler.reservations.placeholder import pinned_node, placeholder_name
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.state import SchedulingState


@dataclass(frozen=True, slots=True)
class Holders:
    """Answers for one round. Nodes are indices."""

    rules: PlaceholderRules
    state: SchedulingState
    placed: tuple[tuple[str, int], ...]
    """Name of each placeholder that stands or is on its way, with its node."""
    assumed: Mapping[str, Pod]
    """Rooms that were chosen and have no placeholder yet, by who asked; it grows with each choice."""
    coming: tuple[MoveUnderWay, ...]
    """Replacements that mind placeholders, of moves under way."""

    def for_room(self, reservation: Reservation, pod: Pod) -> BoolArray | None:
        """Where the placeholder of a Reservation and its pod are let in; None: everywhere."""
        if not reservation.allocate_once and self.rules.shunned(pod):
            return ~self.state.cluster.nodes.all  # the rest of the room would keep its own pods out
        own = placeholder_name(reservation)
        index = self.state.node_index
        coming = [(one.replacement, index[one.node]) for one in self.coming if one.room != reservation.name]
        return both(self.rules.takes_holder(coming), self._apart(pod, own, reservation.name))

    def for_move(self, pod: Pod, replacement: Pod, room: str = "") -> BoolArray | None:
        """Where the placeholder for a replacement and it itself are let in while the old pod stands; None: everywhere."""
        index = self.state.node_index
        others = [(one.replacement, index[one.node]) for one in self.coming if one.pod.uid != pod.uid]
        if pod.node in index:
            others.append((pod, index[pod.node]))
        return both(self.rules.takes_holder(others), self._apart(replacement, "", pod.uid, room))

    def move_refusal(
        self, pod: Pod, replacement: Pod, node: str, *, room: str, holder: Pod | None
    ) -> Refusal | None:
        """Why a move to that node would wait for ever. ``room``: its Reservation, ``holder``: its placeholder, which need not be let in any more once it stands."""
        if holder is not None and holder.node:
            return self.refusal(replacement, node, besides=holder)
        return self._refusal(self.for_move(pod, replacement, room), node)

    def refusal(self, pod: Pod, node: str, *, besides: Pod) -> Refusal | None:
        """Why the placeholders of others keep the pod out, which gets the room of ``besides``."""
        return self._refusal(self._apart(pod, besides.name), node)

    def _apart(self, pod: Pod, own: str, *askers: str) -> BoolArray | None:
        if not pod.spec.pod_anti_affinity:
            return None
        nodes = [node for name, node in self.placed if name != own]
        index = self.state.node_index
        nodes += [
            index[room.node] for key, room in self.assumed.items() if key not in askers and room.node in index
        ]
        return self.rules.apart(pod, nodes)

    def _refusal(self, allowed: BoolArray | None, node: str) -> Refusal | None:
        at = self.state.node_index.get(node)
        if allowed is None or at is None or allowed[at]:
            return None
        return Refusal(PLUGIN, HOLDER_APART)


def holders_of(
    state: SchedulingState,
    snapshot: Snapshot,
    namespace: str,
    assumed: Mapping[str, Pod],
    moves: Iterable[MoveUnderWay],
) -> Holders:
    """The placeholders of the snapshot, and the moves that are under way in it. ``namespace``: that of placeholders."""
    index, rules = state.node_index, PlaceholderRules(state, namespace)
    placed: list[tuple[str, int]] = []
    for reservation in snapshot.reservations.values():
        holder = snapshot.pods.get(ObjectKey(namespace, placeholder_name(reservation)))
        node = (holder.node or pinned_node(holder)) if holder is not None and not holder.terminal else ""
        if holder is not None and LABEL_PLACEHOLDER in holder.labels and node in index:
            placed.append((holder.name, index[node]))
    minding = (one for one in moves if one.node in index and rules.shunned(one.replacement))
    coming = tuple(one for one in minding if one.migration.status.mode is not MoveMode.START_FIRST)
    return Holders(rules, state, tuple(placed), assumed, coming)


def or_apart(
    state: SchedulingState, held: BoolArray | None, taken: Callable[[str], str]
) -> Callable[[str], str]:
    """Why a node that fits is none: the rules of placeholders (``held``), or another reason."""
    if held is None:
        return taken
    return lambda node: taken(node) if held[state.node_index[node]] else f"node/{node}: {HOLDER_APART}"
