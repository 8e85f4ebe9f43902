"""The order in which candidates are proposed: the same whatever order the pods were read in. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final

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


Rank = tuple[bool, float, bool, int, int, str, str]
Ranked = tuple[Rank, Candidate]
"""A candidate with what it is sorted by, which costs more than the sorting."""


def by_gain(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Spares last, then highest gain first, then the least reluctant, then by name."""
    return sorted(candidates, key=_rank)


def in_order_of_class(candidates: Iterable[Candidate]) -> list[Ranked]:
    """The candidates of one class in the order of ``by_gain``, to be put together by ``in_order``."""
    return sorted(((_rank(c), c) for c in candidates), key=_FIRST)


def in_order(ranked: list[Ranked]) -> list[Candidate]:
    """Everything in the order of ``by_gain``; long runs that are in order already cost little."""
    ranked.sort(key=_FIRST)
    return [candidate for _, candidate in ranked]


_FIRST: Final = itemgetter(0)


def _rank(c: Candidate) -> Rank:
    return c.spare, -c.gain, *reluctance(c.pod), c.pod.namespace, c.pod.name
