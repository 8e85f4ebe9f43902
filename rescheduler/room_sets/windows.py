"""The life of a ReservationWindow: the table of its phases, and its step. Pure.

Which phase it is in follows from its schedule, the time and the pods that were placed; the status only remembers what cannot
be seen any more. So a controller that was away, or crashed at any moment, goes on as if it had looked all the time:

- A window whose time has passed meanwhile is not made up (Event ``Missed``); one that is still open is gathered for at once.
- A clock that is set back by at most ``SET_BACK_S`` ends nothing; set back further, the window begins anew when it is time.
- A changed spec is followed at once: Reservations that were made from another one are given back, unless a pod has claimed them.
  Pods that were placed count on as long as the start of the window stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from rescheduler.calls.call import Call
from rescheduler.calls.objects import write_status
from rescheduler.model.counted import plural, verb
from rescheduler.model.decode.template_fault import template_fault
from rescheduler.model.event import Event
from rescheduler.model.names import RESERVEABLE
from rescheduler.model.own_objects import Condition, condition, told
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow, WindowPhase, WindowStatus
from rescheduler.model.schedule import Schedule, ScheduleError, Window, schedule_of
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.model.times import format_seconds
from rescheduler.reservations.reservation_lifecycle import CONDITION_READY, ReservationReason
from rescheduler.room_sets.gathering import WAITS_ON, GatherStep, gather
from rescheduler.room_sets.places import Outlook, Place
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

SET_BACK_S: Final = 600.0
"""How far a clock may be set back without ending a window that is gathered for or open."""
_GATHERED: Final = "Gathered"
_VALID: Final = "Valid"
LOOKS_ELSEWHERE_S: Final = 15.0
"""How often rooms that wait are looked for on other nodes."""
_PATIENCE_S: Final = 60.0
"""A room that nothing is kept for by then is refused by its node."""
_MOST_SHUT: Final = 8
"""Rooms that their nodes refuse, besides the others."""

_P = WindowPhase
RUNNING: Final = frozenset({_P.GATHERING, _P.OPEN, _P.FILLED})
"""The window of the status is kept in them until its end."""
HOLDING: Final = frozenset({_P.GATHERING, _P.OPEN})
"""Rooms are held in them; in all others none are."""

RESERVEABLE_PODS: Final = (
    ReservationOwner(label_selector=LabelSelector((Requirement(RESERVEABLE, Operator.IN, ("true",)),))),
)
"""The owners of a window that names none."""


class Moment(NamedTuple):
    """What the phase depends on."""

    spec: ReservationWindow
    fault: str
    """What is wrong with the schedule; "": nothing."""
    window: Window | None
    """That which is running, else the next one."""
    placed: int
    now_s: float


PHASES: Final[Sequence[tuple[Callable[[Moment], bool], WindowPhase]]] = (
    (lambda m: bool(m.fault), _P.INVALID),
    (lambda m: m.spec.suspend, _P.SUSPENDED),
    (lambda m: m.window is None, _P.ENDED),
    (lambda m: m.now_s < _gather_from(m), _P.WAITING),
    (lambda m: m.placed >= m.spec.pods, _P.FILLED),
    (lambda m: m.window is not None and m.now_s < m.window.start_s, _P.GATHERING),
    (lambda _: True, _P.OPEN),
)
"""The first row whose condition holds is the phase."""

EVENTS: Final[Mapping[WindowPhase, tuple[str, str]]] = {
    _P.INVALID: ("Invalid", "no window will open: {fault}"),
    _P.GATHERING: ("Gathering", "gathers {rooms} until {start}"),
    _P.OPEN: ("Opened", "open until {end}: {gathered} of {wanted} rooms are held"),
    _P.FILLED: ("Filled", "{pods_were} placed; the rest is given back"),
    _P.WAITING: ("Closed", "{pods_were} placed; the next window begins at {start}"),
    _P.ENDED: ("Ended", "no window will open any more"),
}
"""Event of a phase that is entered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWindow:
    """One ReservationWindow and what there is for it."""

    window: ReservationWindow
    rooms: Sequence[Reservation]
    """Those that were made for it."""
    taken: frozenset[str] = frozenset()
    """Names of all Reservations."""
    placed: frozenset[str] = frozenset()
    """Uids of owners that are bound and were created since ``gather_from`` of the window."""
    outlooks: Callable[[Resources, bool], Sequence[Outlook] | None] = lambda _room, _missing: ()
    """What each node will have at the start, in rooms of that size; None: it is not looked now. True: rooms are missing."""


