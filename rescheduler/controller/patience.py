"""Claimants are not let go into a refusal that passes by itself.

kube-scheduler counts a pod that is nominated to a node as if it were there. One that preempts waits until its victims
have ended, and so does one that was let go beside a placeholder which is still going. Until then its room counts twice,
and a claimant of the same priority, let go beside it, is refused on its own empty room and goes elsewhere. So it stays
at the gate; but not for ever: what is left of the time that it may be held belongs to its landing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from rescheduler.controller.neighbours import Rooms, claimants, given_up
from rescheduler.controller.placement import Placement
from rescheduler.model.records import Pod
from rescheduler.reservations.handover import holds_gate
from rescheduler.reservations.observed import ObservedReservation

PATIENCE: Final = 0.75
"""Of the time that a pod may be held."""


def with_patience(
    rooms: Mapping[str, ObservedReservation], placement: Placement, now_s: float, gate_limit_s: float
) -> tuple[Rooms, float | None]:
    """``rooms`` with ``before_landing`` set where it is better to wait; when that ends at the latest."""
    result, wake_at_s = dict(rooms), None
    for name, observed in rooms.items():
        node = observed.reservation.status.node_name
        for pod in _about_to_go(observed):
            until_s = pod.created_at_s + PATIENCE * gate_limit_s
            if now_s < until_s and placement.crowded_out(pod, node):
                result[name] = dataclasses.replace(observed, before_landing=True)
                wake_at_s = until_s if wake_at_s is None else min(wake_at_s, until_s)
                break
    return result, wake_at_s


def _about_to_go(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Claimants at the gate whose room is empty."""
    held = tuple(pod for pod in claimants(observed) if holds_gate(pod))
    return held if held and not observed.before_landing and given_up(observed) else ()
