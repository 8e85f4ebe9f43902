"""Whether and where one pod fits, outside of a plan. Pure.

For a move that was asked for, for the last look before each step of a move, and for Reservations. The caller hands
in a state in which the rooms of all that is under way are taken (rooms in hand-over, rooms chosen a moment ago), and which moves are
under way: their pods may be there or not. Other Reservations and nominated pods keep their room. The state is left as it was. A preallocation (rows K14, K22, K55) is judged by
all filters except the amount that is free now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from rescheduler.model.never_moves import NeverMoves, never_moves
from rescheduler.model.node_marks import reports_fault
from rescheduler.model.records import Node, Pod
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.model.room_pod import pinned
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.avoid import RefusedTargets, holds
from rescheduler.planning.platforms import Platforms
from rescheduler.planning.priorities import tolerating
from rescheduler.planning.start_first_mode import may_start_beside, unadopted_of
from rescheduler.planning.transient_pods import Relying, TransientPods
from rescheduler.replacements.identity import keeps_name
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import BoolArray, FilterResult, FloatArray, Refusal
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.node_resources_fit import checked_requests
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState

PLUGIN: Final = "Rescheduler"
"""Named as the plugin of refusals that are not the scheduler's."""
_UNFIT_BECAUSE: Final = (
    "not Ready, unschedulable, being deleted, or about to be deleted by a node autoscaler (a taint says so)"
)
UNFIT: Final = f"every node that would take it is {_UNFIT_BECAUSE}"
SOME_UNFIT: Final = f"that would take it: {_UNFIT_BECAUSE}"
_BETWEEN_PODS: Final = "required affinity or anti-affinity between pods does not hold"
_PASSING: Final = "rules between pods must hold whether pods that are terminating, being moved or not bound yet are there or not"
_OLD_POD: Final = "as long as the old pod still ends"
_NEVER_LEAVE: Final = (NeverMoves.DAEMON_POD, NeverMoves.STATIC_POD)

Taken = Callable[[str], str]
"""Why the capacity of a node (by name) is not to be had, although the pod fits there; "": it is."""


def not_taken(_node: str) -> str:
    """Every node that fits will do."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The node that our own rules choose, or why there is none."""

    node: str = ""
    """Its name; "" if there is none."""
    message: str = ""
    """Why there is none, in the manner of kube-scheduler."""
    failed: bool = False
    """A call failed and is tried again: ``message`` is its answer, and nodes were not looked at."""


def move_refusal(
    replacements: Replacements,
    state: SchedulingState,
    pod: Pod,
    target: str,
    placeholder: Pod | None = None,
    *,
    under_way: TransientPods | None = None,
) -> Refusal | None:
    """Why the replacement of ``pod`` would not fit ``target`` now, or None if it would.

    ``placeholder``: holds its room, and gives it up. ``under_way``: moves of other pods, on which it must not rely, and which must not
    rely on ``pod``. Judged with the old pod gone, and while it still ends. The hand-over taint of another
    Reservation on ``target`` does not count: it stands for seconds, and a replacement is released with the toleration.
    """
    if pod.node == target:
        return Refusal(PLUGIN, "the pod is on the target already", unresolvable=True)
    snapshot = replacements.snapshot
    unfit = _unfit(snapshot, state, target)
    if unfit is not None:
        return unfit
    found = replacements.of(pod)
    if found.pod is None:
        return Refusal(PLUGIN, f"the pod {found.message}", unresolvable=True)
    replacement, passing = tolerating(found.pod), under_way or no_moves(snapshot, state)
    mark = state.checkpoint()
    try:
        if placeholder is not None:
            take_off(state, placeholder)
        stands = take_off(state, pod)
        refusal = _refusal(state, replacement, target)
        if refusal is not None:
            return refusal
        refusal = _passing_refusal(passing, state, replacement, target)
        if refusal is None and stands:
            refusal = _while_it_ends(passing, state, pod, replacement, target)
        if refusal is None and stands and (relies := passing.leaning_on(pod, replacement, target)):
            refusal = Refusal(PLUGIN, needed_by(relies))
        return refusal
    finally:
        state.rollback(mark)