def running(window: ReservationWindow, now_s: float) -> tuple[Window | None, str]:
    """The window that is gathered for or open, else the next one; and what is wrong with the schedule."""
    try:
        schedule = schedule_of(window)
    except ScheduleError as error:
        return None, str(error)
    return _current(window, schedule, now_s), ""


def gather_from_s(window: ReservationWindow, found: Window) -> float:
    """When gathering begins, in whole seconds, as the API writes times."""
    return found.start_s - float(max(0, int(window.start_reserve_ago_s)))


def counts_from_s(window: ReservationWindow, found: Window) -> float:
    """Since when pods that are created count as placed: gathering begins no earlier than there is a window to gather for."""
    return max(gather_from_s(window, found), window.created_at_s)


def recipe_of(window: ReservationWindow, found: Window) -> Recipe | None:
    """What the Reservations of that window are made from; None: the template cannot be read."""
    if window.template_raw and window.template is None:
        return None
    template = window.template if window.template is not None and window.template_raw else PodSpec()
    return Recipe(
        kind="ReservationWindow",
        name=window.name,
        uid=window.uid,
        template=window.template_raw,
        room=template.requests if window.template_raw else part_of(window.resources, window.pods),
        owners=owners_of(window),
        node_selector=window.node_selector,
        expires_at_s=found.end_s,
        gathers=True,
        makes_room=window.make_room,
    )


