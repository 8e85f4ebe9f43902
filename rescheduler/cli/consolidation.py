"""Which nodes can go, worked out before anything is changed. Pure.

Nodes without pods go first. The others are chosen by the policy HighNodeUtilization, asked as if every node were
under-utilised: it finds the nodes whose pods all fit on nodes that stay, by the scheduler's own rules, the most expensive and
the emptiest first. Protections of the configuration hold. Budgets are waited for later, so they count here only where they
never allow a disruption.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from rescheduler.cli.drain_plan import DrainMove, DrainOptions, DrainPlan, landed, plan_drain
from rescheduler.cli.move_checks import kept_where_they_are
from rescheduler.cli.node_marks import EmptyingProgress
from rescheduler.configuration.document import Configuration
from rescheduler.model.counted import plural
from rescheduler.model.names import (
    DELETION_CANDIDATE,
    DO_NOT_DISRUPT,
    LABEL_CONSOLIDATION,
    SCALE_DOWN_DISABLED,
)
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Plan, Skipped, SkipReason, stages_of
from rescheduler.planning.planner import decide
from rescheduler.planning.summary import gathered
from rescheduler.policies.high_node_utilization import HighNodeUtilization, HighNodeUtilizationArgs
from rescheduler.policies.keeping_empty import EmptiedNodes
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.state import SchedulingState

OPTIONS: Final = DrainOptions(ignore_daemonsets=True, delete_emptydir_data=True, keeps_protections=True)
"""How the pods of the nodes are judged: what may be lost is said by the protections, not by flags."""
_EVERY_NODE: Final = 1000.0
"""Percent that no node reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesWanted:
    """What is asked for."""

    nodes: int | None = None
    """Exactly so many; None: as many as can go."""
    pool: tuple[tuple[str, str], ...] = ()
    """Labels of the nodes that may go and may receive pods; empty: all nodes."""
    until: float = 1.0
    """The nodes that stay are requested up to this share at most, together, in CPU and in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What the pods of some nodes request together, as a share of what the nodes have."""

    nodes: int
    cpu: float
    memory: float

    @property
    def fullest(self) -> float:
        """Of the two."""
        return max(self.cpu, self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan(DrainPlan):
    """Which nodes go, in the order in which they are begun, and how they are emptied.

    ``under_way`` and ``refused`` are of pods of ``resumed``.
    """

    resumed: tuple[str, ...]
    """Of an earlier consolidation that was interrupted; they go first."""
    empty: tuple[str, ...]
    """Without pods that count."""
    closed: frozenset[str]
    """Nodes that receive nothing: those that go, empty ones that stay, and those out of the pool."""
    stay: tuple[tuple[str, str], ...]
    """The other nodes of the pool, each with the reason."""
    before: Share
    after: Share
    warnings: tuple[str, ...]
    """What may make the choice another one than is expected."""


def choose(snapshot: Snapshot, configuration: Configuration, wanted: NodesWanted) -> ConsolidationPlan:
    """The nodes that go, the empty ones first, then those that cost the fewest moves."""
    pool = {name: node for name, node in snapshot.nodes.items() if _in_pool(node, wanted.pool)}
    resumed = tuple(sorted(name for name, node in pool.items() if is_emptying(node)))
    holding = {pod.node for pod in snapshot.pods.values() if _counts(pod)}
    idle = [name for name, node in sorted(pool.items()) if _may_go(node) and name not in holding]
    empty = [name for name in idle if not _is_candidate(pool[name])]
    outside = frozenset(snapshot.nodes.keys() - pool.keys()) | frozenset(idle)
    again = plan_drain(snapshot, configuration, resumed, OPTIONS, closed=outside)
    after_resumed = landed(snapshot, {move.pod.key: move.target for move in again.moves})
    args = _arguments(configuration, wanted.pool)
    plan = _planned(_patient(after_resumed), configuration, args)
    by_node = _emptied_by(plan, after_resumed)
    share = partial(share_of, snapshot, defaults=args.use_default_requests)
    chosen, why_no_more = _limited((*empty, *by_node), resumed, pool, share, wanted)
    emptied = tuple(name for name in by_node if name in chosen)
    going = {*resumed, *chosen}
    staying = [p for p in snapshot.pods.values() if p.node in pool and p.node not in going and _counts(p)]
    kept = {pod.node: (pod, why) for pod, why in kept_where_they_are(snapshot, configuration, staying)}
    closed = outside | going
    packed = tuple(move for name in emptied for move in by_node[name])
    moves = (*again.moves, *packed)
    if len(emptied) < len(by_node):
        # Nodes that could go stay and take pods, too: nothing need be packed.
        spread = plan_drain(_patient(after_resumed), configuration, emptied, OPTIONS, closed=closed)
        if {move.pod.key for move in spread.moves} == {move.pod.key for move in packed}:
            moves = (*again.moves, *spread.moves)
    return ConsolidationPlan(
        nodes=(*resumed, *(name for name in empty if name in chosen), *emptied),
        resumed=resumed,
        empty=tuple(name for name in empty if name in chosen),
        moves=moves,
        under_way=again.under_way,
        closed=closed,
        stay=tuple(_staying(plan, pool, going, dict.fromkeys([*idle, *by_node], why_no_more), kept)),
        before=share([name for name, node in pool.items() if node.usable]),
        after=share([n for n, node in pool.items() if node.usable and n not in going], going),
        warnings=(*plan.metadata.warnings, *gathered(snapshot, [(m.pod, m.target) for m in moves])),
        refused=again.refused,
    )


def again(
    snapshot: Snapshot, configuration: Configuration, going: Sequence[str], closed: Collection[str]
) -> DrainPlan:
    """What is left to do for nodes that go; they are cordoned. Pods that have ended stay: they use nothing."""
    there = [name for name in going if name in snapshot.nodes]
    found = plan_drain(snapshot, configuration, there, OPTIONS, closed=closed)
    return dataclasses.replace(found, evictions=())


def is_emptying(node: Node) -> bool:
    """True for a node that an interrupted consolidation has left cordoned. Who uncordons it has ended that."""
    return node.unschedulable and node.labels.get(LABEL_CONSOLIDATION) == EmptyingProgress.EMPTYING


def share_of(
    snapshot: Snapshot, nodes: Collection[str], from_others: Collection[str] = (), *, defaults: bool
) -> Share:
    """What is requested on ``nodes``, with the pods that come from ``from_others``; ``defaults``: as HighNodeUtilization counts it."""
    staying, leaving = frozenset(nodes), frozenset(from_others)
    cpu = memory = 0
    for pod in snapshot.pods.values():
        if (pod.node in staying and not pod.terminal) or (pod.node in leaving and _counts(pod)):
            cpu += held_amount(pod, "cpu", defaults=defaults)
            memory += held_amount(pod, "memory", defaults=defaults)
    has = [snapshot.nodes[name].allocatable for name in staying]
    return Share(
        nodes=len(staying),
        cpu=cpu / max(sum(amount.cpu_milli for amount in has), 1),
        memory=memory / max(sum(amount.memory_bytes for amount in has), 1),
    )


def _in_pool(node: Node, pool: Sequence[tuple[str, str]]) -> bool:
    return all(node.labels.get(key) == value for key, value in pool)


def _may_go(node: Node) -> bool:
    return node.usable and node.may_be_taken_away


def _is_candidate(node: Node) -> bool:
    """True for a node that cluster-autoscaler removes in time, if it stays empty: there is nothing to do for it."""
    return any(taint.key == DELETION_CANDIDATE for taint in node.taints)


def _counts(pod: Pod) -> bool:
    return bool(pod.node) and not pod.terminal and not belongs_to_node(pod)


def _arguments(configuration: Configuration, pool: Sequence[tuple[str, str]]) -> HighNodeUtilizationArgs:
    configured = (p.args for p in configuration.policies if isinstance(p.args, HighNodeUtilizationArgs))
    return msgspec.structs.replace(
        next(configured, HighNodeUtilizationArgs()),
        enabled=True,
        thresholds={"cpu": _EVERY_NODE, "memory": _EVERY_NODE},
        number_of_nodes=1,
        emptied_nodes=EmptiedNodes.NONE,
        **({"node_selector": dict(pool)} if pool else {}),
    )


def _planned(snapshot: Snapshot, configuration: Configuration, args: HighNodeUtilizationArgs) -> Plan:
    inputs: PlanningInputs = configuration.inputs(unlimited=True)
    limits = msgspec.structs.replace(
        inputs.limits,
        minimum_gain=0.0,
        workload_cooldown_s=inputs.limits.requested.workload_cooldown_s,
        budget_buffer=0,
    )
    return decide(
        snapshot,
        (HighNodeUtilization(args),),
        msgspec.structs.replace(inputs, limits=limits, aggressiveness=1.0),
        SchedulingState(snapshot, configuration.profile),
        explains=True,
    ).plan(last=True)


def _patient(snapshot: Snapshot) -> Snapshot:
    """The same with budgets that allow everything, if they ever allow anything: they are waited for."""
    budgets = {
        key: budget
        if budget.desired_healthy >= budget.expected_pods
        else msgspec.structs.replace(budget, disruptions_allowed=budget.expected_pods)
        for key, budget in snapshot.budgets.items()
    }
    return dataclasses.replace(snapshot, budgets=budgets)


def _emptied_by(plan: Plan, snapshot: Snapshot) -> Mapping[str, list[DrainMove]]:
    """The moves by node, of those nodes that they empty wholly, in the order of the plan."""
    found: defaultdict[str, list[DrainMove]] = defaultdict(list)
    for move, stage in zip(plan.moves, stages_of(plan.moves), strict=True):
        pod = snapshot.pods[ObjectKey(move.pod.namespace, move.pod.name)]
        found[move.source].append(DrainMove(pod=pod, target=move.target, stage=stage - 1))
    standing: defaultdict[str, int] = defaultdict(int)
    for pod in snapshot.pods.values():
        standing[pod.node] += _counts(pod)
    targets = {move.target for move in plan.moves}
    whole = {name: moves for name, moves in found.items() if len(moves) == standing[name]}
    return {name: moves for name, moves in whole.items() if name not in targets}


def _limited(
    candidates: Sequence[str],
    resumed: Sequence[str],
    pool: Mapping[str, Node],
    share: Callable[[Collection[str], Collection[str]], Share],
    wanted: NodesWanted,
) -> tuple[list[str], str]:
    """As many of them, from the first on, as are asked for; and why the others stay."""
    chosen: list[str] = []
    most = len(candidates) if wanted.nodes is None else max(0, wanted.nodes - len(resumed))
    usable = [name for name, node in pool.items() if node.usable]
    for name in candidates[:most]:
        going = {*resumed, *chosen, name}
        left = [other for other in usable if other not in going]
        if not left:
            return chosen, "one node has to stay"
        if (fullest := share(left, going).fullest) > wanted.until:
            return (
                chosen,
                f"without it the nodes that stay would be requested to {fullest:.0%}, more than {wanted.until:.0%}",
            )
        chosen.append(name)
    return chosen, "it could go, too"


def _staying(
    plan: Plan,
    pool: Mapping[str, Node],
    going: Collection[str],
    possible: Mapping[str, str],
    kept: Mapping[str, tuple[Pod, str]],
) -> Iterator[tuple[str, str]]:
    skipped: defaultdict[str, list[Skipped]] = defaultdict(list)
    for one in plan.skipped:
        skipped[one.node].append(one)
    targets = {move.target for move in plan.moves}
    for name, node in sorted(pool.items()):
        if name in going:
            continue
        if name in possible:
            yield (
                name,
                "it is empty, and marked for cluster-autoscaler" if _is_candidate(node) else possible[name],
            )
        elif not node.may_be_taken_away:
            yield name, f"annotation {DO_NOT_DISRUPT if node.do_not_disrupt else SCALE_DOWN_DISABLED}"
        elif not node.usable:
            yield name, f"it {node.unusable_because}"
        elif name in kept:
            pod, why = kept[name]
            yield name, f"{pod.key}: {why}"
        else:
            yield name, _why(skipped[name], receives=name in targets)


def _why(skipped: Sequence[Skipped], *, receives: bool) -> str:
    named = [one for one in skipped if one.reason is not SkipReason.GROUP]
    if not named:
        return "it receives pods of the nodes that go" if receives else "its pods do not all fit elsewhere"
    first = named[0]
    by = f" ({first.blocked_by})" if first.blocked_by else ""
    more = f"; {plural(len(named) - 1, 'pod')} more" if len(named) > 1 else ""
    return f"{first.pod.namespace}/{first.pod.name}: {first.message}{by}{more}"
