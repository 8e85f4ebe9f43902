"""How far a plan is from the best that any plan could reach: what it reached, beside the bound of an exact model.

A bound is never too low: what the models cannot express is left out of them, so they can only promise too much. Each bound says what
was left out. If a plan reached more than a model allows, the model is wrong, and no bound is given. Pure
but for the solver's time limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.counted import plural
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.optima.any_plan import (
    RoomsOfTemplate,
    fewest_violations_of_any_plan,
    least_excess_of_any_plan,
    most_relief_by_count,
    most_rooms_of_any_plan,
)
from rescheduler.optima.fillings import (
    Consolidation,
    most_arriving,
    most_emptied,
    most_emptied_by_count,
    most_emptied_by_sizes,
)
from rescheduler.optima.integer_program import Solution
from rescheduler.optima.placement import WITH_DEFAULTS, CountedCluster, Places, Rules
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Plan, PlanBound, Question
from rescheduler.planning.protections import Protectors
from rescheduler.policies.defragmentation import DefragmentationArgs
from rescheduler.policies.excess import raised_target
from rescheduler.policies.high_node_utilization import HighNodeUtilization, HighNodeUtilizationArgs
from rescheduler.policies.inter_pod_anti_affinity import InterPodAntiAffinityArgs
from rescheduler.policies.low_node_utilization import LowNodeUtilizationArgs
from rescheduler.policies.node_affinity import NodeAffinityArgs
from rescheduler.policies.node_taints import NodeTaintsArgs
from rescheduler.policies.objective import ONE
from rescheduler.policies.topology_spread import TopologySpreadArgs
from rescheduler.policies.utilization import REQUESTS
from rescheduler.policies.wire import PERCENT, PolicyArgs, registered
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.framework import BoolArray, IntArray, Profile
from rescheduler.scheduling.nodes import NodeTable

MOST_PLACES: Final = 40_000
"""Kinds of pods times nodes that take them: what a model of every pod on every node is made for; beyond, amounts and sizes are compared."""
_SAME: Final = 1e-6
_DIGITS: Final = 6
EXCESS_EXACT_TO: Final = 1e-3
PRICE_EXACT_TO: Final = 1e-5
"""Of the dearest node, or of the bound if that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPlan:
    """A plan, and everything that it is a function of."""

    snapshot: Snapshot
    plan: Plan
    policies: Sequence[PolicyArgs]
    """Arguments of the policies that are switched on."""
    inputs: PlanningInputs
    profile: Profile
    seconds: float
    """Time of the solver for each question."""

    def places(
        self,
        rules: Rules | None = None,
        gone: frozenset[str] = frozenset(),
        defaulted: Collection[str] = (),
    ) -> Places:
        """The cluster as numbers; pods that are protected stay."""
        return Places(
            self.snapshot,
            movable=self._movable(),
            gone=gone,
            rules=rules or Rules(),
            profile=self.profile,
            defaulted=defaulted,
        )

    def _movable(self) -> Callable[[Pod], bool]:
        # Whether a budget selects a pod is not asked: that can only let more pods move.
        protectors = Protectors(
            Replacements(self.snapshot),
            self.inputs.protections,
            self.inputs.profiles,
            covered=lambda _: True,
            judges=self.profile.judges,
        ).among(self.inputs.profiles)
        return lambda pod: any(one.movable(pod) for one in protectors)

    def defaulted(self, used: bool, resources: Collection[str]) -> frozenset[str]:  # noqa: FBT001 -- as the argument has it
        """Those of which a pod counts for more than it requests, where a policy uses defaults."""
        pods = [pod for pod in self.snapshot.pods.values() if pod.node] if used else []
        return frozenset(
            resource
            for resource in resources
            if any(
                held_amount(pod, resource, defaults=True) > held_amount(pod, resource, defaults=False)
                for pod in pods
            )
        )

    def after(self, policy: str | None = None) -> dict[str, str]:
        """The node of each pod by its uid, after all moves of the plan or those of one policy."""
        nodes = {pod.uid: pod.node for pod in self.snapshot.pods.values() if pod.node}
        for move in self.plan.moves:
            if policy is None or registered(move.policy) == policy:
                nodes[move.pod.uid] = move.target
        return nodes


def bounds(judged: JudgedPlan) -> tuple[PlanBound, ...]:
    """One for each question that the policies of the plan are about.

    A plan that limits of a cycle have cut is compared with plans without those limits.
    """
    found: list[PlanBound] = []
    rules = _rules(judged.policies)
    if not rules.none:
        found.append(_violations(judged, rules))
    for args in judged.policies:
        if isinstance(args, HighNodeUtilizationArgs):
            found.append(_emptied(judged, args))
        if isinstance(args, DefragmentationArgs):
            found.append(_rooms_made(judged, args))
        if isinstance(args, LowNodeUtilizationArgs):
            found.append(_relieved(judged, args))
    return tuple(found)


