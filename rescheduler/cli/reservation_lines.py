"""Reservations as a table, and as one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rescheduler.cli.reservation_client import is_unobserved, status_message
from rescheduler.model.own_objects import who_waits
from rescheduler.model.reservation import Reservation, ReservationOwner
from rescheduler.model.resources import Resources
from rescheduler.reports.table import cpu, flat_table, memory
from rescheduler.visible import visible_line

NARROW: Final = ("NAME", "PHASE", "NODE", "FOR", "USED BY", "ENDS", "AGE")
WIDE: Final = (*NARROW, "ROOM", "ALLOCATED", "SAYS")


def reservations_table(rooms: Sequence[Reservation], now_s: float, *, wide: bool) -> str:
    """A table, and a line for each pod that its Reservation keeps out; ``now_s``: epoch seconds."""
    rows = [row(room, now_s, wide=wide) for room in rooms]
    waiting = ((room.name, who_waits(room.status.conditions)) for room in rooms)
    lines = "".join(f"{visible_line(f'{name}: {waits}')}\n" for name, waits in waiting if waits)
    return flat_table(WIDE if wide else NARROW, rows) + lines


def row(room: Reservation, now_s: float, *, wide: bool) -> tuple[str, ...]:
    """One Reservation."""
    status = room.status
    narrow = (
        room.name,
        str(status.phase),
        status.node_name or room.template_node or "-",
        ", ".join(owner_text(owner) for owner in room.owners) or "-",
        ", ".join(f"{o.namespace}/{o.name}" for o in status.current_owners) or "-",
        _end(room, now_s),
        _span(now_s - room.created_at_s),
    )
    if not wide:
        return narrow
    asked = room.template.requests if room.template is not None else status.allocatable
    return (*narrow, _amounts(asked), _amounts(status.allocated), status_message(room))


def reservation_line(room: Reservation) -> str:
    """One line for watching."""
    used = ", ".join(f"{o.namespace}/{o.name}" for o in room.status.current_owners)
    node = f" on {room.status.node_name}" if room.status.node_name else ""
    taken = f", used by {used}" if used else ""
    return visible_line(f"{room.name}: {room.status.phase}{node}{taken}: {status_message(room)}")


def owner_text(owner: ReservationOwner) -> str:
    """The pods that may use the room."""
    parts = []
    if owner.object is not None:
        parts.append(f"pod {_named(owner.object.namespace, owner.object.name or owner.object.uid)}")
    if owner.controller is not None:
        reference = owner.controller
        kind = (reference.kind or "controller").lower()
        parts.append(_named(reference.namespace, f"{kind}/{reference.name or reference.uid}"))
    if owner.label_selector is not None:
        requirements = owner.label_selector.requirements
        parts.append(
            " and ".join(f"{r.key} {r.operator} {'|'.join(r.values)}".rstrip() for r in requirements)
        )
    return " and ".join(parts)


def _named(namespace: str, name: str) -> str:
    return f"{namespace} {name}" if namespace else name


def _amounts(amounts: Resources) -> str:
    parts = [f"cpu {cpu(amounts.cpu_milli)}"] if amounts.cpu_milli else []
    parts += [f"memory {memory(amounts.memory_bytes)}"] if amounts.memory_bytes else []
    parts += [f"storage {memory(amounts.ephemeral_bytes)}"] if amounts.ephemeral_bytes else []
    parts += [f"{name} {amount}" for name, amount in amounts.scalars if amount]
    return ", ".join(parts) or "-"


def _end(room: Reservation, now_s: float) -> str:
    if room.status.expires_at_s is not None:
        return _span(room.status.expires_at_s - now_s)
    return "-" if is_unobserved(room) else "never"


def _span(seconds: float) -> str:
    """A duration as kubectl prints ages (45s, 12m, 5h, 3d), or ``now`` if it is not positive."""
    if seconds <= 0:
        return "now"
    for unit_s, unit, upto in ((1, "s", 120), (60, "m", 7_200), (3_600, "h", 172_800)):
        if seconds < upto:
            return f"{int(seconds // unit_s)}{unit}"
    return f"{int(seconds // 86_400)}d"
