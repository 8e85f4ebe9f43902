"""What a move changes for all policies together, and which of them it would make worse. Pure.

Every policy that is switched on is asked about every move, whichever proposes it: so what one of them repairs is not
spoilt by another, and no two of them move pods to and fro (docs/design/05-objective.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.counted import plural
from rescheduler.model.records import Pod
from rescheduler.planning.badness import Badness, MoveEffect
from rescheduler.planning.budgets import Blocked
from rescheduler.planning.plan import SkipReason
from rescheduler.policies.framework import ChoosesReceivers, Policy, PolicyView
from rescheduler.policies.objective import UNITS, Tier, gains, lowest, unchanged, worst_tier
from rescheduler.policies.proposals import Candidate
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

_WORDS: Final = {
    Tier.HARD: "break more rules",
    Tier.PENDING: "leave more pods pending",
    Tier.SOFT: "meet fewer preferences",
    Tier.BALANCE: "overload nodes more",
    Tier.FRAGMENTATION: "break rooms",
    Tier.CONSOLIDATION: "use more nodes",
    Tier.EMPTYING: "fill nodes that are to be emptied",
}
"""What a move would do that makes a tier worse."""


@dataclass(frozen=True, slots=True)
class TotalChange:
    """What one move to each node would change."""

    total: IntArray
    """The sum over all policies, shape (tiers, nodes)."""
    parts: Sequence[tuple[str, IntArray]]
    """By policy, without those that have nothing to say of the pod."""

    def effects(self, node: int) -> tuple[MoveEffect, ...]:
        """What a move to this node changes, by policy."""
        columns = ((name, part[:, node]) for name, part in self.parts)
        return tuple(MoveEffect(name, Badness.of(column)) for name, column in columns if column.any())

    def refusal(self, nodes: BoolArray) -> Blocked:
        """Why none of these nodes, all of which would take the pod, makes the whole better."""
        number = int(np.count_nonzero(nodes))
        best = lowest(self.total, np.flatnonzero(nodes))
        tier = worst_tier(self.total[:, best])
        if tier is None:
            return Blocked(
                SkipReason.NO_BETTER_TARGET,
                f"{plural(number, 'node')} would take it, on none of them the whole would be better",
                "",
            )
        against = ", ".join(dict.fromkeys(name for name, part in self.parts if part[tier, best] > 0))
        return Blocked(
            SkipReason.NO_BETTER_TARGET,
            f"{plural(number, 'node')} would take it, but for {against} even the best would be worse by more than is gained: "
            f"the move would {_WORDS[tier]}",
            against,
        )


def refusal_of_group(change: IntArray, node: str) -> Blocked:
    """Why pods do not leave a node together, although each pod has a place: the change of the whole (tiers,) does not fall."""
    tier = worst_tier(change)
    worse = tier is not None and change[tier] > 0
    words = f"would {_WORDS[tier]}" if tier is not None and worse else "would make nothing better"
    return Blocked(SkipReason.NO_BETTER_TARGET, f"what leaves node/{node} together {words} in sum", node)


class Objective:
    """Asks all policies of one decision about moves."""

    def __init__(self, policies: Sequence[Policy], view: PolicyView) -> None:
        self._policies = policies
        self._view = view

    def change(self, pod: Pod, replacement: Pod) -> TotalChange:
        """What would change if the pod, which stands, left and its replacement stood on each node instead."""
        nothing = unchanged(self._view.nodes.size)
        asked = [(policy.name, policy.change(pod, replacement, self._view)) for policy in self._policies]
        parts = [(name, change) for name, change in asked if change is not nothing]
        if len(parts) <= 1:
            return TotalChange(parts[0][1] if parts else nothing, parts)
        total = parts[0][1] + parts[1][1]
        for _, change in parts[2:]:
            total += change
        return TotalChange(total, parts)

    def gains(
        self, policy: Policy, candidate: Candidate, replacement: Pod, change: TotalChange
    ) -> FloatArray:
        """What a move to each node gains (0..1) by the policy that proposes it: 0 on its own node, and where it is not to go.

        One of a group gains what the group does. ``change``: what the move changes.
        """
        own = next((part for name, part in change.parts if name == policy.name), None)
        if own is None:  # that of an echo is not added up
            own = policy.change(candidate.pod, replacement, self._view)
        if candidate.group:
            found = np.full(self._view.nodes.size, candidate.gain)
        else:
            unit = candidate.unit or UNITS[candidate.tier]
            found = gains(own, UNITS | {candidate.tier: unit})
            # Shares are rounded to whole numbers.
            found[-own[candidate.tier] < candidate.least * unit - 1] = 0.0
        if isinstance(policy, ChoosesReceivers):
            found[~policy.receivers(candidate, self._view)] = 0.0
        found[self._view.state.node_index[candidate.pod.node]] = 0.0
        return found
