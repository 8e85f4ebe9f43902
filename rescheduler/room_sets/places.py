"""On which nodes rooms are gathered: by future idle, few big nodes rather than many pieces (rows V15 to V18). Pure.

Future idle is what is unused and what running pods have declared to give back in time. It is counted in whole rooms, in every
dimension (A6), so that no node is chosen that could hold no pod; allocatable alone says nothing (A7). Nodes are taken in the
order of the number of rooms that they will have (A8), each with as many as it will have, until there are enough.

Whether a node really takes a room is judged by all rules when its Reservation is placed; here only what needs no other pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rescheduler.model.records import Node, Pod, PodSpec
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.room_sets.releases import released_by
from rescheduler.scheduling.taint_toleration import keeps_off

Amounts = dict[str, int]
"""Resource -> amount, CPU in milli; of the resources that a room has, and ``pods``."""


class Place(NamedTuple):
    """Rooms of one node."""

    node: str
    rooms: int


class Idle(NamedTuple):
    """What is unused on a node."""

    now: Amounts
    then: Amounts
    """With what running pods have declared to give back in time."""


def may_use(node: Node, spec: PodSpec | None, node_selector: Iterable[tuple[str, str]]) -> bool:
    """True if labels and taints of the node let a pod of ``spec`` in; None: a pod without any wishes."""
    wanted = (*node_selector, *(spec.node_selector if spec is not None else ()))
    if not node.usable or any(node.labels.get(key) != value for key, value in wanted):
        return False
    affinity = spec.node_affinity if spec is not None else None
    if affinity is not None and not affinity.matches(node.labels, node.name):
        return False
    tolerations = spec.tolerations if spec is not None else ()
    return not any(keeps_off(tolerations, taint) for taint in node.taints)


def idle_of(
    snapshot: Snapshot, nodes: Mapping[str, Node], names: Sequence[str], *, by_s: float, now_s: float
) -> dict[str, Idle]:
    """Of each of the nodes, and of each of the resources ``names``. Pods that are nominated to a node count there."""
    used: dict[str, Amounts] = {name: dict.fromkeys((*names, "pods"), 0) for name in nodes}
    freed: dict[str, Amounts] = {}
    for pod in snapshot.pods.values():
        here = used.get(pod.node or pod.nominated_node)
        if here is None or pod.terminal:
            continue
        _add(here, pod, names)
        if pod.node and released_by(pod, snapshot, by_s, now_s):
            back = freed.setdefault(pod.node, dict.fromkeys((*names, "pods"), 0))
            _add(back, pod, names)
    found: dict[str, Idle] = {}
    for name, node in nodes.items():
        now = {r: node.allocatable.amount(r) - amount for r, amount in used[name].items()}
        found[name] = Idle(now, {r: amount + freed.get(name, {}).get(r, 0) for r, amount in now.items()})
    return found


def rooms_in(idle: Amounts, room: Resources) -> int:
    """How many whole rooms there are in it."""
    counts = [idle.get(name, 0) // amount for name, amount in room.items() if amount and name != "pods"]
    return max(0, min((*counts, idle.get("pods", 0))))


def chosen(rooms: Mapping[str, int], wanted: int) -> list[Place]:
    """The nodes with most rooms first, until there are enough; less if all of them have fewer. ``rooms``: by node."""
    found: list[Place] = []
    for node, count in sorted(rooms.items(), key=lambda item: (-item[1], item[0])):
        if wanted <= 0 or count <= 0:
            break
        found.append(Place(node, min(count, wanted)))
        wanted -= count
    return found


def _add(total: Amounts, pod: Pod, names: Iterable[str]) -> None:
    held = pod.held if pod.node else pod.spec.requests
    for name in names:
        total[name] += held.amount(name)
    total["pods"] += 1
