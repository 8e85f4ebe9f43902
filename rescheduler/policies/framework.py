"""What a policy is: it finds badly placed pods and says what a move would gain.

A policy decides nothing about targets, budgets or order: the planner does, by the scheduler's own rules.
Adding one is one module and one line in the registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.framework import FloatArray
from rescheduler.scheduling.state import SchedulingState


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A badly placed pod.

    ``gain``: the most that a move could bring, 0..1. ``group``: all candidates of one group are moved or
    none (emptying a node); "" stands alone. ``message``: one sentence for people, without the pod's name.
    """

    pod: Pod
    policy: str
    reason: str
    message: str
    gain: float
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a policy looks at: the snapshot as it was, and the what-if state with all moves planned so far."""

    snapshot: Snapshot
    state: SchedulingState
    movable: frozenset[str] = field(default_factory=frozenset)
    """Uids of pods that no protection holds back. Policies count all pods, but propose only these."""


class Policy(Protocol):
    """One way of being badly placed."""

    name: ClassVar[str]

    def candidates(self, view: View) -> Sequence[Candidate]:
        """Badly placed pods in the state of ``view``, in a deterministic order."""
        ...

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """Gain (0..1) of moving the candidate to each node in the *current* what-if state, its pod still in place.

        0 or less: not there, or not wanted any more. The planner asks again before every move, so a
        policy stops by itself once the cluster is tidy enough.
        """
        ...