def _rules(policies: Sequence[PolicyArgs]) -> Rules:
    """Whose violations the policies repair."""
    kinds = tuple(map(type, policies))
    return Rules(
        affinity=any(isinstance(a, NodeAffinityArgs) and "required" in a.types for a in policies),
        taints=NodeTaintsArgs in kinds,
        apart=InterPodAntiAffinityArgs in kinds,
        spread=any(isinstance(a, TopologySpreadArgs) and "DoNotSchedule" in a.constraints for a in policies),
    )


def _violations(judged: JudgedPlan, rules: Rules) -> PlanBound:
    places = judged.places(rules)
    placement = places.placement
    start = placement.violations(placement.start)
    reached = start - placement.violations(places.counts_at(judged.after()))
    notes = [f"of {plural(start, 'violation')}"]
    best = Solution(0.0, 0.0, ())
    if start and _fits(placement.start.size, notes):
        best = fewest_violations_of_any_plan(placement, judged.inputs.max_moves, judged.seconds)
    notes += _left_out(places)
    return _bound(
        Question.VIOLATIONS_REPAIRED,
        reached,
        most=float(start),
        model=start - best.bound,
        best=best,
        notes=notes,
    )


def _emptied(judged: JudgedPlan, args: HighNodeUtilizationArgs) -> PlanBound:
    """By price where prices differ, else by number. The moves of other policies are taken as they are."""
    own = HighNodeUtilization.name
    others = [move for move in judged.plan.moves if registered(move.policy) != own]
    defaulted = judged.defaulted(args.use_default_requests, {*args.thresholds, *args.target_thresholds})
    places = judged.places(gone=frozenset(move.pod.uid for move in others), defaulted=defaulted)
    placement, nodes = places.placement, places.nodes
    among = args.nodes(nodes).copy()
    for resource in args.thresholds:
        among &= nodes.allocatable(resource) > 0
    for move in others:
        placement.occupied[nodes.index[move.target]] = True
    # The dearest node counts 1: the solver's tolerance is absolute.
    prices = args.prices_of(nodes) / ONE
    dearest = float(prices[among].max(initial=0.0)) or 1.0
    priced = bool((prices[among] < dearest).any())
    most = judged.inputs.max_moves
    asked = Consolidation.of(
        placement,
        _named(args.thresholds, placement, defaulted),
        _named(args.target_thresholds, placement, defaulted),
        None if most is None else most - len(others),
        among=among,
        prices=prices / dearest if priced else None,
    )
    before, after = placement.used(placement.start), placement.used(places.counts_at(judged.after(own)))
    reached = float((asked.prices * before).sum() - (asked.prices * after).sum())
    notes = [f"beside {plural(len(others), 'move')} of other policies"] if others else []
    count = most_emptied_by_count(placement, asked)
    best = (
        _most_emptied(placement, asked, reached, judged.seconds, notes) if count else Solution(0.0, 0.0, ())
    )
    notes += _left_out(places)
    if priced:
        return _bound(
            Question.PRICE_EMPTIED,
            reached,
            most=count,
            model=-best.bound,
            best=best,
            notes=notes,
            exact_to=PRICE_EXACT_TO,
            unit=dearest,
        )
    return _bound(
        Question.NODES_EMPTIED, round(reached), most=count, model=-best.bound, best=best, notes=notes
    )


def _named(
    percents: Mapping[str, float], placement: CountedCluster, defaulted: Collection[str]
) -> dict[str, float]:
    """Thresholds by the names that the model has of what the policy counts."""
    named = {WITH_DEFAULTS[r] if r in defaulted else r: percent for r, percent in percents.items()}
    return {name: percent for name, percent in named.items() if name in placement.resources}


def _most_emptied(
    placement: CountedCluster, asked: Consolidation, reached: float, seconds: float, notes: list[str]
) -> Solution:
    """By sizes, which costs little; if the plan is below that, by the model of every pod on every node."""
    by_sizes = most_emptied_by_sizes(placement, asked, seconds)
    if -by_sizes.bound <= reached + _SAME:
        return by_sizes
    places = int(np.count_nonzero(most_arriving(placement, asked)))
    if not _fits(places, notes):
        return by_sizes
    exact = most_emptied(placement, asked, seconds)
    return exact if exact.bound >= by_sizes.bound else by_sizes


