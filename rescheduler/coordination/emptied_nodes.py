"""Nodes that moves of ours have emptied stay empty for a while: the table of states of one node, and its step. Pure.

A node is cordoned, or tainted, only once the last pod that counts has left it, by moves that have landed, and only if nobody
else had cordoned it: until then it is a node like any other, and no pod waits because of it. It is given back when its time is
over, and at once if a pod could use it, if one stands there, or if the configuration does not ask for it any more. If somebody
else takes the cordon or the taint away, that holds. With a node that is taken away its note goes.

All that is known stands in the note on the node (``model.kept_empty``), which is written with the cordon or the taint in one
request.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rescheduler.calls.call import AnyCall, Event
from rescheduler.calls.nodes import give_node_back, keep_node_empty
from rescheduler.model import names
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.never_moves import NeverMoves, never_moves
from rescheduler.model.records import Node, Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.past_moves import FINISHED as ENDED_MOVE
from rescheduler.policies.keeping_empty import KeepingRule
from rescheduler.reservations.reservation_lifecycle import FINISHED as ENDED_ROOM
from rescheduler.scheduling.node_affinity import selects
from rescheduler.scheduling.taint_toleration import keeps_off

EMPTIED_WITHIN_S: Final = 300.0
"""A node counts as emptied for so long after the last move from it has landed."""
_ROOM_WAITS_S: Final = 10.0
"""A Reservation that is so old and has no node yet finds no room."""
_STAYING: Final = (NeverMoves.STATIC_POD, NeverMoves.DAEMON_POD)
_TAKEN_OFF: Final = ("node.kubernetes.io/unschedulable", names.TAINT_KEPT_EMPTY)
"""Taints that go when the node is given back."""


class KeepingState(enum.Enum):
    """What the note on a node says."""

    OPEN = "there is none"
    KEPT = "we have cordoned or tainted it"
    GIVEN_BACK = "it was given back before its time, and is left alone until then"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node that has been emptied or has a note."""

    node: Node
    rule: KeepingRule | None
    """The rule by which it is kept; None: no policy that is on wants it kept."""
    emptied: bool = False
    """Moves of that policy have emptied it a moment ago."""
    in_use: bool = False
    """A pod that counts stands there or is to come."""
    wanted_by: str = ""
    """What waits for room and could use the node, for people; "": nothing."""


def state_of(node: Node) -> KeepingState:
    """By its note alone."""
    if node.kept_empty is None:
        return KeepingState.OPEN
    return KeepingState.GIVEN_BACK if node.kept_empty.hold is Hold.GIVEN_BACK else KeepingState.KEPT


def step(observed: ObservedNode, now_s: float) -> tuple[AnyCall, ...]:
    """What is to be written on the node now, and told of it."""
    return _STEPS[state_of(observed.node)](observed, now_s)


def _open(observed: ObservedNode, now_s: float) -> tuple[AnyCall, ...]:
    node, rule = observed.node, observed.rule
    if rule is None or not observed.emptied or observed.in_use or observed.wanted_by:
        return ()
    if not node.usable or not node.may_be_taken_away:
        return ()  # somebody else has cordoned it, or wants it left alone
    kept = KeptEmpty(rule.hold, now_s + rule.kept_for_s)
    until = format_seconds(kept.until_s)
    told = f"{kept.hold.lower()} until {until}, because its pods were moved away"
    return keep_node_empty(node, kept), _event(node, "KeptEmpty", told)


def _kept(observed: ObservedNode, now_s: float) -> tuple[AnyCall, ...]:
    node, kept = observed.node, observed.node.kept_empty
    if kept is None:
        return ()
    why = _why_given_back(observed, now_s)
    if not why:
        return ()
    left = KeptEmpty(Hold.GIVEN_BACK, kept.until_s) if now_s < kept.until_s else None
    return give_node_back(node, left), _event(node, "GivenBack", f"not kept empty any more: {why}")


def _why_given_back(observed: ObservedNode, now_s: float) -> str:
    kept = observed.node.kept_empty
    if kept is None or now_s >= kept.until_s:
        return "nobody has taken it away in time"
    if not observed.node.unschedulable and kept.hold is Hold.CORDONED:
        return "somebody else has uncordoned it"
    if not tainted_as_empty(observed.node) and kept.hold is Hold.TAINTED:
        return "somebody else has taken the taint away"
    if observed.rule is None:
        return "the configuration does not ask for it any more"
    if observed.in_use:
        return "pods stand there"
    return f"{observed.wanted_by} could use it" if observed.wanted_by else ""


def tainted_as_empty(node: Node) -> bool:
    """True if the taint of a node that is kept empty stands there."""
    return any(taint.key == names.TAINT_KEPT_EMPTY for taint in node.taints)


