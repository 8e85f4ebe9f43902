"""Badly placed pods as numbers for ``repair``, and what it finds as a draft that the planner follows.

Faults of rules and unmet wishes take part; balance and emptying have searches of their own. What the numbers say is
necessary, not sufficient; each move of the draft is judged by all rules when it is planned, and where they refuse one, its pod is
planned like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.model.resources import Resources
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.chains import AsideTo, Chains
from rescheduler.planning.conditions import Conditions
from rescheduler.planning.limits import shorter
from rescheduler.planning.problem import Amounts, MovablePod, SearchProblem
from rescheduler.planning.repair import Repair
from rescheduler.planning.search import LOOKS_PER_PASS, SOME_NODES
from rescheduler.planning.steps import FirstProposals
from rescheduler.planning.targets import Targets
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import Policy
from rescheduler.policies.objective import ONE, Tier, worsens_wishes
from rescheduler.policies.pending_pods import PendingPods, PendingPodsArgs
from rescheduler.policies.proposals import Candidate, reluctance
from rescheduler.policies.topology_spread import TopologySpread
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.classes import PodClass, TermKind
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.matching import matcher_of
from rescheduler.scheduling.pod_topology_spread import hard_groups

MOST_PODS: Final = 300
"""Pods of one draft. Where more are badly placed, they are planned one by one: a draft of some would take the room of the others."""
PODS_PER_PASS: Final = 48
"""Pods that may step aside, for each pass: of larger clusters those on the nodes take part where the badly placed pods lack least."""
MOST_ROOMY: Final = 512
"""Nodes with room for pods that step aside."""
_STAGES: Final = 2
"""Of a draft of all badly placed pods, as plans are compared ..."""
_MOST_STAGES: Final = 4
"""... and of one of those that are left in the end, besides the stages that are planned."""
_TURN: Final = 0.05
"""What room for the first pending pod counts for more than for the last: less than a move, so it decides between equals."""
_FAULT: Final = 1000.0
"""What one fault of a rule counts for; a wish that is not met at all counts 1."""


_NO_NODES: Final[list[int]] = []

Wanting = Sequence[tuple[Policy, Candidate]]


class DraftedMove(NamedTuple):
    """A badly placed or pending pod, and where it is to go."""

    policy: Policy
    candidate: Candidate
    to: AsideTo


class RepairDraft(NamedTuple):
    """Which badly placed pods are to go where, in this order, and who steps aside for them."""

    moves: tuple[DraftedMove, ...] = ()
    aside: tuple[AsideTo, ...] = ()
    """Pods that leave their nodes for others."""
    asked: Mapping[str, Tier] = MappingProxyType({})
    """Uids of the badly placed pods that took part, and where they count."""

    def by_node(self, index: Mapping[str, int]) -> dict[int, list[AsideTo]]:
        """By the node that they leave, who steps aside."""
        found: dict[int, list[AsideTo]] = {}
        for one in self.aside:
            found.setdefault(index[one.pod.node], []).append(one)
        return found

    def promises_more(self, repaired: Collection[str], moves: int) -> bool:
        """True if it repairs more than a plan that moves these badly placed pods, or as many with fewer moves."""
        mine = [one.candidate.pod.uid for one in self.moves]
        return (self._tiers(mine), -len(mine) - len(self.aside)) > (self._tiers(repaired), -moves)

    def _tiers(self, repaired: Collection[str]) -> list[int]:
        """How many of them count in each tier."""
        counts = Counter(self.asked[uid] for uid in repaired if uid in self.asked)
        return [counts[tier] for tier in Tier]


class Extent(NamedTuple):
    """How far a draft goes."""

    passes: int
    stages: int = _STAGES
    ring: int = 0
    """Nodes more on which pods may make room for those that step aside."""
    may_leave: Callable[[Pod], bool] | None = None
    """Who may step aside; None: who may be moved."""
    loses_wishes: bool = False
    """True: those that step aside may meet fewer wishes."""
    most_aside: int | None = None
    """So many for one pod."""
    counts_on: Collection[str] | None = None
    """Of which planned moves the rooms are used afterwards, by uid; None: of all."""

    @classmethod
    def of_rooms(
        cls,
        args: PendingPodsArgs,
        passes: int,
        may_leave: Callable[[Pod], bool],
        leavers: Mapping[int, Sequence[Pod]],
        *,
        loses_wishes: bool,
    ) -> Extent:
        """Of a draft of rooms for pending pods. ``leavers``: by node, pods that leave it for rooms that were planned before."""
        return cls(
            passes,
            stages=args.depth + 1,
            ring=SOME_NODES,
            may_leave=may_leave,
            loses_wishes=loses_wishes,
            most_aside=args.most_moves,
            counts_on={pod.uid for pods in leavers.values() for pod in pods},
        )


@dataclass(frozen=True, slots=True)
class RepairDrafts:
    """Drafts repairs and rooms for pending pods in one trial."""

    trial: Trial
    targets: Targets
    objective: Objective
    budgets: BudgetLedger | None
    """None: they are not looked at."""
    replacement: Callable[[Pod], Pod]
    disruption: Callable[[Pod], float]
    passes: int
    most_pods: int
    """Pods of the nodes that are looked at, in all."""
    refused: set[tuple[str, int]] = field(default_factory=set)
    """Moves that the rules refused when a draft was followed: uids, each with a node (an index). No draft has them again."""

    @property
    def chains(self) -> Chains:
        """Judges moves of pods that step aside for rooms: what that costs is not looked at."""
        return Chains(self.trial, self.objective, self.replacement, lambda _: 0.0, self.refused)

    def of_rest(self, attempt: int) -> Extent:
        """For those that are left beside the planned moves, in stages after those. Each attempt is a shorter search than those before."""
        planned = max((move.stage for move in self.trial.planned.moves), default=0)
        return Extent(shorter(self.passes // 2, 1 + attempt), planned + _MOST_STAGES, ring=SOME_NODES)

    def draft(self, wanting: Wanting, extent: Extent | None = None) -> RepairDraft:
        """What a search over these pods finds, by default before anything is planned."""
        if self._hopeless():
            return RepairDraft()
        return _Problem(self, wanting, extent or Extent(self.passes)).draft()

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
        if isinstance(policy, PendingPods) or answer.found.grouped:
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

    def __init__(self, drafts: RepairDrafts, wanting: Wanting, extent: Extent) -> None:
        self._drafts = drafts
        self._extent = extent
        self._trial = drafts.trial
        # Of several candidates that are one pod the first of their tiers counts.
        ordered = sorted(wanting, key=lambda one: -one[1].tier)
        self._wanting = {candidate.pod.uid: (policy, candidate) for policy, candidate in ordered}
        self._owners: dict[str, int] = {}
        self._held: dict[Resources, Amounts] = {}
        self._refused: dict[str, list[int]] = {}
        """By uid, the nodes that are forbidden."""
        for uid, node in drafts.refused:
            self._refused.setdefault(uid, []).append(node)
        pending = [candidate.pod.uid for _, candidate in wanting if not candidate.pod.node]
        self._weights = {uid: 1.0 + _TURN * (1.0 - i / len(pending)) for i, uid in enumerate(pending)}
        self._rooms: dict[PodClass, dict[int, float]] = {}
        found = {uid: self._repairs(policy, candidate) for uid, (policy, candidate) in self._wanting.items()}
        near = self._neighbourhood(found)
        if near:
            near |= self._ring(extent.ring, near)
            near |= self._kept_apart()
        self._falls = {
            uid: {node: f for node, f in falls.items() if node in near and (uid, node) not in drafts.refused}
            for uid, falls in found.items()
        }
        self._pods = self._taking_part(near)
        self._replacements = {pod.uid: self._coming(pod) for pod in self._pods}
        requests = {pod.spec.requests: pod for pod in self._replacements.values()}
        self._needs = [dict(self._trial.needs(pod)) for pod in requests.values()]
        self._costs = self._ranks() if extent.may_leave is not None else {}
        self._names = sorted({name for needs in self._needs for name in needs})
        self._order = self._nodes(near)
        """Nodes that take part, by name."""
        self._conditions = Conditions(
            self._trial, drafts.targets, drafts.budgets, self._order, others=bool(pending)
        )

    def draft(self) -> RepairDraft:
        """The moves of the best solution."""
        if not any(self._falls.values()):
            return RepairDraft()
        conditions, passes, stages = self._conditions, self._extent.passes, self._extent.stages
        for pod in self._pods:
            if not pod.node:
                conditions.spreads(self._trial.state.cluster.kind_of(pod))
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
                most_aside=self._extent.most_aside,
            ),
            most_looks=passes * LOOKS_PER_PASS,
        )
        operator.search(passes)
        found = operator.state.solution()
        moves: list[DraftedMove] = []
        aside: list[AsideTo] = []
        for number, repairs in operator.in_order(found):
            pod, node = self._pods[number], int(self._order[found.ways[number].node])
            rules = tuple(self._pods[other] for other in operator.state.made_way(number))
            if repairs:
                moves.append(DraftedMove(*self._wanting[pod.uid], AsideTo(pod, node, rules)))
            else:
                aside.append(AsideTo(pod, node, rules))
        return RepairDraft(
            tuple(moves),
            tuple(aside),
            {uid: candidate.tier for uid, (_, candidate) in self._wanting.items()},
        )

    def _neighbourhood(self, found: Mapping[str, Mapping[int, float]]) -> set[int]:
        """Nodes on which room may be made: of each pod in turn the next one, where it repairs most and where it lacks least."""
        state, near, left = self._trial.state, set[int](), self._drafts.most_pods
        alike = {id(falls): (uid, falls) for uid, falls in found.items()}
        ways = [iter(self._best_first(self._wanting[uid][1].pod, falls)) for uid, falls in alike.values()]
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

    def _kept_apart(self) -> set[int]:
        """Nodes of pods that rules keep the pending ones away from: so many for each of them."""
        cluster, found = self._trial.state.cluster, set[int]()
        for kind in {cluster.kind_of(one.pod) for _, one in self._wanting.values() if not one.pod.node}:
            own = (matcher_of(term, kind.namespace) for term in kind.spec.pod_anti_affinity)
            groups: list[Iterable[PodClass]] = [
                cluster.group((matcher,), living=False).classes for matcher in own
            ]
            groups += hard_groups(kind, cluster)
            about = cluster.terms_about(kind)
            groups += [term.carriers for term in about if term.key.kind is TermKind.REQUIRED_ANTI]
            nodes = {node for group in groups for other in group for node in other.nodes}
            ranks = self._trial.view.nodes.ranks
            found.update(sorted(nodes, key=lambda node: int(ranks[node]))[:SOME_NODES])
        return found

    def _coming(self, pod: Pod) -> Pod:
        """As it is to stand on a node."""
        return self._drafts.replacement(pod) if pod.node else pod

    def _leaving(self) -> list[FloatArray]:
        """What the planned moves leave, by stage, row and node."""
        planned, some, places = self._trial.planned.moves, self._extent.counts_on, self._conditions.places
        most = max((move.stage for move in planned), default=0)
        leaving = [
            np.zeros((len(self._names), len(self._order))) for _ in range(min(most, self._extent.stages - 1))
        ]
        for move in planned:
            counts = some is None or move.pod.uid in some
            if counts and move.stage <= len(leaving) and places[move.source] >= 0:
                for name in self._names:
                    row = self._conditions.row(name)
                    leaving[move.stage - 1][row, places[move.source]] += held_amount(move.pod, name)
        return leaving

    def _best_first(self, pod: Pod, falls: Mapping[int, float]) -> list[int]:
        nodes = np.fromiter(falls, dtype=np.int64, count=len(falls))
        lacking = np.zeros(len(nodes))
        for _, left, needed in self._trial.left_for(self._coming(pod)):
            lacking += np.maximum(needed - left[nodes], 0) / needed
        most = -np.fromiter(falls.values(), dtype=np.float64, count=len(falls))
        best: list[int] = nodes[np.lexsort((self._trial.view.nodes.ranks[nodes], lacking, most))].tolist()
        return best

    def _taking_part(self, near: Collection[int]) -> list[Pod]:
        """The pods that want something, and those that could make room for them, by node and name."""
        state, wanting = self._trial.state, [candidate.pod for _, candidate in self._wanting.values()]
        sources = {state.node_index[pod.node] for pod in wanting if pod.node}
        nodes = sorted(sources.union(near), key=state.node_names.__getitem__)
        pending = (pod for pod in wanting if not pod.node and self._falls[pod.uid])
        return sorted(pending, key=lambda pod: pod.key) + [
            pod
            for node in nodes
            for pod in sorted(state.pods_on(state.node_names[node]), key=lambda pod: pod.key)
            if self._falls.get(pod.uid) or (node in near and self._may_step_aside(pod))
        ]

    def _ranks(self) -> dict[str, float]:
        """By uid, 0 to a half: of equal pods the least reluctant step aside, then those whose moves disrupt least."""
        keys = {pod.uid: (reluctance(pod), self._drafts.disruption(pod)) for pod in self._pods}
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
        return {uid: 0.5 * ranks[key] / len(ranks) for uid, key in keys.items()}

    def _nodes(self, near: Collection[int]) -> IntArray:
        """Those nodes, those that the pods leave, and those with room for any of them; of very many the ones with most room."""
        state, usable = self._trial.state, self._trial.view.nodes.usable
        part = np.zeros(state.nodes.size, dtype=np.bool_)
        part[[state.node_index[pod.node] for pod in self._pods if pod.node]] = True
        part[list(near)] = True
        roomy, room = usable & ~part, np.full(state.nodes.size, np.inf)
        for name in self._names:
            whole = state.allocatable(name)
            left = whole - state.requested(name) - self._trial.planned.departed(name)
            roomy &= left >= min(needs.get(name, 0) for needs in self._needs)
            room = np.minimum(room, left / np.maximum(whole, 1))
        some = np.flatnonzero(roomy)
        ranks = self._trial.view.nodes.ranks
        part[some[np.lexsort((ranks[some], -room[some]))][:MOST_ROOMY]] = True
        nodes = np.flatnonzero(part)
        ordered: IntArray = nodes[np.argsort(ranks[nodes], kind="stable")]
        return ordered

    def _repairs(self, policy: Policy, candidate: Candidate) -> dict[int, float]:
        if not candidate.pod.node:
            return self._lets_in(candidate.pod)
        pod, replacement = candidate.pod, self._drafts.replacement(candidate.pod)
        whole = self._drafts.objective.change(pod, replacement)
        gains, change = self._drafts.objective.gains(policy, candidate, whole), whole.of_rules_and_wishes
        falls = -_FAULT * change[Tier.HARD] - change[Tier.SOFT] / ONE
        # Who breaks a rule moves for that, not for a wish that it has besides.
        better = (gains > 0) & (falls > (_FAULT / 2 if candidate.tier is Tier.HARD else 0.0))
        better &= self._static(pod, replacement)
        better[self._trial.state.node_index[pod.node]] = False
        return {node: float(falls[node]) for node in np.flatnonzero(better).tolist()}

    def _lets_in(self, pod: Pod) -> dict[int, float]:
        """Nodes that are large enough for a pending pod, and that nothing but pods there keeps it off."""
        kind = self._trial.state.cluster.kind_of(pod)
        known = self._rooms.get(kind)
        if known is None:
            nodes = np.flatnonzero(self._trial.large_enough(pod) & self._trial.without_others(pod))
            known = self._rooms[kind] = dict.fromkeys(nodes.tolist(), 1.0)
        return known

    def _may_step_aside(self, pod: Pod) -> bool:
        # Who asks to be moved does not matter for what may hold it back.
        may_leave = self._extent.may_leave or self._trial.view.movable
        return not belongs_to_node(pod) and may_leave(pod)

    def _static(self, pod: Pod, replacement: Pod) -> BoolArray:
        """Nodes that would take it, as far as other pods are not concerned."""
        trial = self._trial

        def find() -> tuple[Pod, BoolArray]:
            with trial.without(pod):
                known = trial.large_enough(replacement) & trial.without_others(replacement)
            elsewhere = trial.elsewhere(pod, replacement)
            return replacement, known if elsewhere is None else known & elsewhere

        claims = pod.name if replacement.spec.volumes else ""
        alike = pod.namespace, id(replacement.spec), id(replacement.labels), claims, trial.kind(pod)
        # It holds identities: with the answer is the pod that must live as long.
        return trial.view.memo.of((RepairDrafts, alike), trial.version, find)[1]

    def _movable(self, pod: Pod) -> MovablePod:
        replacement = self._replacements[pod.uid]
        falls = self._falls.get(pod.uid, {})
        owner = pod.controller.uid if pod.controller is not None else ""
        policy = self._wanting[pod.uid][0].name if pod.uid in self._wanting else ""
        return replace(
            self._conditions.movable(
                pod,
                replacement,
                policy,
                allowed=self._may_go_to(pod, replacement),
                cost=1.0 + self._costs.get(pod.uid, 0.0) if pod.node else 0.0,
            ),
            holds=self._holds(pod) if pod.node else (),
            repairs={
                int(self._conditions.places[node]): fall * self._weights.get(pod.uid, 1.0)
                for node, fall in falls.items()
            },
            owner=self._owners.setdefault(owner, len(self._owners)) if owner and pod.node else -1,
            excess=bool(policy) and self._is_excess(*self._wanting[pod.uid]),
        )

    def _holds(self, pod: Pod) -> Amounts:
        known = self._held.get(pod.held)
        if known is None:
            amounts = ((self._conditions.row(name), float(held_amount(pod, name))) for name in self._names)
            known = self._held[pod.held] = tuple(amounts)
        return known

    @staticmethod
    def _is_excess(policy: Policy, candidate: Candidate) -> bool:
        return isinstance(policy, TopologySpread) and candidate.tier is Tier.HARD

    def _may_go_to(self, pod: Pod, replacement: Pod) -> Callable[[], BoolArray]:
        known: list[BoolArray] = []

        def places() -> BoolArray:
            if not known:
                change = self._drafts.objective.change(pod, replacement).of_rules_and_wishes
                worse = change[Tier.HARD] > 0 if self._extent.loses_wishes else worsens_wishes(change)
                allowed = self._static(pod, replacement) & ~worse
                allowed[self._refused.get(pod.uid, _NO_NODES)] = False
                known.append(allowed[self._order])
            return known[0]

        return places
