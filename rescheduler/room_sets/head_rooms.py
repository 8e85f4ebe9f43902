"""The step of a HeadRoom: so many rooms stand at all times, and bend to pods that need them more. Pure.

- A room that is used is made anew, wherever the rules find a place; a room whose node is lost is placed anew by itself.
- A pod that is pending for want of room, has a higher priority than the rooms' template (or any priority, with
  ``yieldTo: AnyPod``) and is none of the owners gets as many rooms of one node back as it needs. Meanwhile nothing is made anew,
  so that the place goes to the pod. It is done once for a pod: one that does not come then is kept out by something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rescheduler.calls.call import Call
from rescheduler.calls.objects import write_status
from rescheduler.model.counted import verb
from rescheduler.model.decode.template_fault import template_fault
from rescheduler.model.event import Event
from rescheduler.model.own_objects import Condition, condition, told
from rescheduler.model.records import Node, Pod, PriorityClass
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import priority_of_pods
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, YieldTo
from rescheduler.reservations.reservation_lifecycle import CONDITION_READY, CONDITION_SCHEDULED
from rescheduler.room_sets.node_use import Amounts
from rescheduler.room_sets.places import may_use
from rescheduler.room_sets.rooms import (
    MOST_AT_ONCE,
    Changes,
    Child,
    Recipe,
    RoomSetStep,
    beyond_share,
    changes,
    given_back,
    told_of,
)

YIELDS_FOR_S: Final = 10.0
"""How long nothing is made anew after a room was given back to a pod."""
_COMPLETE: Final = "Complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedHeadRoom:
    """One HeadRoom and what there is for it."""

    head_room: HeadRoom
    rooms: Sequence[Reservation]
    """Those that were made for it."""
    taken: frozenset[str] = frozenset()
    """Names of all Reservations."""
    refused: Sequence[Pod] = ()
    """Pods that are pending for want of room and get rooms back (``entitled``), those of the highest priority first."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    idle: Mapping[str, Amounts] = field(default_factory=dict)
    """What is unused on the nodes of its rooms; known only if there are such pods."""
    given: Mapping[str, float] = field(default_factory=dict)
    """Uids of pods that rooms were given back to, and when."""


def recipe_of(head_room: HeadRoom) -> Recipe | None:
    """What its Reservations are made from; None: the template cannot be read."""
    if head_room.template is None:
        return None
    return Recipe(
        kind="HeadRoom",
        name=head_room.name,
        uid=head_room.uid,
        template=head_room.template_raw,
        room=head_room.template.requests,
        owners=head_room.owners,
        node_selector=head_room.node_selector,
        spread_over=head_room.spread_over,
        makes_room=head_room.make_room,
    )


def entitled(head_room: HeadRoom, pod: Pod, classes: Mapping[str, PriorityClass]) -> bool:
    """True if the rooms are not to keep that pod out. Their priority is the one that a pod of the template would get by its class."""
    own = priority_of_pods(head_room.template, classes) if head_room.template is not None else 0
    return head_room.yield_to is YieldTo.ANY_POD or pod.spec.priority > own


def step(observed: ObservedHeadRoom, now_s: float) -> RoomSetStep:
    """One step of a HeadRoom."""
    head_room = observed.head_room
    if head_room.unreadable or head_room.deleting:
        return RoomSetStep()
    recipe = recipe_of(head_room)
    have = changes(observed.rooms, recipe, head_room.rooms if recipe is not None else 0)
    gives, given = _given(observed, have)
    yields = bool(given) or any(now_s - at_s < YIELDS_FOR_S for at_s in observed.given.values())
    create: tuple[Call, ...] = ()
    if recipe is not None and not yields and not any(map(beyond_share, have.live)):
        names = recipe.names(observed.taken)
        create = tuple(recipe.create(next(names), 1, "") for _ in range(min(have.missing, MOST_AT_ONCE)))
    status = _status(observed, have, recipe, now_s)
    return RoomSetStep(
        create=create,
        delete=(*have.surplus, *gives),
        given=given,
        status=write_status(head_room, status) if status != head_room.status else None,
        event=_event(observed, gives),
        wake_at_s=now_s + YIELDS_FOR_S if yields else None,
    )


