"""Pending pods that are of use only together. Pure.

A group that pods name themselves (the PodGroup of scheduler-plugins, Volcano and Koordinator, a Job of Volcano) comes before what their
controller says. It is one of a namespace and a name, so nobody makes a gang with pods of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rescheduler.model.records import Pod
from rescheduler.planning.group_members import GroupMembers, group_name
from rescheduler.policies.proposals import Candidate

_ONE_BY_ONE: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"})
"""Kinds of controllers of which some pods are better than none."""


def gangs_of(candidates: Iterable[Candidate], members: GroupMembers) -> list[tuple[Candidate, ...]]:
    """The candidates in their order; pods of one group, one Job, or another controller that is not known to use them one by one, together.

    Those of a group of which enough run already are of use one by one.
    """
    found: dict[object, list[Candidate]] = {}
    for candidate in candidates:
        pod = candidate.pod
        alone = members.least(pod) and not members.missing(pod)
        found.setdefault(pod.key if alone else _gang(pod), []).append(candidate)
    return [tuple(gang) for gang in found.values()]


def least_of(gang: Sequence[Candidate], members: GroupMembers) -> int:
    """For how many of it there must be room, or there need be none. It may be more than there are."""
    return members.missing(gang[0].pod) or len(gang)


def words_of(pod: Pod, placed: int, of: int, least: int) -> str:
    """Why no room is made for a pod of a gang of so many. ``least``: how many of them must find room."""
    group = group_name(pod)
    controller = f"{pod.controller.kind} {pod.controller.name}" if pod.controller is not None else "its owner"
    owner = f"group {group}" if group else controller
    if least > of:
        return f"{of} of the {least} pods that {owner} still needs are pending for want of room (minMember)"
    need = f"it needs {least} more (minMember)" if least < of else "they are of use only together"
    return f"{placed} of {of} pending pods of {owner} would find room, and {need}"


def _gang(pod: Pod) -> object:
    group, owner = group_name(pod), pod.controller
    if group:
        return pod.namespace, "group", group
    return (pod.namespace, owner.uid) if owner is not None and owner.kind not in _ONE_BY_ONE else pod.key
