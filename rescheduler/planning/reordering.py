"""Plans a cluster several times, each time those first that found no place before, and keeps the best plan. Pure.

What is planned first takes the rooms that others need more: a pod that could go anywhere takes the last room of the only
node that another one may go to. Then that one is stuck, or others have to step aside for it. So the plan is made again with
those pods first (squeaky wheel optimization, Joslin and Clements 1999). The number of attempts is fixed by the size of the
cluster, not by a clock: the same input gives the same plan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rescheduler.planning.limits import EFFORT
from rescheduler.planning.repair_drafts import RepairDraft
from rescheduler.planning.stages import stages_of
from rescheduler.planning.steps import PlannedStep
from rescheduler.policies.framework import Policy
from rescheduler.policies.objective import nothing
from rescheduler.policies.proposals import Candidate

ATTEMPTS: Final = 16
"""Plans besides the first, with the effort that is usual."""
_IN_VAIN: Final = 6
"""After so many plans in a row that are no better, no more are made."""
_ORDERLY: Final = 3
"""So many attempts go by blame alone, the others by blame and, as if by chance, something else."""
_SOON: Final = 2
"""Stages of a plan that are compared first."""
_MOST_PODS: Final = 6_000
"""Pods of all attempts together, with the usual effort: a bigger cluster is planned fewer times, one of more pods once."""

Stuck = Sequence[tuple[Policy, Candidate]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A plan, as far as it is compared."""

    value: tuple[tuple[int, ...], ...]
    """What is compared: the lowest is best."""
    without_place: Stuck
    """Badly placed pods for which no node had room, before others made room."""
    left: frozenset[str]
    """Uids of those of them that the plan does not move."""


def value_of(steps: Sequence[PlannedStep]) -> tuple[tuple[int, ...], ...]:
    """Of a plan: how the badness falls in its first two stages, then in all, then the number of moves. Lower is better."""
    stages = stages_of([step.move for step in steps])
    early = (step.change for step, stage in zip(steps, stages, strict=True) if stage <= _SOON)
    soon, total = sum(early, start=nothing()), sum((step.change for step in steps), start=nothing())
    return tuple(soon.tolist()), tuple(total.tolist()), (len(steps),)


def attempts(pods: int, effort: int) -> int:
    """How often a cluster with so many pods is planned besides the first time; in proportion to the effort."""
    return min(ATTEMPTS * effort // EFFORT, _MOST_PODS * effort // (EFFORT * max(pods, 1)))


class AttemptOrder(NamedTuple):
    """In which order a plan is made."""

    first: Stuck = ()
    """Pods that are planned before all others."""
    large: bool = False
    """Where pods make room: the large ones first, whose room is enough for several; otherwise the small ones."""
    tight: bool = False
    """Pods go where least room is left, so that large rooms stay whole; otherwise where the scheduler would put them."""
    draft: RepairDraft = RepairDraft()
    """Followed before anything else is planned."""


def plan_best(
    attempt: Callable[[AttemptOrder], Attempt], more: int, draft: Callable[[], RepairDraft] | None = None
) -> None:
    """Make the best of at most 1 + ``more`` plans, and of one that follows a draft.

    ``attempt``: makes a plan in this order, in place of the one that stands. ``draft``: drafts one, in place of all that stands;
    asked once, if there is more than one attempt.
    """
    best_order = order = AttemptOrder()
    best = last = attempt(order)
    blame: Counter[str] = Counter()
    known: dict[str, tuple[Policy, Candidate]] = {}
    vain = 0
    rng = random.Random(0)  # noqa: S311 -- chance that is the same every time, no secret
    if more and last.without_place and draft is not None:
        order = AttemptOrder(draft=draft())
        last = attempt(order)
        if last.value < best.value:
            best, best_order = last, order
    for number in range(1, more + 1):
        if not last.without_place or vain == _IN_VAIN:
            break
        for policy, candidate in last.without_place:
            uid = candidate.pod.uid
            known.setdefault(uid, (policy, candidate))
            blame[uid] += 2 if uid in last.left else 1
        blamed = [uid for uid, _ in blame.most_common()]
        if number > _ORDERLY:
            noise = {uid: blame[uid] * (1.0 + rng.random()) for uid in blamed}
            blamed.sort(key=lambda uid: -noise[uid])
        order = AttemptOrder(
            [known[uid] for uid in blamed], large=number % 2 == 1, tight=number // 2 % 2 == 0
        )
        last = attempt(order)
        vain += 1
        if last.value < best.value:
            best, best_order, vain = last, order, 0
    if best is not last:
        attempt(best_order)
