"""How pending pods get room, as a draft says and all rules of a trial allow it. Nothing is planned here.

Pods that step aside for them go where there is room, or where others make it in their turn; the rooms that they leave are used only
after they have left. Promises: no rule is broken more, all moves of a way together; the same input gives the same ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.chains import AsideTo, Chains, ChainStep, Wish
from rescheduler.planning.repair_drafts import (
    RING,
    DraftedMove,
    Extent,
    RepairDraft,
    RepairDrafts,
)
from rescheduler.policies.objective import Tier
from rescheduler.policies.pending_pods import PendingPods
from rescheduler.policies.proposals import Candidate


class Way(NamedTuple):
    """How a pod gets room."""

    node: str
    steps: tuple[ChainStep, ...]
    """In an order in which they can be carried out."""
    after: tuple[Pod, ...]
    """Pods that leave the node for it, of these steps or planned before."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Finds them in one trial."""

    drafts: RepairDrafts
    leavers: dict[int, list[Pod]] = field(default_factory=dict)
    """By node: pods that leave it for rooms that were planned before."""

    def draft(
        self,
        policy: PendingPods,
        candidates: Sequence[Candidate],
        may_leave: Callable[[Pod], bool],
        *,
        passes: int,
        loses_wishes: bool,
    ) -> RepairDraft:
        """What a search finds for these pods."""
        extent = Extent(
            passes,
            stages=policy.args.depth + 1,
            early=policy.args.depth + 1,
            ring=RING,
            may_leave=may_leave,
            loses_wishes=loses_wishes,
            most_aside=policy.args.most_moves,
            counts_on={pod.uid for pods in self.leavers.values() for pod in pods},
        )
        return self.drafts.draft([(policy, one) for one in candidates], extent)

    def of(self, one: DraftedMove, aside: Mapping[int, Sequence[AsideTo]], most_moves: int) -> Way | None:
        """The way that a draft means. ``aside``: by node, who is to step aside and does not yet."""
        pod, trial = one.candidate.pod, self.drafts.trial
        refused = self.drafts.refused
        chains = Chains(trial, self.drafts.objective, self.drafts.replacement, lambda _: 0.0, refused)
        wish = Wish(pod, np.zeros(0), 0.0, one.policy.name, Tier.PENDING)
        stands = AsideTo(pod, one.node, one.rules)
        found = chains.follow(
            wish, stands, aside, lambda other: not trial.planned.stage_of(other.uid), self.leavers
        )
        if not found or len(found) - 1 > most_moves:
            return None
        *steps, last = found
        return Way(last.target.node, tuple(steps), last.after)
