"""What a plan makes better, in words: the badness that decides, before and after, and what keeps the rest where it is.

A headline tells of each tier in which anything is bad. What a later tier pays for an earlier one is told as well. Counts are
those of the objective; pods that stay are counted by the reason why they are skipped. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rescheduler.model.counted import plural, verb
from rescheduler.planning.badness import Badness, MoveEffect, by_policy, sum_of, tier_name
from rescheduler.planning.plan import (
    ClusterSummary,
    PendingRoom,
    Plan,
    PolicySummary,
    Question,
    Skipped,
    SkipReason,
)
from rescheduler.policies.objective import ONE, UNITS, Tier

NO_ROOM: Final = "NodeResourcesFit"

_WHY: Final = {
    SkipReason.DISRUPTION_BUDGET: "for disruption budgets",
    SkipReason.MULTIPLE_BUDGETS: "for disruption budgets",
    SkipReason.TOO_FEW_AVAILABLE: "for their availability",
    SkipReason.NO_TARGET: "for rules of the scheduler",
    SkipReason.NO_BETTER_TARGET: "for want of a better node",
    SkipReason.GAIN_TOO_SMALL: "for too little gain",
    SkipReason.PROTECTED: "for protections",
    SkipReason.LIMIT_TOTAL: "for limits of moves",
    SkipReason.LIMIT_HOUR: "for limits of moves",
    SkipReason.LIMIT_NODE: "for limits of moves",
    SkipReason.LIMIT_NAMESPACE: "for limits of moves",
    SkipReason.LIMIT_WORKLOAD: "for limits of moves",
    SkipReason.LIMIT_PLAN: "for limits of moves",
    SkipReason.CHANGE_WINDOW: "until a change window opens",
    SkipReason.COOLDOWN: "for recent moves",
    SkipReason.BACKOFF: "for moves that failed",
    SkipReason.IN_PROGRESS: "for moves under way",
    SkipReason.AVOIDED: "for nodes to avoid",
    SkipReason.GROUP: "because others of their node stay",
    SkipReason.NOT_SUPPORTED: "for moves that are not supported",
    SkipReason.SINGLE_REPLICA: "for protections",
    SkipReason.WORKLOAD_BUSY: "for rollouts",
    SkipReason.GATE_NOT_IN_FORCE: "for want of the gate",
}
"""Why pods stay, after their number."""
HEADER: Final = ("for", "room on", "pods that step aside", "why there is none")
ROOMS_SHOWN: Final = 200


def headline(plan: Plan) -> str:
    """What the plan makes better, and which pods stay: "3 moves: repairs 2 of 3 violations; 1 pod that breaks rules stays for want of room"."""
    parts = [*_tiers(plan)]
    if not plan.moves:
        if not parts and not any(policy.badly_placed for policy in plan.before.policies):
            return "Nothing to move: no policy finds a badly placed pod."
        return "; ".join(["Nothing to move", *parts]) + "."
    moves = plural(len(plan.moves), "move")
    return f"{moves}: {'; '.join(parts)}" if parts else moves


def _tiers(plan: Plan) -> Iterator[str]:
    before, after = badness_of(plan.before), badness_of(plan.after)
    yield from _violations(before.hard, after.hard, plan.skipped)
    yield from _pending(before.pending, after.pending)
    if _differ(before.soft, after.soft):
        yield f"preferences not met {_way(before.soft, after.soft)}"
    yield from _overloaded(plan, before.balance, after.balance)
    if before.fragmentation != after.fragmentation:
        more = before.fragmentation - after.fragmentation
        yield f"{'makes' if more > 0 else 'breaks'} {plural(abs(more), 'room')} of the template"
    yield from _in_use(plan, before, after)


def _violations(before: int, after: int, skipped: Sequence[Skipped]) -> Iterator[str]:
    if after < before:
        yield f"repairs {before - after:,} of {plural(before, 'violation')}"
    if after and (why := _reasons(skipped)):
        pods = sum(number for _, number in why)
        those = (
            f"{plural(pods, 'pod')} that {verb(pods, 'breaks', 'break')} rules {verb(pods, 'stays', 'stay')}"
        )
        told = (f"{number:,} {reason}" for reason, number in why)
        yield f"{those} {why[0][0]}" if len(why) == 1 else f"{those}: {', '.join(told)}"
    elif after:
        yield f"{plural(after, 'violation')} {verb(after, 'stays', 'stay')}"


def _pending(before: int, after: int) -> Iterator[str]:
    if after < before:
        yield f"makes room for {before - after:,} of {plural(before, 'pending pod')}"
    elif after:
        yield f"no room is made for {plural(after, 'pending pod')}"


def _reasons(skipped: Sequence[Skipped]) -> list[tuple[str, int]]:
    """Why pods that break rules are not moved, the most frequent reason first."""
    counted = Counter(map(_why, (one for one in skipped if one.tier == tier_name(Tier.HARD))))
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def _why(one: Skipped) -> str:
    if one.reason is SkipReason.NO_TARGET and one.blocked_by == NO_ROOM:
        return "for want of room"
    return _WHY[one.reason]


def _overloaded(plan: Plan, before: int, after: int) -> Iterator[str]:
    nodes, then = _nodes(plan.before, Tier.BALANCE), _nodes(plan.after, Tier.BALANCE)
    # The numbers are no shares of nodes: each point counts the more, the fuller the node.
    way = f"{'falls' if after < before else 'rises'} by {abs(after - before) / max(before, 1):.0%}"
    if nodes != then:
        yield f"{plural(nodes, 'node')} above targetThresholds {verb(nodes, 'becomes', 'become')} {then:,}"
        if nodes and then and (after > before) == (then < nodes) and _differ(before, after):
            yield f"what nodes hold above them {way}"
    elif _differ(before, after):
        yield f"what {plural(nodes, 'node')} {verb(nodes, 'holds', 'hold')} above targetThresholds {way}"
    elif nodes:
        yield f"{plural(nodes, 'node')} {verb(nodes, 'stays', 'stay')} above targetThresholds"


def _in_use(plan: Plan, before: Badness, after: Badness) -> Iterator[str]:
    nodes, then = _nodes(plan.before, Tier.CONSOLIDATION), _nodes(plan.after, Tier.CONSOLIDATION)
    if then < nodes:
        yield f"empties {nodes - then:,} of {plural(nodes, 'node')} in use"
    if before.consolidation != nodes * ONE and _differ(before.consolidation, after.consolidation):
        yield f"the price of nodes in use {_way(before.consolidation, after.consolidation, 's')}"
    if then > nodes:
        yield f"takes {plural(then - nodes, 'node')} more in use"
    if nodes and not plan.moves:
        full = "" if _to_empty(plan.before) else ": none that may be emptied is at or below thresholds"
        yield f"{plural(nodes, 'node')} {verb(nodes, 'stays', 'stay')} in use{full}"
    if (
        then == nodes
        and after.consolidation == before.consolidation
        and _to_empty(plan.after) < _to_empty(plan.before)
    ):
        yield "takes pods off nodes that are to be emptied"


def _to_empty(summary: ClusterSummary) -> int:
    """How far nodes are from empty. Rooms are counted in the same tier, by policies that count no nodes in use."""
    told = tier_name(Tier.CONSOLIDATION)
    return sum(p.badness.emptying for p in summary.policies if p.nodes is not None and p.nodes.tier == told)


def _nodes(summary: ClusterSummary, tier: Tier) -> int:
    """Nodes that count in a tier, over the policies that count nodes there."""
    counts = (policy.nodes for policy in summary.policies)
    return sum(nodes.count for nodes in counts if nodes is not None and nodes.tier == tier_name(tier))


def badness_of(summary: ClusterSummary) -> Badness:
    """The sum over the policies."""
    return sum_of(policy.badness for policy in summary.policies)


def in_units(tier: Tier, value: int) -> str:
    """A badness in the unit of its tier: rules in whole numbers, pods and nodes with up to two decimals."""
    unit = UNITS[tier]
    if unit == 1:
        return f"{value:,}"
    text = f"{value / unit:,.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


TOLD: Final = {
    Tier.HARD: "violations",
    Tier.PENDING: "pods without room",
    Tier.SOFT: "preferences not met",
    Tier.BALANCE: "above targets",
    Tier.FRAGMENTATION: "rooms broken",
    Tier.CONSOLIDATION: "in use",
}
"""The tiers that people are told of, each with what it counts. EMPTYING only compares."""


def _differ(before: int, after: int) -> bool:
    """True if what is shown of them differs."""
    return in_units(Tier.SOFT, before) != in_units(Tier.SOFT, after)


def _way(before: int, after: int, ending: str = "") -> str:
    way = f"{'fall' if after < before else 'rise'}{ending}"
    return f"{way} from {in_units(Tier.SOFT, before)} to {in_units(Tier.SOFT, after)}"


def effect_words(effects: Sequence[MoveEffect]) -> str:
    """What a move was good for, and what others pay: "NodeTaints: violations -1; LowNodeUtilization: above targets +0.04"."""
    found: list[str] = []
    for policy, change in by_policy(effects).items():
        if words := change_words(change):
            found.append(f"{policy}: {words}")
    return "; ".join(found) or "-"


def change_words(change: Badness) -> str:
    """What changes, in words: "violations -1, above targets +0.04"; "" if nothing worth telling does."""
    told = [
        f"{words} {'+' if value > 0 else ''}{in_units(tier, value)}"
        for tier, words in TOLD.items()
        if (value := change.tiers()[tier]) and in_units(tier, value) != "0"
    ]
    if not told and change.emptying:
        told = [
            "a node nearer to empty or to a room more"
            if change.emptying < 0
            else "a node farther from empty or from a room more"
        ]
    return ", ".join(told)


class ReportSection(NamedTuple):
    """A part of a report: a table with a title, as text and on the page. Without rows it is left out."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: str = ""
    """What is not shown."""
    right: frozenset[int] = frozenset()
    """Columns of numbers."""