def start_first_refusal(
    replacements: Replacements,
    state: SchedulingState,
    pod: Pod,
    target: str,
    under_way: TransientPods | None = None,
) -> Refusal | None:
    """Why mode StartFirst would not bring ``pod`` to ``target`` now, or None if it would.

    Judged as the replacement is before its adoption, next to the running old pod; and as the pod that stays on the
    target once the old one is gone. ``under_way`` and hand-over taints as for ``move_refusal``.
    """
    snapshot, found = replacements.snapshot, replacements.of(pod)
    unfit = _unfit(snapshot, state, target)
    if unfit is not None:
        return unfit
    if found.pod is None:
        return Refusal(PLUGIN, f"the pod {found.message}", unresolvable=True)
    replacement, passing = tolerating(found.pod), under_way or no_moves(snapshot, state)
    unadopted = unadopted_of(pod, replacement, snapshot)
    if unadopted is None:
        return Refusal(PLUGIN, "the ReplicaSet of the pod is not known", unresolvable=True)
    started = pinned(unadopted, target)
    refusal = _refusal(state, started, target) or _passing_refusal(passing, state, started, target)
    if refusal is not None:
        return refusal._replace(reason=f"{refusal.reason}, next to the running old pod")
    mark = state.checkpoint()
    take_off(state, pod)
    refusal = _refusal(state, replacement, target) or _passing_refusal(passing, state, replacement, target)
    state.rollback(mark)
    return refusal and refusal._replace(reason=f"{refusal.reason}, once the old pod is gone")


def no_moves(snapshot: Snapshot, state: SchedulingState) -> TransientPods:
    """No other pod is moved."""
    return TransientPods(snapshot, state, done=False)


def needed_by(relying: Relying) -> str:
    """Why a pod does not move on which the move of another one relies."""
    pod = relying.move.pod
    return f"the move of pod {pod.namespace}/{pod.name} relies on it ({relying.rule})"


def pod_refusal(
    state: SchedulingState, pod: Pod, target: str, under_way: TransientPods | None = None
) -> Refusal | None:
    """Why a pending pod would not fit ``target`` as everything is, or None if it would. ``under_way``: whose pods may be there or not."""
    if target not in state.node_index:
        return Refusal(PLUGIN, "there is no such node", unresolvable=True)
    refusal = _refusal(state, pod, target)
    if refusal is not None or under_way is None:
        return refusal
    return _passing_refusal(under_way, state, pod, target)


def take_off(state: SchedulingState, pod: Pod) -> bool:
    """The pod is taken as gone; False if it stood on no node."""
    try:
        state.remove(pod)
    except LookupError:
        return False
    return pod.node in state.node_index


def choose_target(
    replacements: Replacements,
    state: SchedulingState,
    pod: Pod,
    *,
    starts_first: bool = False,
    under_way: TransientPods | None = None,
    taken: Taken = not_taken,
) -> Choice:
    """Where the scheduler's rules and points would put the replacement of a bound pod, off its node.

    It fits there as ``move_refusal`` asks, with ``starts_first`` as ``start_first_refusal`` does. Nodes with a hint to
    avoid the pod's controller, and those that did not take a placeholder for it lately, are taken last. ``taken``: which nodes are none, although they fit.
    """
    snapshot, found = replacements.snapshot, replacements.of(pod)
    if found.pod is None:
        return Choice(message=f"the pod {found.message}")
    passing = under_way or no_moves(snapshot, state)
    if not starts_first:
        return _choose(snapshot, state, pod, found.pod, passing=passing, taken=taken)
    unadopted = unadopted_of(pod, found.pod, snapshot)
    if unadopted is None:
        return Choice(message="the ReplicaSet of the pod is not known")
    return _choose_beside(
        snapshot, state, pod, replacement=found.pod, unadopted=unadopted, passing=passing, taken=taken
    )


def _choose(
    snapshot: Snapshot,
    state: SchedulingState,
    pod: Pod,
    replacement: Pod,
    *,
    passing: TransientPods,
    taken: Taken,
) -> Choice:
    mark = state.checkpoint()
    try:
        stands = take_off(state, pod)
        result = state.filter(replacement)
        feasible = _elsewhere(state, pod, result.feasible)
        if not feasible.any():
            return Choice(message=_summary(state, replacement, result))
        feasible &= state.nodes.usable
        if not feasible.any():
            return Choice(message=UNFIT)
        platforms = Platforms(state.nodes, snapshot.pods.values())
        built_for = platforms.allowed(pod, replacement)
        if built_for is not None:
            others = feasible & ~built_for
            feasible &= built_for
            if not feasible.any():
                return Choice(message=f"the nodes that would take it {platforms.refusal(pod, others)}")
        passing.restrict(replacement, feasible)
        why = _PASSING
        if feasible.any() and stands and not keeps_name(pod):
            passing.restrict_affinity(replacement, feasible, pod)
            why = f"{_BETWEEN_PODS}, {_OLD_POD}"
        if not feasible.any():
            return Choice(message=_unavailable(feasible, why))

        def unfit(node: str) -> str:
            relies = passing.leaning_on(pod, replacement, node) if stands else None
            return needed_by(relies) if relies is not None else taken(node)

        return _best(state, replacement, feasible, avoided=_taken_last(snapshot, state, pod), taken=unfit)
    finally:
        state.rollback(mark)


