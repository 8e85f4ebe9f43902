"""What a Reservation, window or head-room is in words: for which pods it is, and what it holds. Pure."""

from __future__ import annotations

from rescheduler.model.reservation import ReservationOwner
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import Operator, Requirement
from rescheduler.reports.table import cpu, memory


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
