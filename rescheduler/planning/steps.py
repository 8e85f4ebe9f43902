"""What a decision remembers while it is made: the moves that it has planned, and what policies proposed before. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.planning.plan import Move, OwnerName, PodRef
from rescheduler.planning.targets import Target
from rescheduler.planning.trial import TrialMark
from rescheduler.policies.objective import nothing
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.scheduling.framework import IntArray

Value = tuple[int, ...]
"""Of a plan, as far as it is compared: the lowest is best."""


class PlannedStep(NamedTuple):
    """A planned move with the records that it is about."""

    move: Move
    pod: Pod
    replacement: Pod
    mark: TrialMark
    """The trial before it."""
    change: IntArray
    """Of the badness of the whole, shape (tiers,)."""
    after: tuple[Pod, ...] = ()
    """Pods whose moves must have landed before."""
    unadopted: Pod | None = None
    """The replacement as mode StartFirst creates it."""


class FirstProposals(NamedTuple):
    """What a policy proposed before anything was planned."""

    found: Proposals
    complete: bool
    """False if spares may be missing."""


def value_of(steps: Sequence[PlannedStep]) -> Value:
    """How the badness falls, then the number of moves."""
    total = sum((step.change for step in steps), start=nothing())
    return *total.tolist(), len(steps)


def record_of(candidate: Candidate, target: Target, disruption: float, after: Sequence[Pod]) -> Move:
    """The move as the plan shows it. ``after``: pods whose moves must have landed before."""
    pod, owner = candidate.pod, candidate.pod.controller
    return Move(
        pod=PodRef.of(pod),
        controller=OwnerName(owner.kind, owner.name) if owner is not None else None,
        source=pod.node,
        target=target.node,
        policy=candidate.policy,
        reason=candidate.reason,
        message=candidate.message,
        gain=round(target.gain, 4),
        disruption=round(disruption, 4),
        mode=target.mode,
        effects=target.effects,
        after=tuple(map(PodRef.of, after)),
    )
