"""Which pending pod of higher priority would take capacity on a node from the pods that land there, and which of lower priority hold it. Pure.

A placeholder outranks almost every pod. While it stands, kube-scheduler can bind no pending pod to its capacity and cannot
preempt it. The pod that the capacity is meant for has its own, lower priority: as soon as it is bound in place of the
placeholder, a pending pod of higher priority preempts it.

A pending pod counts by kube-scheduler's own rules (1.37): it is not gated, its priority is higher, its preemptionPolicy is not
Never, it is not nominated to another node, no node takes it as it is, and of the pods of lower priority on the node one
of those that land must go (``scheduling.preemption``; budgets only change the order). A pod with preemptionPolicy
Never counts if it tolerates our hand-over taint: nothing keeps it out between the placeholder's end and the binding.
Left out: pods of schedulers whose rules are not known, and of groups that can never be placed together. Devices (``spec.resourceClaims``) are taken to be free on every node.

A move preempts nobody, so a node whose room pods of lower priority hold is no target; the reason names them.

Promises: the state is left as it was; without pending pods of higher priority it costs one look at the pending pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from rescheduler.model import names
from rescheduler.model.counted import plural
from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod, Taint, Toleration
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.group_members import GroupMembers, group_name, members_of
from rescheduler.scheduling.preemption import Victims, victims_on
from rescheduler.scheduling.state import SchedulingState
from rescheduler.scheduling.taint_toleration import tolerates

MOST_JUDGED: Final = 200
"""Pending pods that are judged for one question, those of the highest priority first; pods that are alike and fit nowhere are one."""
_PLACEHOLDERS: Final = (names.PRIORITY_CLASS, names.PRIORITY_CLASS_SOFT)
_TAINT: Final = Taint(names.ANNOTATION_HANDOVER_TAINT, "", "NoSchedule")
_TOLERATION: Final = Toleration(key=names.ANNOTATION_HANDOVER_TAINT, operator="Exists", effect="NoSchedule")


class HigherPriorityWaits(NamedTuple):
    """A pending pod that would take the capacity."""

    pod: Pod
    victim: Pod
    """The pod that would lose it."""
    node: str

    @property
    def settled(self) -> bool:
        """True if its scheduler has refused it already. Otherwise it may be bound elsewhere in a moment."""
        return bool(self.pod.unschedulable_message)

    @property
    def message(self) -> str:
        """What waits, and what it would do."""
        pod, victim = self.pod, self.victim
        return (
            f"pod {pod.key} of priority {pod.spec.priority} is pending and would take the capacity on node/{self.node} "
            f"from {victim.key}, whose priority is {victim.spec.priority}"
        )


def pending_above(state: SchedulingState, priority: int, node: str, own: str) -> list[Pod]:
    """Pending pods that may take capacity on ``node`` from a pod of this priority, in the order of kube-scheduler's queue.

    ``own``: the namespace of our placeholders, which preempt nobody and are ordered by the hand-overs.
    """
    judges = state.profile.judges
    found = [
        pod
        for pod in state.unplaced.values()
        if pod.spec.priority > priority
        and not pod.node
        and not pod.spec.gates
        and not pod.deleting
        and pod.nominated_node in ("", node)
        and pod.namespace != own
        and pod.spec.priority_class not in _PLACEHOLDERS
        and judges(pod.spec.scheduler_name)
        and (pod.spec.preempts or _holds_out(pod))
    ]
    return sorted(found, key=lambda pod: (-pod.spec.priority, pod.created_at_s, pod.namespace, pod.name))


def higher_priority_waits(
    state: SchedulingState,
    landed: Collection[Pod],
    node: str,
    budgets: Mapping[ObjectKey, DisruptionBudget],
    *,
    own: str = "",
    served: Collection[str] = (),
) -> HigherPriorityWaits | None:
    """The first pending pod that would take the capacity of one of ``landed``; None if none would.

    ``landed``: records that stand on ``node`` in the state, as they will once they are bound; what they replace is gone.
    ``served``: uids of pending pods for which capacity is held elsewhere.
    """
    if not landed or node not in state.node_index:
        return None
    least = min(pod.spec.priority for pod in landed)
    candidates = [pod for pod in pending_above(state, least, node, own) if pod.uid not in served]
    if not candidates:
        return None
    index, mark = state.node_index[node], state.checkpoint()
    nowhere: set[tuple[object, ...]] = set()
    try:
        for pod in candidates[:MOST_JUDGED]:
            if _kind(pod) in nowhere:
                continue
            plain = _without_claims(pod)
            asked = tolerating(plain)
            feasible = state.feasible(plain).copy()
            feasible[index] = state.feasible_at(asked, index)
            if (
                feasible.any()
            ):  # kube-scheduler binds it there, so the next one does not count on that capacity
                state.remove(pod)
                state.place(plain, state.node_names[int(np.flatnonzero(feasible)[0])])
                continue
            victim = _victim(state, asked, landed, node, budgets)
            if victim is not None and not _never_together(state, pod):
                return HigherPriorityWaits(pod, victim, node)
            nowhere.add(_kind(pod))
    finally:
        state.rollback(mark)
    return None


def _never_together(state: SchedulingState, pod: Pod) -> bool:
    """True for a pod of a group that has no room for as many as must run together, whoever is preempted: it is placed and preempts nobody.

    kube-scheduler preempts for such a group as a whole (1.37). Amounts alone are judged, with every pod of lower priority and every
    placeholder gone, and the smallest of each amount that one of the group asks for: what has room in truth is never said to have none.
    """
    if not group_name(pod):
        return False
    missing = GroupMembers(state.cluster.snapshot).missing(pod)
    members = members_of((one for one in state.unplaced.values() if not one.deleting), pod)
    if not missing or len(members) < missing:
        return bool(missing)
    most = state.allocatable("pods").copy()
    for name, amount in pod.spec.requests.items():
        asked = min((amount, *(one.spec.requests.amount(name) for one in members)))
        if not asked:
            continue
        left = state.allocatable(name).copy()
        for kind in state.cluster.classes:
            if kind.spec.priority >= pod.spec.priority and not kind.holds_room:
                np.subtract.at(left, kind.where, kind.held.amount(name))
        np.minimum(most, left // asked, out=most)
    usable = [node.usable for node in state.nodes.records]
    return int(most.clip(0)[usable].sum()) < missing


def _victim(
    state: SchedulingState,
    pod: Pod,
    landed: Iterable[Pod],
    node: str,
    budgets: Mapping[ObjectKey, DisruptionBudget],
) -> Pod | None:
    """Which of ``landed`` would lose its capacity to the pod."""
    if pod.spec.preempts:
        found = victims_on(state, pod, node, budgets)
        if not isinstance(found, Victims):
            return None
        return next((one for one in landed if any(one is victim for victim in found.pods)), None)
    lower = [one for one in landed if one.spec.priority < pod.spec.priority]
    mark = state.checkpoint()
    for one in lower:
        state.remove(one)
    takes = state.feasible_at(pod, state.node_index[node])
    state.rollback(mark)
    return lower[0] if takes and lower else None


def _holds_out(pod: Pod) -> bool:
    """True for a pod that our hand-over taint does not keep off a node."""
    return tolerates(pod.spec.tolerations, _TAINT)


def _without_claims(pod: Pod) -> Pod:
    """Where its devices are is not judged: a node is not safe from it because of that."""
    if not pod.spec.resource_claims:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=False))


def tolerating(pod: Pod) -> Pod:
    """The pod as it is judged once our hand-over taints, which stand for seconds, are gone."""
    tolerations = (*pod.spec.tolerations, _TOLERATION)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, tolerations=tolerations))


def _kind(pod: Pod) -> tuple[object, ...]:
    """Equal for pods that are judged alike. Equal specs are one object (``model.decode.interning``)."""
    claims = pod.name if pod.spec.volumes else ""
    return pod.namespace, id(pod.spec), pod.labels, claims, pod.nominated_node


MOST_ASKED: Final = 20
"""Kinds of pods for which it is said in one plan."""
_NODES: Final = 6
"""Nodes that are looked at for each: those with pods of the lowest priority."""
_NAMES: Final = 3


def behind_lower_priority(state: SchedulingState, snapshot: Snapshot, coming: Pod, own: str) -> str:
    """The end of a message: on which node the pod would fit without pods of lower priority; "" if that is not seen.

    ``own``: the node that it is to leave.
    """
    if not coming.spec.preempts:
        return ""
    for node in _nodes(state, coming, own):
        found = victims_on(state, coming, node, snapshot.budgets)
        if isinstance(found, Victims) and found.pods:
            some = ", ".join(f"{pod.key} (priority {pod.spec.priority})" for pod in found.pods[:_NAMES])
            more = len(found.pods) - _NAMES
            return (
                f"; node/{node} would have room without {plural(len(found.pods), 'pod')} of lower priority, which"
                f" a move does not preempt: {some}{f' and {more} more' if more > 0 else ''}"
            )
    return ""


def _nodes(state: SchedulingState, coming: Pod, own: str) -> list[str]:
    """Nodes that may be targets, those with pods of the lowest priority first, then by name."""
    by_priority: dict[int, set[int]] = {}
    for kind in state.cluster.classes:
        if kind.spec.priority < coming.spec.priority:
            by_priority.setdefault(kind.spec.priority, set()).update(kind.nodes)
    found: dict[str, None] = {}
    for _, nodes in sorted(by_priority.items()):
        names = (state.node_names[node] for node in nodes if state.nodes.usable[node])
        found.update(dict.fromkeys(sorted(name for name in names if name != own)))
        if len(found) >= _NODES:
            break
    return list(found)[:_NODES]
