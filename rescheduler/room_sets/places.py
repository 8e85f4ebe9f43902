"""On which nodes rooms are gathered: by future idle, few big nodes rather than many pieces (rows V15 to V18). Pure.

Future idle is what is unused and what running pods have declared to give back in time. It is counted in whole rooms, in every
dimension (A6), so that no node is chosen that could hold no pod; allocatable alone says nothing (A7). Nodes are taken in the
order of the number of rooms that they will have (A8), each with as many as it will have, until there are enough.

Where pods have not declared enough, nodes are ranked by what would still be missing for one more room; of equal ones that comes
first whose pods without a declared end hold most: there one of them ends soonest. Pods that declare a later end come last: they may
end before it.

Whether a node really takes a room is judged by all rules when its Reservation is placed; here only what needs no other pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rescheduler.model.records import Node, PodSpec
from rescheduler.model.resources import Resources
from rescheduler.room_sets.node_use import Amounts, Idle
from rescheduler.scheduling.node_affinity import selects
from rescheduler.scheduling.taint_toleration import keeps_off

WHOLE: Final = 1000
"""One room; parts of rooms are counted in thousandths."""


class Place(NamedTuple):
    """Rooms of one node."""

    node: str
    rooms: int


class Outlook(NamedTuple):
    """What one node has and will have for a window."""

    node: str
    free: int = 0
    """Of a room, at this moment, in thousandths."""
    rooms: int = 0
    """Whole rooms that it will have by the start, as declared."""
    lacks: int = WHOLE
    """Thousandths that one more room will lack then."""
    chances: int = 0
    """How many thousandths of what is lacking are held by pods that may end any time."""
    hopes: bool = False
    """Pods that end some time hold what is lacking."""


def may_use(node: Node, spec: PodSpec | None, node_selector: Iterable[tuple[str, str]]) -> bool:
    """True if labels and taints of the node let a pod of ``spec`` in; None: a pod without any wishes."""
    wanted = spec or PodSpec()
    if not node.usable or any(node.labels.get(key) != value for key, value in node_selector):
        return False
    return selects(wanted, node) and not any(keeps_off(wanted.tolerations, taint) for taint in node.taints)


Sizes = Sequence[tuple[str, int]]
"""What one room holds of each resource that it holds any of; of ``pods`` it always takes one."""


def sizes_of(room: Resources) -> Sizes:
    """Of one room."""
    return [(name, amount) for name, amount in room.items() if amount and name != "pods"]


def rooms_in(idle: Amounts, sizes: Sizes) -> int:
    """How many whole rooms there are in it."""
    found = idle.get("pods", 0)
    for name, amount in sizes:
        found = min(found, idle.get(name, 0) // amount)
    return max(0, found)


def outlook(node: str, idle: Idle, sizes: Sizes) -> Outlook:
    """Of one node."""
    rooms = rooms_in(idle.then, sizes)
    free = min((idle.now.get(name, 0) * WHOLE // amount for name, amount in sizes), default=WHOLE)
    lacks, chances, hopes = 0, WHOLE * WHOLE, True
    for name, amount in (*sizes, ("pods", 1)):
        missing = amount * (rooms + 1) - idle.then.get(name, 0)
        if missing > 0:
            lacks = max(lacks, -(-missing * WHOLE // amount))
            then = idle.then.get(name, 0)
            chances = min(chances, (idle.perhaps.get(name, 0) - then) * WHOLE // missing)
            hopes = hopes and idle.at_last.get(name, 0) - then >= missing
    return Outlook(node, max(0, free), rooms, lacks, chances, hopes)


def chosen(rooms: Mapping[str, int], wanted: int) -> list[Place]:
    """The nodes with most rooms first, until there are enough; less if all of them have fewer. ``rooms``: by node."""
    found: list[Place] = []
    for node, count in sorted(rooms.items(), key=lambda item: (-item[1], item[0])):
        if wanted <= 0 or count <= 0:
            break
        found.append(Place(node, min(count, wanted)))
        wanted -= count
    return found


def hopeful(found: Iterable[Outlook]) -> list[str]:
    """Nodes that may have one more room than is declared, the likeliest first."""
    may = (o for o in found if o.hopes)
    return [o.node for o in sorted(may, key=lambda o: (o.lacks, -o.chances, o.node))]