def _rooms_made(judged: JudgedPlan, args: DefragmentationArgs) -> PlanBound:
    places = judged.places()
    placement = places.placement
    part = args.nodes(places.nodes) & places.nodes.usable
    asked = [RoomsOfTemplate(room, part & _offers(places.nodes, room)) for room in args.rooms()]
    asked = [RoomsOfTemplate({**one.room, "pods": 1}, one.among) for one in asked if one.among.any()]

    def rooms_in(left: IntArray) -> int:
        found = 0
        for room, among in asked:
            columns = [placement.resources.index(r) for r in room]
            number = (left[:, columns] // np.array(list(room.values()))).min(axis=1)
            found += int(np.maximum(number, 0)[among].sum())
        return found

    def rooms(counts: IntArray) -> int:
        return rooms_in(placement.capacity - placement.load(counts))

    start = rooms(placement.start)
    notes = [f"{plural(start, 'room')} before"]
    most = float(rooms_in(placement.capacity) - start)
    best = Solution(0.0, 0.0, ())
    if _fits(placement.start.size, notes):
        best = most_rooms_of_any_plan(placement, asked, judged.inputs.max_moves, judged.seconds)
        model = -best.bound - start
    else:
        model = math.inf
    notes += _left_out(places)
    reached = rooms(places.counts_at(judged.after())) - start
    return _bound(Question.ROOMS_MADE, reached, most=most, model=model, best=best, notes=notes)


def _raised_targets(
    least: Mapping[str, float], placement: CountedCluster, nodes: BoolArray
) -> dict[str, float]:
    """Targets that rise with what these nodes together hold, in percent."""
    held, capacity = placement.load(placement.start)[nodes].sum(axis=0), placement.capacity[nodes].sum(axis=0)
    found: dict[str, float] = {}
    for name, percent in least.items():
        at = placement.resources.index(name)
        found[name] = PERCENT * raised_target(percent / PERCENT, float(held[at]), float(capacity[at]))
    return found


def _offers(nodes: NodeTable, room: Mapping[str, int]) -> BoolArray:
    """Nodes that could hold a room if they were empty."""
    found = np.full(nodes.size, fill_value=bool(room))
    for resource, size in room.items():
        found &= nodes.allocatable(resource) >= size
    return found


def _relieved(judged: JudgedPlan, args: LowNodeUtilizationArgs) -> PlanBound:
    defaulted = judged.defaulted(args.use_default_requests, args.targets)
    places = judged.places(defaulted=defaulted)
    placement = places.placement
    high = _named(args.targets, placement, defaulted)
    nodes = args.nodes(places.nodes)
    if args.target_thresholds is None:
        high = _raised_targets(high, placement, nodes)
    notes: list[str] = []
    if args.use_deviation_thresholds or args.usage != REQUESTS:
        how = "the deviation from the mean" if args.use_deviation_thresholds else "measured usage"
        return PlanBound(question=Question.EXCESS_REMOVED, notes=(f"the model does not know {how}",))
    start = placement.excess(placement.start, high, nodes)
    reached = start - placement.excess(places.counts_at(judged.after()), high, nodes)
    best = Solution(0.0, 0.0, ())
    if start > _SAME and _fits(placement.start.size, notes):
        best = least_excess_of_any_plan(placement, nodes, high, judged.inputs.max_moves, judged.seconds)
    notes += _left_out(places)
    most = start
    if judged.inputs.max_moves is not None:
        most = min(start, most_relief_by_count(placement, nodes, high, judged.inputs.max_moves))
    return _bound(
        Question.EXCESS_REMOVED,
        reached,
        most=most,
        model=start - best.bound,
        best=best,
        notes=notes,
        exact_to=EXCESS_EXACT_TO,
    )


def _fits(places: int, notes: list[str]) -> bool:
    if places <= MOST_PLACES:
        return True
    notes.append("too large for the model of every pod on every node: only amounts and sizes are compared")
    return False


def _left_out(places: Places) -> Iterator[str]:
    number = places.placement.left_out
    if number:
        yield f"rules about other pods that the model does not know are left out, of {plural(number, 'pod')}"


def _bound(
    question: Question,
    reached: float,
    *,
    most: float,
    model: float,
    best: Solution,
    notes: Sequence[str],
    exact_to: float = 0.0,
    unit: float = 1.0,
) -> PlanBound:
    """``most``: what nothing can pass anyway; ``model``: the bound of the solver, infinite if it has none.

    ``exact_to``: how exact the solver is about what is not counted in whole numbers; 0: it is. ``unit``: what 1 is shown as.
    """
    bound = min(most, model) if math.isfinite(model) else most
    bound = bound if exact_to else math.floor(bound + _SAME)
    slack = exact_to * max(1.0, bound)
    if bound < reached - slack:
        return PlanBound(
            question=question,
            reached=round(reached * unit, _DIGITS),
            notes=(*notes, "no bound: the model forbids what the plan does"),
        )
    bound = max(bound, reached)
    if not math.isfinite(model):
        notes = (*notes, "the solver found no bound in its time")
    return PlanBound(
        question=question,
        reached=round(reached * unit, _DIGITS),
        bound=round(bound * unit, _DIGITS),
        gap=_gap(reached, bound),
        proven=bound - reached <= slack,
        solver_seconds=round(best.seconds, 3),
        notes=tuple(notes),
    )


def _gap(reached: float, bound: float) -> float:
    """The part of the bound that is missing. What makes way for more important things may be below 0: then all of it is."""
    if bound - reached <= _SAME:
        return 0.0
    return round(min((bound - reached) / max(bound, _SAME), 1.0), 4)
