"""What a move changes for all policies together, and which of them it would make worse. Pure.

Every policy that is switched on is asked about every move, whichever proposes it: so what one of them repairs is not
spoilt by another, and no two of them move pods to and fro (docs/design/05-objective.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Final, cast

import numpy as np

from rescheduler.model.counted import plural
from rescheduler.model.records import Pod
from rescheduler.planning.badness import Badness, MoveEffect, by_policy
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.policies.framework import ChoosesReceivers, Policy, PolicyView, first_tier
from rescheduler.policies.objective import UNITS, Tier, gains, lowest, unchanged, worst_tier
from rescheduler.policies.proposals import Candidate
from rescheduler.policies.workload_spread import WorkloadSpread, WorkloadSpreadArgs
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


class TotalChange:
    """What one move to each node would change, while all pods stand as they do when it is asked for.

    Most moves are given up for what their own policy and the rules say, so the others are asked only for ``total``.
    """

    def __init__(self, policies: Sequence[Policy], view: PolicyView, pod: Pod, replacement: Pod) -> None:
        self._policies = policies
        self._question = pod, replacement, view
        self._nothing = unchanged(view.nodes.size)
        self._known: dict[int, IntArray] = {}
        """By identity of the policy."""

    def by(self, policy: Policy) -> IntArray:
        """What it changes by the first policy of that name that has something to say; an echo, which is not counted, speaks for itself."""
        counted = (self._asked(one) for one in self._policies if one.name == policy.name)
        found = next((change for change in counted if change is not self._nothing), None)
        return self._asked(policy) if found is None else found

    def _asked(self, policy: Policy) -> IntArray:
        found = self._known.get(id(policy))
        if found is None:
            found = self._known[id(policy)] = policy.change(*self._question)
        return found

    @cached_property
    def parts(self) -> Sequence[tuple[str, IntArray]]:
        """By policy, without those that have nothing to say of the pod."""
        asked = [(policy.name, self._asked(policy)) for policy in self._policies]
        return [(name, change) for name, change in asked if change is not self._nothing]

    @cached_property
    def total(self) -> IntArray:
        """The sum over all policies, shape (tiers, nodes)."""
        return self._sum([change for _, change in self.parts])

    @property
    def of_rules_and_wishes(self) -> IntArray:
        """The same as far as SOFT and earlier tiers are concerned: policies that count in later ones only are not asked."""
        asked = [self._asked(policy) for policy in self._policies if first_tier(policy) <= Tier.SOFT]
        return self._sum([change for change in asked if change is not self._nothing])

    def _sum(self, changes: Sequence[IntArray]) -> IntArray:
        if len(changes) <= 1:
            return changes[0] if changes else self._nothing
        total: IntArray = changes[0] + changes[1]
        for change in changes[2:]:
            total += change
        return total

    def settle(self) -> None:
        """Ask all policies now: pods will not stand as they do any more."""
        self.total  # noqa: B018

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


def refusal_of_group(change: IntArray, node: str, effects: Iterable[MoveEffect]) -> Blocked:
    """Why pods do not leave a node together, although each pod has a place: the change of the whole (tiers,) does not fall. ``effects``: of their moves."""
    tier = worst_tier(change)
    together = f"what leaves node/{node} together"
    if tier is None or change[tier] < 0:
        return Blocked(SkipReason.NO_BETTER_TARGET, f"{together} would make nothing better in sum", node)
    against = ", ".join(name for name, part in by_policy(effects).items() if part.tiers()[tier] > 0)
    words = f"{together} would {_WORDS[tier]} in sum{f' ({against})' if against else ''}"
    return Blocked(SkipReason.NO_BETTER_TARGET, words, against or node)


@cache
def _chooses_receivers(kind: type[Policy]) -> bool:
    return issubclass(kind, ChoosesReceivers)


_SPREAD: Final = WorkloadSpread(WorkloadSpreadArgs())
"""Says whose replicas stand in for each other where the policy is switched off."""


class Objective:
    """Asks all policies of one decision about moves."""

    def __init__(self, policies: Sequence[Policy], view: PolicyView) -> None:
        self._policies = policies
        self._view = view
        self._spread = next((policy for policy in policies if isinstance(policy, WorkloadSpread)), None)

    def change(self, pod: Pod, replacement: Pod) -> TotalChange:
        """What would change if the pod, which stands, left and its replacement stood on each node instead."""
        return TotalChange(self._policies, self._view, pod, replacement)

    def replicas(self, pod: Pod) -> Mapping[int, int]:
        """By node, how many replicas of the pod's workload are there; empty: they do not stand in for each other."""
        return (self._spread or _SPREAD).replicas(pod, self._view)

    @property
    def keeps_spread(self) -> bool:
        """True if WorkloadSpread is one of the policies."""
        return self._spread is not None

    def gains(self, policy: Policy, candidate: Candidate, change: TotalChange) -> FloatArray:
        """What a move to each node gains (0..1) by the policy that proposes it: 0 on its own node, and where it is not to go.

        One of a group gains what the group does. ``change``: what the move changes.
        """
        own = change.by(policy)
        if candidate.group:
            found = np.full(self._view.nodes.size, candidate.gain)
        else:
            unit = candidate.unit or UNITS[candidate.tier]
            found = gains(own, UNITS | {candidate.tier: unit})
            # Shares are rounded to whole numbers.
            found[-own[candidate.tier] < candidate.least * unit - 1] = 0.0
        if _chooses_receivers(type(policy)):
            found[~cast("ChoosesReceivers", policy).receivers(candidate, self._view)] = 0.0
        found[self._view.state.node_index[candidate.pod.node]] = 0.0
        return found