def _choose_beside(
    snapshot: Snapshot,
    state: SchedulingState,
    pod: Pod,
    *,
    replacement: Pod,
    unadopted: Pod,
    passing: TransientPods,
    taken: Taken,
) -> Choice:
    feasible = _elsewhere(state, pod, may_start_beside(state, unadopted)) & state.nodes.usable
    built_for = Platforms(state.nodes, snapshot.pods.values()).allowed(pod, unadopted)
    if built_for is not None:
        feasible &= built_for
    passing.restrict_affinity(unadopted, feasible)
    mark = state.checkpoint()
    while feasible.any():
        take_off(state, pod)
        feasible &= state.feasible(replacement)
        passing.restrict(replacement, feasible)
        choice = _best(state, replacement, feasible, avoided=_taken_last(snapshot, state, pod), taken=taken)
        state.rollback(mark)
        if not choice.node:
            return choice
        started = pinned(unadopted, choice.node)
        if not (
            _refusal(state, started, choice.node) or _passing_refusal(passing, state, started, choice.node)
        ):
            return choice
        feasible[state.node_index[choice.node]] = False
    return Choice(message=f"0/{len(feasible)} nodes would take the replacement next to the running old pod")


def choose_room(
    state: SchedulingState,
    template: Pod,
    avoided: Callable[[Node], bool] = lambda _: False,
    taken: Taken = not_taken,
    under_way: TransientPods | None = None,
) -> Choice:
    """Where the room for a pod that does not exist yet should be held.

    ``template``: a pending pod record made from the Reservation's template. ``avoided``: nodes to take last.
    ``taken``: which nodes are none, although they fit. ``under_way``: moves whose pods may be there or not.
    """
    result = state.filter(template)
    if not result.feasible.any():
        return Choice(message=_summary(state, template, result))
    feasible = result.feasible.copy()
    if under_way is not None:
        under_way.restrict(template, feasible)
        if not feasible.any():
            return Choice(message=_unavailable(feasible, _PASSING))
    return _best(state, template, feasible, avoided=avoided, taken=taken)


def _taken_last(snapshot: Snapshot, state: SchedulingState, pod: Pod) -> Callable[[Node], bool]:
    uid = pod.controller.uid if pod.controller is not None else ""
    refused, now_s = RefusedTargets(state.nodes, snapshot, state.ended.values()), snapshot.taken_at_s

    def last(node: Node) -> bool:
        hinted = bool(uid) and bool(holds(node.avoid, pod.namespace, uid, now_s))
        return hinted or refused.closed(pod, node.name)

    return last


def _best(
    state: SchedulingState,
    pod: Pod,
    feasible: BoolArray,
    *,
    avoided: Callable[[Node], bool],
    taken: Taken,
) -> Choice:
    """The best usable node that nobody else would take, those to avoid last; or why the best one is none."""
    usable, last = feasible.copy(), np.zeros_like(feasible)
    for i in np.flatnonzero(feasible).tolist():
        node = state.nodes.records[i]
        usable[i], last[i] = node.usable, avoided(node) or reports_fault(node)
    if not usable.any():
        return Choice(message=UNFIT)
    why = ""
    for nodes in (usable & ~last, usable & last):
        while nodes.any():
            name = most_points(state, pod, nodes)
            other = taken(name)
            if not other:
                return Choice(node=name)
            why = why or other
            nodes[state.node_index[name]] = False
    return Choice(message=why)


def most_points(state: SchedulingState, pod: Pod, nodes: BoolArray) -> str:
    """Of these nodes, of which there is one at least, the one that the scheduler scores highest; of equal ones the first by name."""
    points = np.where(nodes, state.score(pod, nodes).total, -1)
    return min(state.node_names[i] for i in np.flatnonzero(points == points.max()))


def _unavailable(nodes: BoolArray, why: str) -> str:
    return f"0/{len(nodes)} nodes are available: {why}"


def _summary(state: SchedulingState, pod: Pod, result: FilterResult) -> str:
    """In the manner of kube-scheduler: how many nodes each plugin refuses, and with which words, say."""
    total = len(state.node_names)
    if result.everywhere is not None:
        return f"0/{total} nodes are available: {result.everywhere.reason}"
    parts: list[str] = []
    for code in np.flatnonzero(np.bincount(result.refused_by[result.refused_by >= 0])).tolist():
        refused = np.flatnonzero(result.refused_by == code)
        reasons = state.refusals(pod, state.node_names[int(refused[0])], result)
        words = ", ".join(refusal.reason for refusal in reasons)
        parts.append(f"{len(refused)} {result.plugins[code]} (such as: {words})")
    return f"0/{total} nodes are available: {'; '.join(parts) or 'none is left'}"


def _elsewhere(state: SchedulingState, pod: Pod, feasible: BoolArray) -> BoolArray:
    """All of them but the node of the pod."""
    others = feasible.copy()
    if pod.node in state.node_index:
        others[state.node_index[pod.node]] = False
    return others


