"""The order in which candidates are proposed: the same whatever order the pods were read in. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.names import DESCHEDULER_PREFER_NO_EVICTION, POD_DELETION_COST
from rescheduler.model.records import Pod
from rescheduler.model.selectors import NO_LABELS
from rescheduler.policies.framework import Candidate


def reluctance(pod: Pod) -> tuple[bool, int, int]:
    """Sorts pods that are better left alone last: asked for, costly to delete, of high priority."""
    notes = pod.annotations
    if notes is NO_LABELS:
        return False, pod.spec.priority, 0
    cost = notes.get(POD_DELETION_COST) or "0"
    digits = cost.removeprefix("-")
    parsed = int(cost) if digits.isascii() and digits.isdigit() else 0
    return notes.get(DESCHEDULER_PREFER_NO_EVICTION) is not None, pod.spec.priority, parsed


def by_gain(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Spares last, then highest gain first, then the least reluctant, then by name."""
    return sorted(
        candidates,
        key=lambda c: (c.spare, -c.gain, reluctance(c.pod), c.pod.namespace, c.pod.name),
    )
