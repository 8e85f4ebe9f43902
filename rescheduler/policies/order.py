"""The order in which candidates are proposed: the same whatever order the pods were read in. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from rescheduler.model.names import DESCHEDULER_PREFER_NO_EVICTION, POD_DELETION_COST
from rescheduler.model.records import Pod
from rescheduler.model.selectors import NO_LABELS
from rescheduler.policies.classes import PodClass
from rescheduler.policies.wanted import Batch, Wanted


def reluctance(pod: Pod | PodClass) -> tuple[bool, int, int]:
    """Sorts pods that are better left alone last: asked for, costly to delete, of high priority."""
    notes = pod.annotations
    if notes is NO_LABELS:
        return False, pod.spec.priority, 0
    cost = notes.get(POD_DELETION_COST) or "0"
    digits = cost.removeprefix("-")
    parsed = int(cost) if digits.isascii() and digits.isdigit() else 0
    return notes.get(DESCHEDULER_PREFER_NO_EVICTION) is not None, pod.spec.priority, parsed


def by_gain(batches: Iterable[Batch]) -> Wanted:
    """Spares last, then highest gain first, then the least reluctant, then by name."""
    tiers: defaultdict[tuple[object, ...], list[Batch]] = defaultdict(list)
    for batch in batches:
        tiers[(batch.spare, -batch.gain, *reluctance(batch.kind), batch.kind.namespace)].append(batch)
    return Wanted([tiers[rank] for rank in sorted(tiers)])


def by_name(pods: Iterable[Pod]) -> list[Pod]:
    """Pods of one namespace in order."""
    return sorted(pods, key=_NAME)


_NAME: Final = attrgetter("name")
