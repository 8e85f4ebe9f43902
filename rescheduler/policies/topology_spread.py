"""TopologySpread: pods in domains that hold more of them than maxSkew allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.counted import plural
from rescheduler.model.records import Pod, SpreadConstraint
from rescheduler.model.selectors import LabelSelector
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier, nothing, unchanged
from rescheduler.policies.proposals import Batch, Proposals, by_gain, least_disturbing
from rescheduler.policies.spread_groups import SpreadGroup, SpreadGroups
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass, standing
from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.pod_topology_spread import merged_selector

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"


class TopologySpreadArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``constraints``: DoNotSchedule, ScheduleAnyway; which kinds of constraints must be met."""

    constraints: tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...] = (HARD,)

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if not self.constraints:
            yield ("constraints",), f"is empty: name {HARD}, {SOFT} or both"


class _Crowd(NamedTuple):
    """A domain with more pods than maxSkew allows."""

    pods: tuple[tuple[Pod, PodClass], ...]
    """Those that may be proposed, the least reluctant first, each with its class."""
    too_many: int
    """How many pods are above the least count and maxSkew."""
    message: str


class TopologySpread:
    """Badness: the excess of every constraint that pods in scope carry, counted once for all of them; see ``SpreadGroups``.

    Excess of a domain: pods above (least count + maxSkew), over all matching pods, movable or not.
    """

    name: str = "TopologySpread"

    def __init__(self, args: TopologySpreadArgs) -> None:
        self.tier = Tier.HARD if HARD in args.constraints else Tier.SOFT
        self._args = args
        self._scope = args.scope()

    def candidates(self, view: PolicyView) -> Proposals:
        """As many pods of each crowded domain as are too many; the others there as spares."""
        batches: list[Batch] = []
        found: dict[str, Batch] = {}
        for group in self._groups(view).all():
            for crowd in self._remembered(group, view):
                batches += _choose(crowd, group, view)
        if len({pod.uid for batch in batches for pod in batch.pods}) == sum(len(b.pods) for b in batches):
            return by_gain(batches)
        for batch in sorted(batches, key=_rank):
            # A pod that several constraints propose goes for the one that gains most.
            for pod in batch.pods:
                found.setdefault(pod.uid, batch)
        kept = ((batch, [pod for pod in batch.pods if found[pod.uid] is batch]) for batch in batches)
        return by_gain(msgspec.structs.replace(batch, pods=pods) for batch, pods in kept if pods)

    def badness(self, view: PolicyView) -> IntArray:
        """Excess of hard constraints, and of soft ones."""
        total = nothing()
        hard, soft = self._groups(view).excess()
        total[Tier.HARD], total[Tier.SOFT] = hard, soft * ONE
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What the move changes in every constraint that counts the pod or its replacement, its own or not."""
        change = None
        for found in self._groups(view).changes(pod, replacement, view):
            if change is None:
                change = np.array(unchanged(view.nodes.size))
            if found.hard:
                change[Tier.HARD] += found.by_node
            else:
                change[Tier.SOFT] += found.by_node * ONE
        if change is None:
            return unchanged(view.nodes.size)
        change[:, view.state.node_index[pod.node]] = 0
        return change

    def _groups(self, view: PolicyView) -> SpreadGroups:
        return SpreadGroups.of(self, view, self._wanted)

    def _wanted(self, kind: PodClass) -> list[tuple[SpreadConstraint, LabelSelector | None]]:
        if not self._scope.proposes(kind):
            return []
        return [(c, merged_selector(c, kind.labels)) for c in self._considered(kind.spec.spread)]

    def _considered(self, constraints: tuple[SpreadConstraint, ...]) -> list[SpreadConstraint]:
        return [c for c in constraints if (HARD if c.hard else SOFT) in self._args.constraints]

    def _remembered(self, group: SpreadGroup, view: PolicyView) -> tuple[_Crowd, ...]:
        """What a constraint finds depends on where the pods stand that it counts."""
        return group.memo.of("crowds", standing(group.pods.classes), lambda: tuple(self._crowds(group, view)))

    def _crowds(self, group: SpreadGroup, view: PolicyView) -> Iterator[_Crowd]:
        counts, constraint = group.counts(), group.constraint
        excess = group.skew.excess(counts)
        if not excess.any():
            return
        codes, values = group.codes, view.nodes.column(constraint.topology_key).values
        asked = self._scope.nodes(view.nodes)
        crowded: dict[int, list[tuple[Pod, PodClass]]] = {
            code: [] for code in np.flatnonzero(excess).tolist()
        }
        for kind in group.carriers:
            here = codes[kind.where]
            chosen = np.flatnonzero((here >= 0) & (excess[here] != 0) & asked[kind.where])
            for i, code in zip(chosen.tolist(), here[chosen].tolist(), strict=True):
                crowded[code].append((kind.pods[i], kind))
        for code, pods in crowded.items():
            pods.sort(key=least_disturbing(view.disruption))
            yield _Crowd(
                pods=tuple(pods),
                too_many=int(excess[code]),
                message=(
                    f"{constraint.topology_key}={values[code]} has {plural(int(counts[code]), 'pod')}, "
                    f"the least {group.skew.least(counts)}, maxSkew is {constraint.max_skew}"
                ),
            )


def _rank(batch: Batch) -> tuple[bool, float, str]:
    return batch.spare, -batch.gain, batch.message


def _choose(crowd: _Crowd, group: SpreadGroup, view: PolicyView) -> Iterator[Batch]:
    """As many pods of a crowded domain as are too many, movable ones first; the others are spares."""
    pods: Sequence[tuple[Pod, PodClass]] = crowd.pods
    answers = {view.movable_class(kind) for kind in {kind for _, kind in pods}}
    if len(answers) > 1 or None in answers:
        pods = sorted(pods, key=lambda one: not view.may_move(*one))
    alike: defaultdict[tuple[PodClass, bool], list[Pod]] = defaultdict(list)
    for i, (pod, kind) in enumerate(pods if view.spares else pods[: crowd.too_many]):
        alike[kind, i >= crowd.too_many].append(pod)
    tier = Tier.HARD if group.hard else Tier.SOFT
    for (kind, spare), some in alike.items():
        reason = "SkewAboveMaximum" if group.hard else "SkewAboveWish"
        yield Batch.of(TopologySpread.name, kind, some, why=(reason, crowd.message), tier=tier, spare=spare)
