"""A target for one pod outside of a plan: a move that a user asked for, or a Reservation without a node. Pure."""

from __future__ import annotations

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import Blocked
from rescheduler.planning.history import History
from rescheduler.planning.present import apply_present
from rescheduler.planning.replacement import replacement_of
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import View
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.state import SchedulingState

USER_REASON = "UserRequest"
"""Reason of moves that people asked for; hints to avoid a node for other reasons only order the targets."""


def choose_target(
    snapshot: Snapshot, state: SchedulingState, pod: Pod, *, only: frozenset[str] | None = None
) -> Target | Blocked:
    """Where the scheduler's rules and points would put the replacement of a bound pod, off its node.

    ``only``: names of nodes to choose from; None: all. The state is left as it was.
    """
    view = View.of(snapshot, state)
    trial = Trial(snapshot, view, set())
    try:
        others = tuple(f for f in History(snapshot).in_flight if f.pod.uid != pod.uid)
        apply_present(trial, others)
        gains = np.where(_among(state, only), 1.0, 0.0)
        gains[state.node_index[pod.node]] = 0.0
        replacement = replacement_of(pod, snapshot)
        return Targets(trial).choose(pod, replacement, gains, least_gain=0.0, reason=USER_REASON)
    finally:
        trial.end()


def choose_room(
    snapshot: Snapshot, state: SchedulingState, template: Pod, *, only: frozenset[str] | None = None
) -> str | None:
    """Where the room for a pod that does not exist yet should be held; None: it fits nowhere now.

    ``template``: a pending pod record made from the Reservation's template. Pending and nominated pods and
    other live Reservations keep their room. Ties go to the first name.
    """
    view = View.of(snapshot, state)
    trial = Trial(snapshot, view, set())
    try:
        apply_present(trial, History(snapshot).in_flight)
        feasible = state.filter(template).feasible & view.nodes.targetable & _among(state, only)
        if not feasible.any():
            return None
        points = np.where(feasible, state.score(template, feasible).total, -1)
        return min(state.node_names[i] for i in np.flatnonzero(points == points.max()))
    finally:
        trial.end()


def _among(state: SchedulingState, only: frozenset[str] | None) -> BoolArray:
    return np.array([only is None or name in only for name in state.node_names], dtype=np.bool_)