def _only(state: SchedulingState, target: str) -> BoolArray:
    nodes = np.zeros(state.nodes.size, dtype=np.bool_)
    nodes[state.node_index[target]] = True
    return nodes


def _passing_refusal(
    passing: TransientPods, state: SchedulingState, replacement: Pod, target: str
) -> Refusal | None:
    """Why rules about other pods may not hold any more, or not yet, when the replacement comes."""
    nodes = _only(state, target)
    passing.restrict_affinity(replacement, nodes)
    if not nodes.any():
        return Refusal(InterPodAffinity.name, _PASSING, unresolvable=True)
    passing.restrict(replacement, nodes)
    return None if nodes.any() else Refusal(PodTopologySpread.name, _PASSING)


def _while_it_ends(
    passing: TransientPods, state: SchedulingState, pod: Pod, replacement: Pod, target: str
) -> Refusal | None:
    """Why its old pod may keep it off. It is gone before a StatefulSet creates the next one; others share a node's room only there."""
    nodes = _only(state, target)
    if not keeps_name(pod):
        passing.restrict_affinity(replacement, nodes, pod)
    return None if nodes.any() else Refusal(InterPodAffinity.name, f"{_BETWEEN_PODS}, {_OLD_POD}")


def _unfit(snapshot: Snapshot, state: SchedulingState, target: str) -> Refusal | None:
    node = snapshot.nodes.get(target)
    if node is None or target not in state.node_index:
        return Refusal(PLUGIN, f"there is no node/{target}", unresolvable=True)
    if node.usable:
        return None
    return Refusal(PLUGIN, f"node/{target} {node.unusable_because}", unresolvable=True)


def _refusal(state: SchedulingState, pod: Pod, target: str) -> Refusal | None:
    result = state.filter(pod)
    if result.feasible[state.node_index[target]]:
        return None
    refusals = state.refusals(pod, target, result)
    reasons = ", ".join(refusal.reason for refusal in refusals)
    return refusals[0]._replace(reason=reasons)


def choose_preallocation(state: SchedulingState, snapshot: Snapshot, pod: Pod, only: str = "") -> Choice:
    """The node that is large enough and on which the least is missing. ``only``: the only node to consider, if given.

    Pending pods that are nominated somewhere count as if they were bound, so that preallocations spread. The room must fit beside
    bound pods that never leave their node.
    """
    feasible = state.filter(weightless(pod)).feasible.copy()
    if only:
        feasible &= np.array([name == only for name in state.node_names], dtype=bool)
    if not feasible.any():
        return Choice(message=_refused(only, "can take it, even without the pods that run there"))
    pods = [p for p in snapshot.pods.values() if not p.terminal]
    counted = [p for p in pods if p.nominated_node and not p.node]
    kept = [p for p in pods if p.node and never_moves(p) in _NEVER_LEAVE]
    large = feasible.copy()
    missing = np.zeros(len(state.node_names))
    for resource, amount in checked_requests(pod.spec.requests, state.profile):
        large &= state.allocatable(resource) - _held(state, resource, kept) >= amount
        missing = np.maximum(missing, _lack(state, resource, amount, counted))
    if not large.any():
        beside = " beside the pods that never leave" if kept else ""
        return Choice(message=_refused(only, f"is large enough for it{beside}"))
    return Choice(node=state.node_names[int(np.where(large, missing, np.inf).argmin())])


def weightless(pod: Pod) -> Pod:
    """The pod without requests and host ports, which running pods could block."""
    spec = msgspec.structs.replace(pod.spec, requests=NO_RESOURCES, host_ports=())
    return msgspec.structs.replace(pod, spec=spec).with_state(held=NO_RESOURCES)


def _held(state: SchedulingState, resource: str, pods: Iterable[Pod]) -> FloatArray:
    """What the pods hold on each node."""
    held = np.zeros(len(state.node_names))
    for pod in pods:
        at = state.node_index.get(pod.node)
        if at is not None:
            held[at] += dict(pod.held.items()).get(resource, 0)
    return held


def _lack(state: SchedulingState, resource: str, amount: int, nominated: Iterable[Pod]) -> FloatArray:
    """The share of each node's total that is still missing; 0 or less if nothing is."""
    total = state.allocatable(resource)
    used = state.requested(resource) + amount
    for pod in nominated:
        at = state.node_index.get(pod.nominated_node)
        if at is not None:
            used[at] += dict(pod.spec.requests.items()).get(resource, 0)
    lack: FloatArray = (used - total) / np.maximum(total, 1)
    return lack


def _refused(only: str, what: str) -> str:
    return f"the template's node/{only} is not one that {what}" if only else f"no node {what}"
