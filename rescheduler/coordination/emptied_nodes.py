"""Nodes that moves of ours empty stay empty for a while: the table of states of one node, and its step. Pure.

A node is cordoned, or tainted, from the first eviction on, if nobody else had cordoned it: its pods may leave one after the
other, over several decisions, and meanwhile it must not be filled again. Each move that empties it, and the last one, begins its time
anew. It is given back when its time is over, and at once if its other pods cannot leave, if a pod comes or could use it, or if the
configuration does not ask for it any more. If somebody else takes the cordon or the taint away, that holds. With a node that
is taken away its note goes.

All that is known stands in the note on the node (``model.kept_empty``), which is written with the cordon or the taint in one
request.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from rescheduler.calls.call import AnyCall
from rescheduler.calls.nodes import give_node_back, keep_node_empty
from rescheduler.model import names
from rescheduler.model.event import Event, about
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.never_moves import NeverMoves, never_moves
from rescheduler.model.records import Node, Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.decided import BeingEmptied
from rescheduler.planning.past_moves import FINISHED as ENDED_MOVE
from rescheduler.policies.keeping_empty import KeepingRule
from rescheduler.reservations.reservation_lifecycle import FINISHED as ENDED_ROOM
from rescheduler.scheduling.node_affinity import selects
from rescheduler.scheduling.taint_toleration import keeps_off

EMPTIED_WITHIN_S: Final = 300.0
"""A node counts as emptied for so long after the last move from it has landed."""
RENEWED_AFTER_S: Final = 60.0
"""A note is not written again for less."""
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
    left_s: float | None = None
    """When a pod left it last by moves of that policy; None: not within ``EMPTIED_WITHIN_S``."""
    in_use: str = ""
    """Why it is not empty and does not become so, for people; "": it is, or the pods there are to leave."""
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
    if rule is None or observed.left_s is None or observed.in_use or observed.wanted_by:
        return ()
    if not node.usable or not node.may_be_taken_away:
        return ()  # somebody else has cordoned it, or wants it left alone
    kept = KeptEmpty(rule.hold, now_s + rule.kept_for_s)
    until = format_seconds(kept.until_s)
    told = f"{kept.hold.lower()} until {until}, because its pods are moved away"
    return keep_node_empty(node, kept), _event(node, "KeptEmpty", told)


def _kept(observed: ObservedNode, now_s: float) -> tuple[AnyCall, ...]:
    node, kept = observed.node, observed.node.kept_empty
    if kept is None:
        return ()
    why = _why_given_back(observed, now_s)
    if not why:
        return _longer(observed, kept)
    left = KeptEmpty(Hold.GIVEN_BACK, kept.until_s) if now_s < kept.until_s else None
    return give_node_back(node, left), _event(node, "GivenBack", f"not kept empty any more: {why}")


def _longer(observed: ObservedNode, kept: KeptEmpty) -> tuple[AnyCall, ...]:
    """Its time begins anew with each pod that leaves."""
    rule, left_s = observed.rule, observed.left_s
    if rule is None or left_s is None or left_s + rule.kept_for_s - kept.until_s < RENEWED_AFTER_S:
        return ()
    return (keep_node_empty(observed.node, KeptEmpty(kept.hold, left_s + rule.kept_for_s)),)


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
        return observed.in_use
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
    return Event(about(node), reason, message)


_STEPS: Final[Mapping[KeepingState, Callable[[ObservedNode, float], tuple[AnyCall, ...]]]] = {
    KeepingState.OPEN: _open,
    KeepingState.KEPT: _kept,
    KeepingState.GIVEN_BACK: _given_back,
}


# Observing


def observed_nodes(
    snapshot: Snapshot,
    unbound: Iterable[Pod],
    rules: Iterable[KeepingRule],
    emptying: AbstractSet[BeingEmptied] | None,
    now_s: float,
) -> Iterator[ObservedNode]:
    """The nodes that have a note or that a pod left a moment ago. Looks at all nodes, and at all pods if there is such a node.

    ``unbound``: pods without a node. ``emptying``: what the last decision empties; None: there was none yet.
    """
    rules = tuple(rules)
    noted = {name: node for name, node in snapshot.nodes.items() if node.kept_empty is not None}
    left_s: dict[str, float] = {}
    for name, policy, at_s in _left(snapshot.migrations.values(), now_s):
        node = snapshot.nodes.get(name)
        if node is not None and node.created_at_s <= at_s and _rule_for(node, rules, policy) is not None:
            left_s[name] = max(at_s, left_s.get(name, at_s))
    nodes = {**{name: snapshot.nodes[name] for name in left_s}, **noted}
    if not nodes:
        return
    use = _use(snapshot, nodes)
    waiting = [p for p in unbound if p.unschedulable_message and not (p.deleting or p.nominated_node)]
    rooms = [room for room in snapshot.reservations.values() if _finds_no_room(room, now_s)]
    for name, node in sorted(nodes.items()):
        rule, found = _rule_for(node, rules), use[name]
        leaving = rule is not None and (
            rule.policy in found.leave_by or emptying is None or (rule.policy, name) in emptying
        )
        yield ObservedNode(
            node=node,
            rule=rule,
            left_s=left_s.get(name),
            in_use=found.why(leaving=leaving),
            wanted_by=_wanted_by(node, found.free, waiting, rooms, snapshot.migrations.values()),
        )


def _left(moves: Iterable[PodMigration], now_s: float) -> Iterator[tuple[str, str, float]]:
    """Nodes that pods have left a moment ago by moves that policies planned, each with the policy, and when the pod left.

    A node that joined later under the same name is another one, which somebody has just brought.
    """
    for move in moves:
        status = move.status
        if move.requested or not status.source_node:
            continue
        left_s = status.evicted_at_s or status.eviction_requested_at_s or status.finished_at_s
        landed = status.phase is MigrationPhase.SUCCEEDED and now_s - status.finished_at_s < EMPTIED_WITHIN_S
        if landed or (left_s and status.phase not in ENDED_MOVE):
            yield status.source_node, move.policy, left_s


def _rule_for(node: Node, rules: Iterable[KeepingRule], policy: str = "") -> KeepingRule | None:
    return next((rule for rule in rules if policy in ("", rule.policy) and rule.holds_for(node)), None)


@dataclass(slots=True)
class _Use:
    """Who uses one node."""

    free: Resources
    """What pods leave of it."""
    stands: bool = False
    """A pod that counts, or a move from it is under way."""
    comes: bool = False
    """A pod or a room is to come."""
    leave_by: set[str] = field(default_factory=set)
    """Policies whose moves from it are under way."""

    def why(self, *, leaving: bool) -> str:
        """Why it is not empty, and is not to be; ``leaving``: what stands there is to leave."""
        if self.comes:
            return "a pod is to come"
        return "pods that stand there cannot leave" if self.stands and not leaving else ""


def _use(snapshot: Snapshot, nodes: Mapping[str, Node]) -> Mapping[str, _Use]:
    found = {name: _Use(node.allocatable) for name, node in nodes.items()}
    for pod in snapshot.pods.values():
        use = found.get(pod.node or pod.nominated_node)
        if use is None or pod.terminal:
            continue
        if pod.node:
            use.free = use.free - pod.held
        if not pod.deleting and never_moves(pod) not in _STAYING:
            use.stands |= bool(pod.node)
            use.comes |= not pod.node
    rooms = (r.status.node_name for r in snapshot.reservations.values() if r.status.phase not in ENDED_ROOM)
    moves = [move for move in snapshot.migrations.values() if move.status.phase not in ENDED_MOVE]
    for name in found.keys() & {*rooms, *(move.status.node_name for move in moves)}:
        found[name].comes = True
    for move in moves:
        if (use := found.get(move.status.source_node)) is not None:
            use.stands = True
            use.leave_by |= set() if move.requested else {move.policy}
    return found


def _finds_no_room(room: Reservation, now_s: float) -> bool:
    waits = room.status.phase is ReservationPhase.PENDING and not room.deleting
    return waits and now_s - room.created_at_s >= _ROOM_WAITS_S


def _wanted_by(
    node: Node,
    free: Resources,
    waiting: Iterable[Pod],
    rooms: Iterable[Reservation],
    moves: Iterable[PodMigration],
) -> str:
    for pod in waiting:
        if _could_use(node, free, pod.spec):
            return f"pod {pod.key}"
    for room in rooms:
        if room.template_node in ("", node.name) and room.template and _could_use(node, free, room.template):
            return f"Reservation {room.name}"
    for move in moves:
        if move.target_node == node.name and move.status.phase not in ENDED_MOVE:
            return f"PodMigration {move.key}"
    return ""


def _could_use(node: Node, free: Resources, spec: PodSpec) -> bool:
    """True if the node has room and nothing on it but what keeps it empty speaks against the pod."""
    if any(amount > free.amount(resource) for resource, amount in spec.requests.items()):
        return False
    staying = (taint for taint in node.taints if taint.key not in _TAKEN_OFF)
    return selects(spec, node) and not any(keeps_off(spec.tolerations, taint) for taint in staying)
