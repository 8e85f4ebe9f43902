"""Badly placed pods as numbers for ``repair``, and what it finds as a draft that the planner follows.

Faults of rules and unmet wishes take part; balance and emptying have searches of their own. What the numbers say is
necessary, not sufficient; each move of the draft is judged by all rules when it is planned, and where they refuse one, its pod is
planned like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.conditions import Conditions
from rescheduler.planning.problem import MovablePod, SearchProblem
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.repair import Repair
from rescheduler.planning.search import LOOKS_PER_PASS, search
from rescheduler.planning.steps import FirstProposals
from rescheduler.planning.targets import Targets
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import Policy, RoomMakingPolicy
from rescheduler.policies.objective import ONE, Tier, worsens_wishes
from rescheduler.policies.planned_moves import taken_of
from rescheduler.policies.proposals import Candidate
from rescheduler.policies.topology_spread import TopologySpread
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

MOST_PODS: Final = 300
"""Badly placed pods; where there are more, they are planned one by one: a draft of some would take the room of the others."""
PODS_PER_PASS: Final = 48
"""Pods that may step aside, for each pass: of larger clusters those on the nodes take part where the badly placed pods lack least."""
MOST_ROOMY: Final = 512
"""Nodes with room for pods that step aside."""
_STAGES: Final = 2
"""Of a draft of all badly placed pods, as plans are compared ..."""
_MOST_STAGES: Final = 4
"""... and of one of those that are left in the end."""
_SHORTER: Final = 8
"""So many times shorter it is searched for these at first."""
_RING: Final = 32
"""Nodes more on which pods may make room for those that step aside."""
_FAULT: Final = 1000.0
"""What one fault of a rule counts for; a wish that is not met at all counts 1."""


Wanting = Sequence[tuple[Policy, Candidate]]


class DraftedMove(NamedTuple):
    """A badly placed pod and the node (an index) that it is to go to."""

    policy: Policy
    candidate: Candidate
    node: int


class RepairDraft(NamedTuple):
    """Which badly placed pods are to go where, in this order, and who steps aside for them."""

    moves: tuple[DraftedMove, ...] = ()
    aside: tuple[tuple[Pod, int], ...] = ()
    """Pods that leave their nodes for others, with the nodes (indices) that they go to."""
    asked: Mapping[str, Tier] = MappingProxyType({})
    """Uids of the badly placed pods that took part, and where they count."""

    def promises_more(self, repaired: Collection[str], moves: int) -> bool:
        """True if it repairs more than a plan that moves these badly placed pods in as many stages, or as many with fewer moves."""
        mine = [one.candidate.pod.uid for one in self.moves]
        return (self._tiers(mine), -len(mine) - len(self.aside)) > (self._tiers(repaired), -moves)

    def _tiers(self, repaired: Collection[str]) -> list[int]:
        """How many of them count in each tier."""
        counts = Counter(self.asked[uid] for uid in repaired if uid in self.asked)
        return [counts[tier] for tier in Tier]


@dataclass(frozen=True, slots=True)
class RepairDrafts:
    """Drafts repairs in one trial."""

    trial: Trial
    targets: Targets
    objective: Objective
    refusals: Refusals
    budgets: BudgetLedger
    replacement: Callable[[Pod], Pod]
    passes: int
    most_pods: int
    """Pods of the nodes that are looked at, in all."""
    refused: set[tuple[str, int]] = field(default_factory=set)
    """Moves that the rules refused when a draft was followed: uids, each with a node (an index). No draft has them again."""

    def draft(self, wanting: Wanting) -> RepairDraft:
        """What a search over all of these pods finds, as far as nothing holds them back. Nothing is planned yet."""
        return self._drafted(wanting, 0, self.passes, _STAGES)

    def draft_of_rest(self, wanting: Wanting, attempt: int) -> RepairDraft:
        """What is found for those that are left beside the planned moves, in more stages. Each attempt is a shorter search than those before."""
        passes = max(1, self.passes // (_SHORTER << 2 * attempt))
        return self._drafted(wanting[:MOST_PODS], _RING, passes, _MOST_STAGES)

    def _drafted(self, wanting: Wanting, ring: int, passes: int, stages: int) -> RepairDraft:
        if self._hopeless():
            return RepairDraft()
        free = [one for one in wanting if self.refusals.of(one[1]) is None]
        return _Problem(self, free, ring).draft(passes, stages)

    def _hopeless(self) -> bool:
        """True if no node has room for any pod, and nobody is to leave one: then nobody can make room."""
        if self.trial.planned.moves:
            return False
        alike = {kind.spec.requests: kind.pods[0] for kind in self.trial.state.cluster.classes if kind.pods}
        return not any(self.trial.with_free_resources(pod).any() for pod in alike.values())


def wanting(policies: Sequence[Policy], asked: Sequence[FirstProposals]) -> Wanting:
    """The pods that break rules or miss wishes, as policies propose them; none where they are more than ``MOST_PODS``.

    A spare leaves in the place of one that has none: the search finds a place for that one itself, with fewer moves.
    """
    found, pods = list[tuple[Policy, Candidate]](), set[str]()
    for policy, answer in zip(policies, asked, strict=True):
        if isinstance(policy, RoomMakingPolicy) or answer.found.grouped:
            continue
        for candidate in answer.found.queue():
            if not candidate.spare and candidate.tier < Tier.BALANCE:
                pods.add(candidate.pod.uid)
                found.append((policy, candidate))
                if len(pods) > MOST_PODS:
                    return []
    return found


class _Problem:
    """Everything in the order of the names of nodes and pods, so that the result does not depend on the order of reading."""

    def __init__(self, drafts: RepairDrafts, wanting: Wanting, ring: int) -> None:
        self._drafts = drafts
        self._trial = drafts.trial
        # Of several candidates that are one pod the first of their tiers counts.
        ordered = sorted(wanting, key=lambda one: -one[1].tier)
        self._wanting = {candidate.pod.uid: (policy, candidate) for policy, candidate in ordered}
        self._owners: dict[str, int] = {}
        self._masks: dict[object, BoolArray] = {}
        self._alive: list[Pod] = []
        found = {uid: self._repairs(policy, candidate) for uid, (policy, candidate) in self._wanting.items()}
        near = self._neighbourhood(found)
        if near:
            near |= self._ring(ring, near)
        self._falls = {
            uid: {node: f for node, f in falls.items() if node in near and (uid, node) not in drafts.refused}
            for uid, falls in found.items()
        }
        self._pods = self._taking_part(near)
        self._needs = {pod.uid: dict(self._trial.needs(drafts.replacement(pod))) for pod in self._pods}
        self._names = sorted({name for needs in self._needs.values() for name in needs})
        self._order = self._nodes(near)
        """Nodes that take part, by name."""
        self._conditions = Conditions(self._trial, drafts.targets, drafts.budgets, self._order)

    def draft(self, passes: int, stages: int) -> RepairDraft:
        """The moves of the best solution."""
        if not any(self._falls.values()):
            return RepairDraft()
        conditions = self._conditions
        pods = [self._movable(pod) for pod in self._pods]
        operator = Repair(
            SearchProblem(
                free=conditions.free,
                whole=conditions.whole,
                pods=pods,
                receives=np.ones(len(self._order), dtype=np.bool_),
                leaving=self._leaving(),
                stages=stages,
                fault=_FAULT,
                standing=conditions.standing(pods),
                budgets=conditions.left,
            )
        )
        search(operator, passes)
        if stages > _STAGES:
            operator.finish(passes * LOOKS_PER_PASS)
        found = operator.state.solution()
        moves: list[DraftedMove] = []
        aside: list[tuple[Pod, int]] = []
        for number, repairs in operator.in_order(found):
            pod, node = self._pods[number], int(self._order[found.ways[number].node])
            if repairs:
                moves.append(DraftedMove(*self._wanting[pod.uid], node))
            else:
                aside.append((pod, node))
        return RepairDraft(
            tuple(moves),
            tuple(aside),
            {uid: candidate.tier for uid, (_, candidate) in self._wanting.items()},
        )

    def _neighbourhood(self, found: Mapping[str, Mapping[int, float]]) -> set[int]:
        """Nodes on which room may be made: of each pod in turn the next one, where it repairs most and where it lacks least."""
        state, near, left = self._trial.state, set[int](), self._drafts.most_pods
        ways = [iter(self._best_first(self._wanting[uid][1].pod, falls)) for uid, falls in found.items()]
        while ways and left > 0:
            still: list[Iterator[int]] = []
            for way in ways:
                node = next((node for node in way if node not in near), None)
                if node is not None:
                    near.add(node)
                    left -= len(state.pods_on(state.node_names[node]))
                    still.append(way)
            ways = still
        return near

    def _ring(self, most: int, near: Collection[int]) -> set[int]:
        """So many usable nodes besides, those with the fewest pods first."""
        state, nodes = self._trial.state, self._trial.view.nodes
        others = [node for node in np.flatnonzero(nodes.usable).tolist() if node not in near]
        others.sort(key=lambda node: (len(state.pods_on(state.node_names[node])), nodes.ranks[node]))
        return set(others[:most])

    def _leaving(self) -> FloatArray:
        """What the planned moves of the first stage leave, by row and node."""
        leaving = np.zeros((len(self._names), len(self._order)))
        for move in self._trial.planned.moves:
            if move.stage == 1 and self._conditions.places[move.source] >= 0:
                for name in self._names:
                    row = self._conditions.row(name)
                    leaving[row, self._conditions.places[move.source]] += taken_of(move.pod.held, name)
        return leaving

    def _best_first(self, pod: Pod, falls: Mapping[int, float]) -> list[int]:
        nodes = np.fromiter(falls, dtype=np.int64, count=len(falls))
        lacking = np.zeros(len(nodes))
        for _, left, needed in self._trial.left_for(self._drafts.replacement(pod)):
            lacking += np.maximum(needed - left[nodes], 0) / needed
        most = -np.fromiter(falls.values(), dtype=np.float64, count=len(falls))
        best: list[int] = nodes[np.lexsort((self._trial.view.nodes.ranks[nodes], lacking, most))].tolist()
        return best

    def _taking_part(self, near: Collection[int]) -> list[Pod]:
        """The badly placed pods, and those that could make room for them, by node and name."""
        state = self._trial.state
        sources = {state.node_index[candidate.pod.node] for _, candidate in self._wanting.values()}
        nodes = sorted(sources.union(near), key=state.node_names.__getitem__)
        return [
            pod
            for node in nodes
            for pod in sorted(state.pods_on(state.node_names[node]), key=lambda pod: pod.key)
            if self._falls.get(pod.uid) or (node in near and self._may_step_aside(pod))
        ]

    def _nodes(self, near: Collection[int]) -> IntArray:
        """Those nodes, those that the pods leave, and those with room for any of them; of very many the ones with most room."""
        state, usable = self._trial.state, self._trial.view.nodes.usable
        part = np.zeros(state.nodes.size, dtype=np.bool_)
        part[[state.node_index[pod.node] for pod in self._pods]] = True
        part[list(near)] = True
        roomy, room = usable & ~part, np.full(state.nodes.size, np.inf)
        for name in self._names:
            whole = state.allocatable(name)
            left = whole - state.requested(name) - self._trial.planned.departed(name)
            roomy &= left >= min(needs.get(name, 0) for needs in self._needs.values())
            room = np.minimum(room, left / np.maximum(whole, 1))
        some = np.flatnonzero(roomy)
        ranks = self._trial.view.nodes.ranks
        part[some[np.lexsort((ranks[some], -room[some]))][:MOST_ROOMY]] = True
        nodes = np.flatnonzero(part)
        ordered: IntArray = nodes[np.argsort(ranks[nodes], kind="stable")]
        return ordered

    def _repairs(self, policy: Policy, candidate: Candidate) -> dict[int, float]:
        pod, replacement = candidate.pod, self._drafts.replacement(candidate.pod)
        gains = policy.gains(candidate, self._trial.view)
        change = self._drafts.objective.change(pod, replacement).total
        falls = -_FAULT * change[Tier.HARD] - change[Tier.SOFT] / ONE
        # Who breaks a rule moves for that, not for a wish that it has besides.
        better = (gains > 0) & (falls > (_FAULT / 2 if candidate.tier is Tier.HARD else 0.0))
        better &= self._static(pod, replacement)
        better[self._trial.state.node_index[pod.node]] = False
        return {node: float(falls[node]) for node in np.flatnonzero(better).tolist()}

    def _may_step_aside(self, pod: Pod) -> bool:
        # Who asks to be moved does not matter for what may hold it back.
        return not belongs_to_node(pod) and self._trial.view.movable(pod)

    def _static(self, pod: Pod, replacement: Pod) -> BoolArray:
        """Nodes that would take it, as far as other pods are not concerned."""
        key = (
            pod.namespace,
            id(replacement.spec),
            id(replacement.labels),
            pod.name if replacement.spec.volumes else "",
            self._trial.kind(pod),
        )
        known = self._masks.get(key)
        if known is None:
            with self._trial.without(pod):
                result = self._trial.state.filter(replacement)
                known = result.feasible & self._trial.view.nodes.usable | self._trial.kept_out_by_pods(
                    replacement
                )
            elsewhere = self._trial.elsewhere(pod, replacement)
            if elsewhere is not None:
                known &= elsewhere
            self._masks[key] = known
            self._alive.append(replacement)  # keys hold identities: their objects must live as long
        return known

    def _movable(self, pod: Pod) -> MovablePod:
        replacement, falls = self._drafts.replacement(pod), self._falls.get(pod.uid, {})
        owner = pod.controller.uid if pod.controller is not None else ""
        policy = self._wanting[pod.uid][0].name if pod.uid in self._wanting else ""
        return replace(
            self._conditions.movable(
                pod,
                replacement,
                policy,
                allowed=self._may_go_to(pod, replacement),
            ),
            holds=[(self._conditions.row(name), float(taken_of(pod.held, name))) for name in self._names],
            repairs={int(self._conditions.places[node]): fall for node, fall in falls.items()},
            owner=self._owners.setdefault(owner, len(self._owners)) if owner else -1,
            excess=bool(policy) and self._is_excess(*self._wanting[pod.uid]),
        )

    @staticmethod
    def _is_excess(policy: Policy, candidate: Candidate) -> bool:
        return isinstance(policy, TopologySpread) and candidate.tier is Tier.HARD

    def _may_go_to(self, pod: Pod, replacement: Pod) -> Callable[[], BoolArray]:
        known: list[BoolArray] = []

        def places() -> BoolArray:
            if not known:
                change = self._drafts.objective.change(pod, replacement).total
                allowed = self._static(pod, replacement) & ~worsens_wishes(change)
                allowed[[node for uid, node in self._drafts.refused if uid == pod.uid]] = False
                known.append(allowed[self._order])
            return known[0]

        return places
