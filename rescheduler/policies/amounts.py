"""Amounts of a resource by its name. Pure."""

from __future__ import annotations

from rescheduler.model.resources import Resources


def amount(held: Resources, resource: str) -> int:
    """What a pod takes of a resource; every pod takes one of "pods"."""
    match resource:
        case "cpu":
            return held.cpu_milli
        case "memory":
            return held.memory_bytes
        case "ephemeral-storage":
            return held.ephemeral_bytes
        case "pods":
            return 1
        case _:
            return held.scalar(resource)
