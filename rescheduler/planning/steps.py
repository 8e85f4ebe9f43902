"""What a decision remembers while it is made: the moves that it has planned, and what policies proposed before. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.planning.plan import Move, OwnerName, PodRef, stages_of
from rescheduler.planning.targets import Target
from rescheduler.planning.trial import TrialMark
from rescheduler.policies.objective import nothing
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.scheduling.framework import IntArray

Value = tuple[tuple[int, ...], ...]
"""Of a plan, as far as it is compared: the lowest is best."""
_SOON: Final = 2
"""Stages of a plan that are compared first."""


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


def early_steps(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Those of the first two stages."""
    stages = stages_of([step.move for step in steps])
    return [step for step, stage in zip(steps, stages, strict=True) if stage <= _SOON]


def value_of(steps: Sequence[PlannedStep]) -> Value:
    """How the badness falls in the first two stages, then in all, then the number of moves."""
    early = (step.change for step in early_steps(steps))
    soon, total = sum(early, start=nothing()), sum((step.change for step in steps), start=nothing())
    return tuple(soon.tolist()), tuple(total.tolist()), (len(steps),)


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
