"""How many pods of a group must run together (``minMember``), and how many do. Refusals are values. Pure but for its own sums.

The number is that of the PodGroup that the pods name, or what the pods say themselves. With fewer members the group does nothing, so
room for fewer is of no use, and no move may leave fewer. Of a group whose number is not known nothing is said here.
Pending pods that are of use only together are a gang: a group that pods name themselves comes before what their controller says. It
is one of a namespace and a name, so nobody makes a gang with pods of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from rescheduler.model.names import (
    POD_GROUP_ANNOTATIONS,
    POD_GROUP_LABELS,
    POD_GROUP_LEAST_ANNOTATIONS,
    POD_GROUP_LEAST_LABELS,
)
from rescheduler.model.pod_group import PodGroupRecord, members_of_text
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.room_pod import waiting_pod
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.proposals import Candidate

_OVER: Final = (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)


class Members(NamedTuple):
    """Of one group."""

    standing: int = 0
    """Those that have a node, or for which room is being made."""
    ready: int = 0


def group_name(pod: Pod) -> str:
    """The group that the pod names; "" if it names none."""
    return next(_names(pod), "")


class GroupMembers:
    """The groups of a snapshot, with what moves take of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._taken: Counter[ObjectKey] = Counter()
        self._least: dict[tuple[str, str, LabelSet, LabelSet], int] = {}

    def least(self, pod: Pod) -> int:
        """How many pods of its group must run; 0: it belongs to none, or that is not known."""
        key = pod.namespace, pod.spec.scheduling_group, pod.labels, pod.annotations
        known = self._least.get(key)
        if known is None:
            known = self._least[key] = self._looked_up(pod)
        return known

    def _looked_up(self, pod: Pod) -> int:
        gang = self._snapshot.scheduling_groups.get(ObjectKey(pod.namespace, pod.spec.scheduling_group))
        if gang is not None and gang.min_member:
            return gang.min_member
        names = tuple(_names(pod))
        for name in names:
            key = ObjectKey(pod.namespace, name)
            for groups in (self._snapshot.coscheduling_groups, self._snapshot.pod_groups):
                group: PodGroupRecord | None = groups.get(key)
                if group is not None and group.min_member:
                    return group.min_member
        return next(filter(None, map(members_of_text, _said(pod))), 0) if names else 0

    def missing(self, pod: Pod) -> int:
        """How many more of its group must get a node before it can run."""
        least = self.least(pod)
        return max(0, least - self._members.get(_key(pod), Members()).standing) if least else 0

    def refusal(self, pod: Pod) -> str:
        """Why its eviction would leave too few, or "". A pod that is not Ready takes nothing."""
        least = self.least(pod) if pod.ready else 0
        if not least:
            return ""
        left = self._members.get(_key(pod), Members()).ready - self._taken[_key(pod)] - 1
        if left >= least:
            return ""
        return (
            f"group {group_name(pod)} needs {least} Ready pods (minMember), and {max(left, 0)} would be left"
        )

    def add(self, pod: Pod, amount: int) -> None:
        """A move takes the pod out of its group for a while, or does not any more (-1)."""
        if pod.ready and self.least(pod):
            self._taken[_key(pod)] += amount

    @cached_property
    def _members(self) -> dict[ObjectKey, Members]:
        """Looked for once a group is asked about."""
        found: dict[ObjectKey, Members] = {}
        expected = {pod.uid for pod in self._expected()}
        for pod in self._snapshot.pods.values():
            stands = bool(pod.node) or pod.uid in expected
            if not stands or pod.terminal or pod.deleting or not group_name(pod):
                continue
            known = found.get(_key(pod), Members())
            found[_key(pod)] = Members(known.standing + 1, known.ready + pod.ready)
        return found

    def _expected(self) -> Iterator[Pod]:
        for reservation in self._snapshot.reservations.values():
            pod = waiting_pod(reservation, self._snapshot.pods)
            if pod is not None and reservation.status.phase not in _OVER and not reservation.deleting:
                yield pod


def _names(pod: Pod) -> Iterator[str]:
    labels = map(pod.labels.get, POD_GROUP_LABELS)
    return filter(
        None, (pod.spec.scheduling_group, *labels, *map(pod.annotations.get, POD_GROUP_ANNOTATIONS))
    )


def _said(pod: Pod) -> Iterator[str]:
    yield from filter(None, map(pod.labels.get, POD_GROUP_LEAST_LABELS))
    yield from filter(None, map(pod.annotations.get, POD_GROUP_LEAST_ANNOTATIONS))


def members_of(pods: Iterable[Pod], one: Pod) -> list[Pod]:
    """Those of ``pods`` that are of the group of ``one``, which names a group."""
    key = _key(one)
    return [pod for pod in pods if pod.namespace == key.namespace and group_name(pod) == key.name]


def _key(pod: Pod) -> ObjectKey:
    return ObjectKey(pod.namespace, group_name(pod))


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
