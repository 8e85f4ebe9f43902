"""What a Reservation, window or head-room is in words: for which pods it is, what it holds, and until when. Pure."""

from __future__ import annotations

from rescheduler.model.own_objects import condition
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import Operator, Requirement
from rescheduler.reports.table import cpu, memory
from rescheduler.visible import visible_line


def owner_text(owner: ReservationOwner) -> str:
    """The pods that may use the room."""
    parts = []
    if owner.object is not None:
        name = owner.object.name or owner.object.uid
        parts.append(_named(owner.object.namespace, f"pod/{name}" if name else "pods"))
    if owner.controller is not None:
        reference = owner.controller
        kind = (reference.kind or "controller").lower()
        parts.append(_named(reference.namespace, f"{kind}/{reference.name or reference.uid}"))
    if owner.label_selector is not None:
        parts.append(",".join(map(_requirement, owner.label_selector.requirements)))
    return " and ".join(parts)


def _named(namespace: str, name: str) -> str:
    return f"{name} of namespace {namespace}" if namespace else name


def _requirement(one: Requirement) -> str:
    """As kubectl writes it."""
    match one.operator:
        case Operator.EXISTS:
            return one.key
        case Operator.DOES_NOT_EXIST:
            return f"!{one.key}"
        case Operator.IN if len(one.values) == 1:
            return f"{one.key}={one.values[0]}"
        case Operator.IN | Operator.NOT_IN:
            return f"{one.key} {one.operator.lower()} ({','.join(one.values)})"
    return f"{one.key} {one.operator} {'|'.join(one.values)}"


def amounts(held: Resources) -> str:
    """CPU, memory and the rest, with units."""
    parts = [f"cpu {cpu(held.cpu_milli)}"] if held.cpu_milli else []
    parts += [f"memory {memory(held.memory_bytes)}"] if held.memory_bytes else []
    parts += [f"storage {memory(held.ephemeral_bytes)}"] if held.ephemeral_bytes else []
    parts += [f"{name} {amount}" for name, amount in held.scalars if amount]
    return ", ".join(parts) or "-"


def status_message(reservation: Reservation) -> str:
    """Message of the condition that explains the phase; while it is Pending that of the scheduler."""
    status = reservation.status
    if not status.conditions:
        return "no controller has processed it yet"
    for kind in (
        ("Scheduled", "Ready") if status.phase is ReservationPhase.PENDING else ("Ready", "Scheduled")
    ):
        found = condition(status.conditions, kind)
        if found is not None and (found.message or found.reason):
            return found.message or found.reason
    return str(status.phase)


def reservation_line(room: Reservation) -> str:
    """One line for watching."""
    used = ", ".join(f"{o.namespace}/{o.name}" for o in room.status.current_owners)
    node = f" on {room.status.node_name}" if room.status.node_name else ""
    taken = f", used by {used}" if used else ""
    return visible_line(f"{room.name}: {room.status.phase}{node}{taken}: {status_message(room)}")


def is_unobserved(reservation: Reservation) -> bool:
    """True if no controller has written its status."""
    return not reservation.status.conditions and not reservation.status.observed_generation


def until(room: Reservation, now_s: float) -> str:
    """In how long it expires."""
    if room.status.expires_at_s is not None:
        return span(room.status.expires_at_s - now_s)
    return "-" if is_unobserved(room) else "never"


def span(seconds: float) -> str:
    """A duration as kubectl prints ages (45s, 12m, 5h, 3d), or ``now`` if it is not positive."""
    if seconds <= 0:
        return "now"
    for unit_s, unit, upto in ((1, "s", 120), (60, "m", 7_200), (3_600, "h", 172_800)):
        if seconds < upto:
            return f"{int(seconds // unit_s)}{unit}"
    return f"{int(seconds // 86_400)}d"