def _given_back(observed: ObservedNode, now_s: float) -> tuple[AnyCall, ...]:
    kept = observed.node.kept_empty
    if kept is None or now_s < kept.until_s:
        return ()
    return (give_node_back(observed.node, None),)


def _event(node: Node, reason: str, message: str) -> Event:
    return Event("v1", "Node", "", node.name, node.uid, reason, message)


_STEPS: Final[Mapping[KeepingState, Callable[[ObservedNode, float], tuple[AnyCall, ...]]]] = {
    KeepingState.OPEN: _open,
    KeepingState.KEPT: _kept,
    KeepingState.GIVEN_BACK: _given_back,
}


# Observing


def observed_nodes(
    snapshot: Snapshot, unbound: Iterable[Pod], rules: Iterable[KeepingRule], now_s: float
) -> Iterator[ObservedNode]:
    """The nodes that have a note or were emptied a moment ago. Looks at all nodes, and at all pods if there is such a node.

    ``unbound``: pods without a node.
    """
    rules = tuple(rules)
    noted = {name: node for name, node in snapshot.nodes.items() if node.kept_empty is not None}
    emptied = {
        name: node
        for name, policy, left_s in _left(snapshot.migrations.values(), now_s)
        if (node := snapshot.nodes.get(name)) is not None
        and node.created_at_s <= left_s
        and _rule_for(node, rules, policy) is not None
    }
    nodes = {**emptied, **noted}
    if not nodes:
        return
    used = _used(snapshot, nodes)
    waiting = [pod for pod in unbound if pod.unschedulable_message and not pod.deleting]
    rooms = [room for room in snapshot.reservations.values() if _finds_no_room(room, now_s)]
    for name, node in sorted(nodes.items()):
        yield ObservedNode(
            node=node,
            rule=_rule_for(node, rules),
            emptied=name in emptied,
            in_use=name in used,
            wanted_by=_wanted_by(node, waiting, rooms, snapshot.migrations.values()),
        )


def _left(moves: Iterable[PodMigration], now_s: float) -> Iterator[tuple[str, str, float]]:
    """Nodes from which moves that policies planned have landed a moment ago, each with the policy, and when the pod left.

    A node that joined later under the same name is another one, which somebody has just brought.
    """
    for move in moves:
        status = move.status
        landed = status.phase is MigrationPhase.SUCCEEDED and not move.requested
        if landed and status.source_node and now_s - status.finished_at_s < EMPTIED_WITHIN_S:
            yield status.source_node, move.policy, status.evicted_at_s or status.finished_at_s


def _rule_for(node: Node, rules: Iterable[KeepingRule], policy: str = "") -> KeepingRule | None:
    return next((rule for rule in rules if policy in ("", rule.policy) and rule.holds_for(node)), None)


def _used(snapshot: Snapshot, nodes: Mapping[str, Node]) -> set[str]:
    """Those of the nodes on which pods stand that count, or to which some are to come."""
    used = {
        node
        for pod in snapshot.pods.values()
        if (node := pod.node or pod.nominated_node) in nodes
        and not (pod.terminal or pod.deleting or never_moves(pod) in _STAYING)
    }
    for room in snapshot.reservations.values():
        if room.status.phase not in ENDED_ROOM:
            used.add(room.status.node_name)
    for move in snapshot.migrations.values():
        if move.status.phase not in ENDED_MOVE:
            used |= {move.status.source_node, move.status.node_name}
    return used


def _finds_no_room(room: Reservation, now_s: float) -> bool:
    waits = room.status.phase is ReservationPhase.PENDING and not room.deleting
    return waits and now_s - room.created_at_s >= _ROOM_WAITS_S


def _wanted_by(
    node: Node, waiting: Iterable[Pod], rooms: Iterable[Reservation], moves: Iterable[PodMigration]
) -> str:
    for pod in waiting:
        if _could_use(node, pod.spec):
            return f"pod {pod.key}"
    for room in rooms:
        if room.template_node in ("", node.name) and room.template and _could_use(node, room.template):
            return f"Reservation {room.name}"
    for move in moves:
        if move.target_node == node.name and move.status.phase not in ENDED_MOVE:
            return f"PodMigration {move.key}"
    return ""


def _could_use(node: Node, spec: PodSpec) -> bool:
    """True if the empty node would be large enough and nothing on it but what keeps it empty speaks against the pod."""
    if any(amount > node.allocatable.amount(resource) for resource, amount in spec.requests.items()):
        return False
    staying = (taint for taint in node.taints if taint.key not in _TAKEN_OFF)
    return selects(spec, node) and not any(keeps_off(spec.tolerations, taint) for taint in staying)
