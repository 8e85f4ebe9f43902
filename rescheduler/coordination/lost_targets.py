"""Gated pods whose own node cannot take them any more, although another one can: they are not kept waiting. Pure.

A node that is cordoned, NotReady, deleted or tainted after the eviction may come back in a moment or never. A pod that another node
can take is released at once, and kube-scheduler places it; only one that nothing else can take stays gated, up to its limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.records import Node, Pod
from rescheduler.reservations.handover import holds_gate, in_flight
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.scheduling.taint_toleration import tolerates

Rooms = Mapping[str, ObservedReservation]


def keeps_off(node: Node | None, pod: Pod) -> str:
    """Why the node takes no new pod like this one, whatever room it has; "": it does."""
    if node is None:
        return "does not exist any more"
    if not node.usable:
        return node.unusable_because
    for taint in node.taints:
        ours = taint.key == names.ANNOTATION_HANDOVER_TAINT
        if ours or taint.effect == "PreferNoSchedule" or tolerates(pod.spec.tolerations, taint):
            continue
        return f"has the taint {taint.key}:{taint.effect}"
    return ""


def lost_targets(rooms: Rooms, placement: Placement, replacements: Mapping[str, Iterable[Pod]]) -> Rooms:
    """The rooms, with the node that takes their pods instead. ``replacements``: gated pods without a claim, for rooms of evicted pods."""
    found = {
        name: dataclasses.replace(observed, other_node=other)
        for name, observed in rooms.items()
        if (other := _other_node(observed, placement, replacements.get(name, ())))
    }
    return {**rooms, **found} if found else rooms


def _other_node(observed: ObservedReservation, placement: Placement, replacements: Iterable[Pod]) -> str:
    reservation = observed.reservation
    node = reservation.status.node_name
    if reservation.deleting or reservation.status.phase in FINISHED or not node or observed.by_koordinator:
        return ""
    pods = [pod for pod in in_flight(observed) if holds_gate(pod)] or list(replacements)
    lost = [pod for pod in pods if keeps_off(observed.node, pod)]
    others = [placement.other_node(pod, node) for pod in lost]
    return others[0] if others and all(others) else ""