def _given(observed: ObservedHeadRoom, have: Changes) -> tuple[tuple[Call, ...], tuple[str, ...]]:
    """Rooms that pods get back now, and the pods."""
    by_node: dict[str, list[Child]] = {}
    for child in have.live:
        if child.held and not child.claimed:
            by_node.setdefault(child.room.status.node_name, []).append(child)
    idle = {node: dict(amounts) for node, amounts in observed.idle.items()}
    gives: list[Call] = []
    pods: list[str] = []
    for pod in observed.refused:
        if pod.uid in observed.given:
            continue
        options = [
            (count, name)
            for name in sorted(by_node)
            if (node := observed.nodes.get(name)) is not None and may_use(node, pod.spec, ())
            for count in [_needed(pod, by_node[name], idle.get(name, {}))]
            if count
        ]
        if not options:
            continue
        count, name = min(options)
        why = f"pod {pod.key} needs it"
        gives += [given_back(child, why) for child in by_node[name][:count]]
        for child in by_node[name][:count]:
            _change(idle[name], child.room.status.allocatable.items(), 1)
        _change(idle[name], pod.spec.requests.items(), -1)
        by_node[name] = by_node[name][count:]
        pods.append(pod.uid)
    return tuple(gives), tuple(pods)


def _needed(pod: Pod, rooms: Sequence[Child], idle: Mapping[str, int]) -> int:
    """How many of the rooms must go so that the pod fits; 0: it fits without, or not even then."""
    free = dict(idle)
    for count in range(len(rooms) + 1):
        if count:
            _change(free, rooms[count - 1].room.status.allocatable.items(), 1)
            free["pods"] = free.get("pods", 0) + 1
        if all(free.get(name, 0) >= amount for name, amount in pod.spec.requests.items() if amount):
            return count
    return 0


def _change(total: Amounts, amounts: Iterable[tuple[str, int]], sign: int) -> None:
    for name, amount in amounts:
        if amount:
            total[name] = total.get(name, 0) + sign * amount


def _status(observed: ObservedHeadRoom, have: Changes, recipe: Recipe | None, now_s: float) -> HeadRoomStatus:
    head_room = observed.head_room
    held = [child for child in have.live if child.held]
    standing = min(len(held), head_room.rooms)
    new = _complete(have, recipe, head_room.template_raw, standing, head_room.rooms)
    return HeadRoomStatus(
        observed_generation=head_room.generation,
        wanted=head_room.rooms,
        standing=standing,
        nodes=tuple(sorted(child.room.status.node_name for child in held)),
        conditions=told(head_room.status.conditions, new, now_s),
    )


def _complete(have: Changes, recipe: Recipe | None, template: bytes, standing: int, wanted: int) -> Condition:
    if recipe is None or have.refused:
        words = have.refused or template_fault(template)
        return Condition(_COMPLETE, "False", "Invalid", words)
    if standing >= wanted:
        return Condition(
            _COMPLETE, "True", "AllStand", verb(wanted, "the room stands", f"all {wanted:,} rooms stand")
        )
    why = next(filter(None, (_why(child) for child in have.live if not child.held)), "")
    return Condition(_COMPLETE, "False", "RoomIsMissing", f"{standing} of {wanted} rooms stand{why}")


def _why(child: Child) -> str:
    conditions = child.room.status.conditions
    told = condition(conditions, CONDITION_SCHEDULED)
    if told is None or told.status == "True":
        told = condition(conditions, CONDITION_READY)
    return f"; {told.message}" if told is not None and told.message else ""


def _event(observed: ObservedHeadRoom, gives: Sequence[Call]) -> Event | None:
    if not gives:
        return None
    words = "; ".join(f"Reservation {give.key.name}: {give.why}" for give in gives[:5])
    return told_of(observed.head_room, "GivenBack", f"given back: {words}")
