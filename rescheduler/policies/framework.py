"""What a policy is: it finds badly placed pods and says what a move would gain.

A policy decides nothing about targets, budgets or order: the planner does, by the scheduler's own rules.
Adding one is one module and one line in the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.classes import PodClass
from rescheduler.policies.index import PodIndex
from rescheduler.policies.nodes import NodeTable
from rescheduler.policies.wanted import Candidate, Wanted
from rescheduler.scheduling.framework import BoolArray, FloatArray
from rescheduler.scheduling.state import SchedulingState

UNWANTED: Final = -1.0
"""Gain on every node of a candidate that need not move any more."""


def _anything(_: Pod) -> bool:
    return True


def _unknown(_: PodClass) -> bool | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a policy looks at: the snapshot as it was, and the what-if state with all moves planned so far.

    ``index`` and ``state`` follow the planned moves; ``snapshot`` and ``nodes`` do not.
    ``movable``: no protection holds the pod back. Policies count all pods, and propose a pod that is not
    movable only where no movable one could take its place: the planner then reports what protects it.
    ``movable_class``: the same for all pods of a class at once; None if each must be asked.
    ``spares``: False once nothing more may be moved; spares are then not looked at and may be left out.
    ``memo``: what policies found out in this decision; each keeps beside it what it depends on.
    """

    snapshot: Snapshot
    state: SchedulingState
    index: PodIndex
    nodes: NodeTable
    movable: Callable[[Pod], bool] = _anything
    movable_class: Callable[[PodClass], bool | None] = _unknown
    spares: bool = True
    memo: dict[object, Any] = field(default_factory=dict)

    def may_move(self, pod: Pod, kind: PodClass) -> bool:
        """``movable`` of a pod whose class is known."""
        answer = self.movable_class(kind)
        return self.movable(pod) if answer is None else answer

    @classmethod
    def of(
        cls, snapshot: Snapshot, state: SchedulingState, movable: Callable[[Pod], bool] = _anything
    ) -> View:
        """A fresh view of a snapshot without any planned move."""
        return cls(
            snapshot=snapshot,
            state=state,
            index=PodIndex(snapshot, state.node_index),
            nodes=NodeTable([snapshot.nodes[name] for name in state.node_names]),
            movable=movable,
        )


def nowhere(view: View) -> FloatArray:
    """The answer of ``gains`` for a candidate that is not wanted any more."""
    return np.full(len(view.state.node_names), UNWANTED)


class Policy(Protocol):
    """One way of being badly placed."""

    name: ClassVar[str]

    def candidates(self, view: View) -> Wanted:
        """Badly placed pods in the state of ``view``, in a deterministic order."""
        ...

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """Gain (0..1) of moving the candidate to each node in the *current* what-if state, its pod still in place.

        0: not there. UNWANTED on every node: it need not move any more. The planner asks again before
        every move, so a policy stops by itself once the cluster is tidy enough.
        """
        ...


@runtime_checkable
class Shedding(Protocol):
    """A policy that finds fault with a node once it holds too much."""

    def overfull_with(self, pod: Pod, view: View) -> BoolArray:
        """Nodes that would have to shed pods if this one came; other policies' pods go there last."""
        ...
