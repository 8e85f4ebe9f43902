"""Where the rooms of a window are gathered that are not held yet: on which nodes it waits, and which it leaves. Pure.

- A node that will have rooms by the start, as its pods have declared, is certain: it gets as many, and no others are needed.
- Where not enough is certain, nobody knows on which node a pod ends next. So for each such room several nodes are waited on, the
  likeliest; the first that has a whole room is taken. What they keep, together with what is held, is never more than one room
  above what the window is for: once it is, the least likely one is left, and what it kept is everybody's.
- What has gathered somewhere is counted as unused there, so a node that has half a room already is not left for one that has
  nothing. Nodes that are equally likely are not changed for each other.
- A node that has a room now is certain. So rooms that are set free elsewhere meanwhile are taken, also after the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rescheduler.room_sets.places import WHOLE, Outlook, Place, chosen, hopeful
from rescheduler.room_sets.rooms import Child

WAITS_ON: Final = 4
"""On so many nodes is waited for a room that is not certain anywhere."""
_MOST_WAITED_ON: Final = 32
ABOVE: Final = 1
"""So many rooms more than are needed may be kept in pieces: of the last room a half would be all that may be kept else."""


class GatherStep(NamedTuple):
    """What is to be changed."""

    create: tuple[Place, ...] = ()
    """Node "": wherever it becomes free."""
    leave: tuple[Child, ...] = ()


def gather(
    outlooks: Sequence[Outlook],
    waiting: Sequence[Child],
    *,
    held: int,
    wanted: int,
    more: bool = True,
    waits_on: int = WAITS_ON,
) -> GatherStep:
    """``waiting``: those that hold nothing yet and may be given back. ``held``: rooms of all others.

    ``more``: if not, no further nodes are waited on; for one that becomes certain another one is left.
    ``waits_on``: nodes for each room that is not certain; 0 if running pods are moved for it, to whichever node that is.
    """
    certain = chosen({o.node: o.rooms for o in outlooks}, wanted - held)
    uncertain = wanted - held - sum(place.rooms for place in certain)
    likely = hopeful(outlooks)
    watched = likely[: min(uncertain * waits_on, _MOST_WAITED_ON)]
    anywhere = max(0, uncertain - len(watched))
    most = sum(place.rooms for place in certain) + len(watched) + anywhere

    there = Counter[str]()
    for child in waiting:
        there[child.room.template_node] += child.rooms
    if not more:
        most = min(most, max(wanted - held, there.total()))
    create = [
        Place(place.node, place.rooms - there[place.node])
        for place in certain
        if place.rooms > there[place.node]
    ]
    count = there.total() + sum(place.rooms for place in create)
    known = {o.node: o for o in outlooks}
    if _kept(known, waiting) + WHOLE <= (wanted - held + ABOVE) * WHOLE:
        due = Counter({place.node: place.rooms for place in certain})
        further = [Place(node, 1) for node in watched if there[node] <= due[node]]
        further += [Place("", 1)] * max(0, anywhere - there[""])
        further = further[: max(0, most - count)]
        create += further
        count += len(further)
    best = dict.fromkeys([*(place.node for place in certain), *likely])
    ranks = {node: rank for rank, node in enumerate(best)}
    by_worth = sorted(waiting, key=lambda child: (ranks.get(_node_of(child), len(ranks)), child.room.name))
    leave: list[Child] = []
    for child in reversed(by_worth):
        if child.rooms <= count - most:
            leave.append(child)
            count -= child.rooms
    leave += _beyond(known, [c for c in by_worth if c not in leave], {p.node for p in certain}, wanted - held)
    return GatherStep(tuple(create), tuple(leave))


def _beyond(
    known: dict[str, Outlook], by_worth: list[Child], certain: set[str], needed: int
) -> Iterable[Child]:
    """Those that are left because all together keep too much."""
    left = list(by_worth)
    for child in reversed(by_worth):
        if _kept(known, left) <= (needed + ABOVE) * WHOLE:
            return
        if _node_of(child) not in certain and _kept(known, [child]):
            left.remove(child)
            yield child


def _kept(known: dict[str, Outlook], waiting: Iterable[Child]) -> int:
    """What is kept for them, in thousandths of a room."""
    there = Counter[str]()
    for child in waiting:
        there[_node_of(child)] += child.rooms
    return sum(min(known[node].free, rooms * WHOLE) for node, rooms in there.items() if node in known)


def _node_of(child: Child) -> str:
    return child.room.status.node_name or child.room.template_node