def part_of(total: Resources, parts: int) -> Resources:
    """The sum in equal parts, each amount rounded up."""
    parts = max(1, parts)
    return msgspec.structs.replace(total.each(lambda amount: -(-amount // parts)), pods=0)


def step(observed: ObservedWindow, now_s: float) -> RoomSetStep:
    """One step of a ReservationWindow."""
    window = observed.window
    if window.unreadable or window.deleting:
        return RoomSetStep()
    found, fault = running(window, now_s)
    recipe = recipe_of(window, found) if found is not None else None
    if found is not None and recipe is None:
        fault = template_fault(window.template_raw)
    placed = _placed(observed, found)
    moment = Moment(window, fault, found, len(placed), now_s)
    phase = next(phase for holds, phase in PHASES if holds(moment))
    wanted = max(0, window.pods - len(placed)) if phase in HOLDING else 0
    have = changes(observed.rooms, recipe, wanted, placed=frozenset(placed))
    create, moved = _orders(observed, have, recipe, wanted, now_s)
    status = _status(moment, phase, placed, have, wanted)
    return RoomSetStep(
        create=create,
        delete=(*have.surplus, *moved),
        status=write_status(window, status) if status != window.status else None,
        event=_event(moment, phase, status),
        wake_at_s=_wake_at_s(moment, phase),
    )


def _current(window: ReservationWindow, schedule: Schedule, now_s: float) -> Window | None:
    status = window.status
    if status.phase in RUNNING and status.observed_generation == window.generation:
        start_s, end_s = status.start_s, status.end_s
        if start_s is not None and end_s is not None and now_s < end_s:
            was = Window(start_s, end_s)
            if now_s >= gather_from_s(window, was) - SET_BACK_S:
                return was
    return schedule.window_at(now_s) or schedule.next_after(now_s)


def _gather_from(moment: Moment) -> float:
    window = moment.window
    return gather_from_s(moment.spec, window) - _slack(moment, window) if window is not None else 0.0


def _slack(moment: Moment, window: Window) -> float:
    """What has begun goes on although the clock was set back a little."""
    status = moment.spec.status
    same = status.start_s == window.start_s and status.observed_generation == moment.spec.generation
    return SET_BACK_S if same and status.phase in RUNNING else 0.0


def _placed(observed: ObservedWindow, found: Window | None) -> tuple[str, ...]:
    """All that were seen in this window, also those that are gone; as many as are asked for."""
    status = observed.window.status
    before = status.placed_pods if found is not None and status.start_s == found.start_s else ()
    landed = {
        owner.uid
        for room in observed.rooms
        if _landed(room) and found is not None and room.expires_at_s == found.end_s
        for owner in room.status.current_owners
    }  # fmt: skip
    new = sorted((observed.placed | landed) - set(before))
    return (*before, *new)[: max(observed.window.pods, len(before))]


def _landed(room: Reservation) -> bool:
    """True if its owners are bound: a room for several pods goes on after they are."""
    if room.allocate_once:
        return room.status.phase is ReservationPhase.SUCCEEDED
    ready = condition(room.status.conditions, CONDITION_READY)
    return ready is not None and ready.reason == ReservationReason.AVAILABLE


def _orders(
    observed: ObservedWindow, have: Changes, recipe: Recipe | None, wanted: int, now_s: float
) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    """What is waited for on further nodes, and what is given back for it (``gathering``)."""
    held = sum(child.rooms for child in have.live if child.held or child.claimed or child.asked)
    if recipe is None or held >= wanted or have.refused:
        return (), ()
    outlooks = observed.outlooks(recipe.room, have.missing > 0)
    if outlooks is None:
        return (), ()
    waiting = [
        child for child in have.live if not (child.held or child.claimed or child.asked) and child.rooms
    ]
    beyond = [child for child in waiting if beyond_share(child)]
    shut = [child for child in waiting if child not in beyond and _is_shut(observed.window, child, now_s)]
    closed = {child.room.template_node for child in shut}
    open_ = [outlook for outlook in outlooks if outlook.node not in closed]
    within = [child for child in waiting if child not in shut and child not in beyond]
    missing = max(0, wanted - held - sum(child.rooms for child in within))
    found = GatherStep()
    if not (beyond and missing):  # else a further room would wait for the share, too
        waits_on = 0 if recipe.makes_room else WAITS_ON
        found = gather(open_, within, held=held, wanted=wanted, more=not beyond, waits_on=waits_on)
    return _created(recipe, found.create, observed.taken), (
        # A few stay, so that their nodes are not tried again and again; and one of them may take its room after all.
        *(given_back(child, "its node refuses it") for child in shut[:-_MOST_SHUT]),
        # One stays, so that it stays known that no further node is to be waited on.
        *(given_back(child, "it is beyond the share") for child in beyond[max(1, missing) :]),
        *(given_back(child, "other nodes are likelier to have room in time") for child in found.leave),
    )


def _is_shut(window: ReservationWindow, child: Child, now_s: float) -> bool:
    """True if its node refuses it."""
    room = child.room
    return (
        room.status.phase is ReservationPhase.PENDING
        and room.template_node not in ("", window.template_node)
        and now_s - room.created_at_s >= _PATIENCE_S
    )


def _created(recipe: Recipe, places: Sequence[Place], taken: frozenset[str]) -> tuple[Call, ...]:
    """One Reservation for each room; those of several pods are one for each node."""
    names = recipe.names(taken)
    orders = [
        (place.node, place.rooms if recipe.shared else 1)
        for place in places
        for _ in range(1 if recipe.shared else place.rooms)
    ]
    return tuple(recipe.create(next(names), rooms, node) for node, rooms in orders[:MOST_AT_ONCE])


def _status(
    moment: Moment, phase: WindowPhase, placed: tuple[str, ...], have: Changes, wanted: int
) -> WindowStatus:
    window, found = moment.spec, moment.window
    held = [child for child in have.live if child.held]
    gathered = min(wanted, sum(child.rooms for child in held))
    status = WindowStatus(
        phase=phase,
        observed_generation=window.generation,
        start_s=found.start_s if found is not None else None,
        end_s=found.end_s if found is not None else None,
        gather_from_s=gather_from_s(window, found) if found is not None else None,
        wanted=wanted,
        gathered=gathered,
        placed_pods=placed,
        nodes=tuple(sorted({child.room.status.node_name for child in held if child.room.status.node_name})),
        conditions=window.status.conditions,
    )
    valid = Condition(
        _VALID, "False" if moment.fault else "True", "Invalid" if moment.fault else "Valid", moment.fault
    )
    gather = _gathered(phase, have, gathered, wanted)
    return msgspec.structs.replace(
        status, conditions=told(told(status.conditions, valid, moment.now_s), gather, moment.now_s)
    )


def _gathered(phase: WindowPhase, have: Changes, gathered: int, wanted: int) -> Condition:
    if phase not in HOLDING:
        return Condition(_GATHERED, "False", phase.value, "nothing is held")
    if have.refused:
        return Condition(_GATHERED, "False", "Invalid", have.refused)
    if gathered >= wanted:
        return Condition(
            _GATHERED, "True", "AllHeld", verb(wanted, "the room is held", f"all {wanted:,} rooms are held")
        )
    waits: dict[str, int] = {}
    for child in have.live:
        if not child.held and child.room.template_node:
            waits[child.room.template_node] = waits.get(child.room.template_node, 0) + child.rooms
    named = ", ".join(f"{node} ({count})" for node, count in sorted(waits.items())[:5])
    where = f"; some are to become free on {named}" if named else ""
    return Condition(_GATHERED, "False", "RoomIsMissing", f"{gathered} of {wanted} rooms are held{where}")


def _event(moment: Moment, phase: WindowPhase, status: WindowStatus) -> Event | None:
    before = moment.spec.status
    if (
        before.phase is _P.WAITING
        and before.end_s is not None
        and before.end_s <= moment.now_s
        and before.start_s != status.start_s
    ):
        words = f"nobody looked at the window from {_at(before.start_s)} to {_at(before.end_s)}; it is not made up for"
        return told_of(moment.spec, "Missed", words, warning=True)
    told = EVENTS.get(phase)
    if told is None or phase is before.phase or (phase is _P.WAITING and before.phase not in RUNNING):
        return None
    reason, words = told
    placed = len(before.placed_pods if phase is _P.WAITING else status.placed_pods)
    said = words.format(
        fault=moment.fault, wanted=status.wanted, gathered=status.gathered, rooms=plural(status.wanted, "room"),
        start=_at(status.start_s), end=_at(status.end_s),
        pods_were=f"{plural(placed, 'pod')} {verb(placed, 'was', 'were')}",
    )  # fmt: skip
    lacks = phase is _P.OPEN and status.gathered < status.wanted
    return told_of(moment.spec, reason, said, warning=lacks or phase is _P.INVALID)


def _at(at_s: float | None) -> str:
    return format_seconds(at_s) if at_s is not None else "never"


def _wake_at_s(moment: Moment, phase: WindowPhase) -> float | None:
    found = moment.window
    if found is None or phase in (_P.SUSPENDED, _P.INVALID):
        return None
    # While room is held, also for what no event tells: a node that refuses, or is late.
    again_s = moment.now_s + LOOKS_ELSEWHERE_S if phase in HOLDING else found.end_s
    ahead = (gather_from_s(moment.spec, found), found.start_s, found.end_s, again_s)
    return min((at_s for at_s in ahead if at_s > moment.now_s), default=None)


def owners_of(window: ReservationWindow) -> tuple[ReservationOwner, ...]:
    """Who may use the rooms."""
    return window.owners or RESERVEABLE_PODS
