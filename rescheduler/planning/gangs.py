"""Pending pods that are of use only together. Pure.

A group that pods name themselves (the PodGroup of scheduler-plugins, Volcano and Koordinator, a Job of Volcano) comes before what their
controller says. It is one of a namespace and a name, so nobody makes a gang with pods of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rescheduler.model.names import POD_GROUP_ANNOTATIONS, POD_GROUP_LABELS
from rescheduler.model.records import Pod
from rescheduler.policies.proposals import Candidate

_ONE_BY_ONE: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds of controllers of which some pods are better than none."""


def gangs_of(candidates: Iterable[Candidate]) -> list[tuple[Candidate, ...]]:
    """The candidates in their order; pods of one group, one Job, or another controller that is not known to use them one by one, together."""
    found: dict[object, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(_gang(candidate.pod), []).append(candidate)
    return [tuple(members) for members in found.values()]


def words_of(pod: Pod, placed: int, of: int) -> str:
    """Why no room is made for a pod of a gang."""
    group = group_name(pod)
    controller = f"{pod.controller.kind} {pod.controller.name}" if pod.controller is not None else "its owner"
    owner = f"group {group}" if group else controller
    return f"{placed} of {of} pending pods of {owner} would find room, and they are of use only together"


def group_name(pod: Pod) -> str:
    """The group that the pod names; "" if it names none."""
    labels = (pod.labels.get(key) for key in POD_GROUP_LABELS)
    notes = (pod.annotations.get(key) for key in POD_GROUP_ANNOTATIONS)
    return next(filter(None, (*labels, *notes)), "")


def _gang(pod: Pod) -> object:
    group, owner = group_name(pod), pod.controller
    if group:
        return pod.namespace, "group", group
    return (pod.namespace, owner.uid) if owner is not None and owner.kind not in _ONE_BY_ONE else pod.key