def policies_section(plan: Plan) -> ReportSection:
    """Pods badly placed by policy, then each tier in which anything is bad, before and after."""
    pairs = list(zip(plan.before.policies, plan.after.policies, strict=True)) if plan.after.policies else []
    tiers = [
        tier for tier in TOLD if any(b.badness.tiers()[tier] or a.badness.tiers()[tier] for b, a in pairs)
    ]
    rows = [
        (
            before.name,
            _pair(f"{before.badly_placed:,}", f"{after.badly_placed:,}"),
            *(_tier_pair(tier, before, after) for tier in tiers),
        )
        for before, after in pairs
    ]
    return ReportSection("By policy", ("policy", "badly placed pods", *(TOLD[tier] for tier in tiers)), rows)


def skipped_groups(skipped: Sequence[Skipped]) -> list[list[Skipped]]:
    """Pods that stay, by reason and what blocks, the largest group first."""
    groups: defaultdict[tuple[str, str], list[Skipped]] = defaultdict(list)
    for one in skipped:
        groups[one.reason.value, one.blocked_by].append(one)
    return [members for _, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


_QUESTIONS: Final = {
    Question.VIOLATIONS_REPAIRED: "violations repaired",
    Question.NODES_EMPTIED: "nodes emptied",
    Question.PRICE_EMPTIED: "price of nodes emptied",
    Question.ROOMS_MADE: "rooms made",
    Question.EXCESS_REMOVED: "excess removed (nodes)",
}


def bounds_section(plan: Plan) -> ReportSection:
    """Of ``plan --prove``: what the plan reaches beside what no plan can pass."""
    rows = [
        (
            _QUESTIONS[bound.question],
            "-" if bound.reached is None else f"{bound.reached:g}",
            "-" if bound.bound is None else f"{bound.bound:g}",
            "none: proven" if bound.proven else "-" if bound.gap is None else f"{100 * bound.gap:.1f}%",
            f"{bound.solver_seconds:.1f} s",
            "; ".join(bound.notes) or "-",
        )
        for bound in plan.bounds or ()
    ]
    header = ("what", "reached", "at most", "gap", "solver", "notes")
    return ReportSection("Beside the best plan there can be", header, rows, right=frozenset({1, 2, 4}))


def _tier_pair(tier: Tier, before: PolicySummary, after: PolicySummary) -> str:
    values = before.badness.tiers()[tier], after.badness.tiers()[tier]
    if not any(values):
        return "-"
    return _pair(*(in_units(tier, value) for value in values))


def _pair(before: str, after: str) -> str:
    return f"{before} -> {after}"


def rooms_section(plan: Plan) -> ReportSection:
    """Room for each pending pod: the node, who steps aside, or why nothing helps."""
    rows = [_row(room) for room in plan.rooms[:ROOMS_SHOWN]]
    return ReportSection("Room for pending pods", HEADER, rows, and_more(len(plan.rooms) - ROOMS_SHOWN))


def and_more(count: int) -> str:
    """What a list leaves out; "" if it is nothing."""
    return f"and {count:,} more" if count > 0 else ""


def _row(room: PendingRoom) -> tuple[str, ...]:
    aside = ", ".join(f"{pod.namespace}/{pod.name}" for pod in room.moves)
    aside = aside or ("those that leave for others" if room.node else "-")
    wanted = (
        f"Reservation {room.reservation}" if room.reservation else f"{room.pod.namespace}/{room.pod.name}"
    )
    return wanted, room.node or "-", aside, room.message or "-"
