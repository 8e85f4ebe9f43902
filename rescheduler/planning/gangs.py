"""Pending pods that are of use only together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rescheduler.model.records import Pod
from rescheduler.policies.proposals import Candidate

_ONE_BY_ONE: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds of controllers of which some pods are better than none."""


def gangs_of(candidates: Iterable[Candidate]) -> list[tuple[Candidate, ...]]:
    """The candidates in their order; pods of one Job, or of another controller that is not known to use them one by one, together."""
    found: dict[object, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(_gang(candidate.pod), []).append(candidate)
    return [tuple(members) for members in found.values()]


def words_of(pod: Pod, placed: int, of: int) -> str:
    """Why no room is made for a pod of a gang."""
    owner = f"{pod.controller.kind} {pod.controller.name}" if pod.controller is not None else "its owner"
    return f"{placed} of {of} pending pods of {owner} would find room, and they are of use only together"


def _gang(pod: Pod) -> object:
    owner = pod.controller
    return (pod.namespace, owner.uid) if owner is not None and owner.kind not in _ONE_BY_ONE else pod.key
