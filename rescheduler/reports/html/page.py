"""The HTML page of a Plan: cards, maps before and after, moves, and what is blocked and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape

from rescheduler.planning.plan import Move, NodeSummary, Plan, Skipped
from rescheduler.planning.stages import numbers_before
from rescheduler.reports.html.drawing import change_bars, legend, load, node_map
from rescheduler.reports.html.style import CSS
from rescheduler.reports.objective_words import (
    TOLD,
    badness_of,
    bound_rows,
    effect_words,
    headline,
    in_units,
    policy_rows,
)
from rescheduler.reports.rooms import HEADER, ROOMS_SHOWN, room_rows
from rescheduler.reports.table import beyond, plural

_BARS_SHOWN = 60
_SHOWN_PER_REASON = 200
_MOVES_SHOWN = 2000


def plan_html(plan: Plan) -> str:
    """The whole page."""
    after = {node.name: node for node in plan.after.nodes}
    changed = frozenset(n.name for n in plan.before.nodes if after.get(n.name) != n)
    body = "\n".join(
        part
        for part in (
            _head(plan),
            _warnings(plan),
            _cards(plan),
            _policies(plan),
            _bounds(plan),
            _maps(plan, changed),
            _bars(plan, changed),
            _moves(plan.moves),
            _rooms(plan),
            f"<p class='warning'>{beyond(plan.beyond)}</p>" if plan.beyond else "",
            _skipped(plan.skipped),
        )
        if part
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Rescheduling plan</title>\n<style>{CSS}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _head(plan: Plan) -> str:
    source = f" from {escape(plan.metadata.source)}" if plan.metadata.source else ""
    named = plan.metadata.configuration
    configuration = f"; configuration: {escape(named)}" if isinstance(named, str) else ""
    return (
        f"<h1>Rescheduling plan</h1>\n<p class='faint'>State of {escape(plan.metadata.generated_at)}{source}; "
        f"aggressiveness {plan.metadata.aggressiveness:g}{configuration}. Every move reserves its target first; nothing has been "
        f"changed by this report.</p>\n<p class='lead'>{escape(headline(plan))}</p>"
    )


def _warnings(plan: Plan) -> str:
    return "".join(f"<p class='warning'>{escape(warning)}</p>" for warning in plan.metadata.warnings)


def _cards(plan: Plan) -> str:
    before, after = plan.before, plan.after
    worse, better = badness_of(before).tiers(), badness_of(after).tiers()
    cards = (
        (f"{len(plan.moves):,}", "moves"),
        (f"{len(plan.skipped):,}", "wanted, but not moved"),
        *(
            (f"{in_units(tier, worse[tier])} → {in_units(tier, better[tier])}", words)
            for tier, words in TOLD.items()
            if worse[tier] or better[tier]
        ),
        (f"{before.empty_nodes:,} → {after.empty_nodes:,}", f"empty nodes of {len(before.nodes):,}"),
    )
    inner = "".join(
        f"<div class='card'><b>{escape(big)}</b><span>{escape(small)}</span></div>" for big, small in cards
    )
    return f"<div class='cards'>{inner}</div>"


def _maps(plan: Plan, changed: frozenset[str]) -> str:
    return (
        "<h2>Nodes</h2>\n<p class='faint'>One cell for each node, by zone; the fuller its fullest resource, the "
        "warmer. Outlined: changed by the plan.</p>"
        f"{legend()}<div class='maps'>"
        f"<figure><figcaption>before</figcaption>{node_map(plan.before.nodes, changed)}</figure>"
        f"<figure><figcaption>after</figcaption>{node_map(plan.after.nodes, changed)}</figure></div>"
    )


def _bars(plan: Plan, changed: frozenset[str]) -> str:
    after = {node.name: node for node in plan.after.nodes}
    pairs = [
        (node, after[node.name]) for node in plan.before.nodes if node.name in changed and node.name in after
    ]
    if not pairs:
        return ""
    words = "Outline: before. Filled: after."
    if len(pairs) > _BARS_SHOWN:
        words += f" The {_BARS_SHOWN} that change most, of {len(pairs):,}."
        pairs = sorted(sorted(pairs, key=_change, reverse=True)[:_BARS_SHOWN], key=lambda pair: pair[0].name)
    return f"<h2>Nodes that change</h2>\n<p class='faint'>{words}</p>\n{change_bars(pairs)}"


def _change(pair: tuple[NodeSummary, NodeSummary]) -> float:
    """How much the node's load changes."""
    before, after = pair
    return abs(load(after) - load(before))


def _moves(moves: Sequence[Move]) -> str:
    if not moves:
        return "<h2>Moves</h2>\n<p>Nothing to move.</p>"
    before = numbers_before(moves)
    rows = "".join(
        f"<tr><td class='number'>{number}</td><td>{before[number - 1] or '-'}</td>"
        f"<td><code>{_name(move.pod.namespace, move.pod.name)}</code></td>"
        f"<td><code>{escape(move.source)}</code></td><td><code>{escape(move.target)}</code></td>"
        f"<td>{escape(move.policy)}</td><td class='number'>{move.gain:.2f}</td>"
        f"<td class='number'>{move.disruption:.2f}</td><td>{escape(effect_words(move.effects))}</td>"
        f"<td>{escape(move.message or move.reason)}</td></tr>"
        for number, move in enumerate(moves[:_MOVES_SHOWN], 1)
    )
    rest = f"<p class='faint'>and {len(moves) - _MOVES_SHOWN:,} more</p>" if len(moves) > _MOVES_SHOWN else ""
    return (
        f"<h2>{plural(len(moves), 'move').capitalize()}, in this order</h2>\n<div class='scroll'><table><thead><tr>"
        "<th class='number'>#</th><th>after</th><th>pod</th><th>from</th><th>to</th><th>policy</th><th class='number'>gain</th>"
        f"<th class='number'>cost</th><th>changes</th><th>why</th></tr></thead><tbody>{rows}</tbody></table></div>{rest}"
    )


def _rooms(plan: Plan) -> str:
    if not plan.rooms:
        return ""
    rest = len(plan.rooms) - ROOMS_SHOWN
    more = f"<p class='faint'>and {rest:,} more</p>" if rest > 0 else ""
    return f"<h2>Room for pending pods</h2>\n{_table(HEADER, room_rows(plan))}{more}"


def _skipped(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return ""
    groups: defaultdict[tuple[str, str], list[Skipped]] = defaultdict(list)
    for item in skipped:
        groups[(item.reason.value, item.blocked_by)].append(item)
    parts = [f"<h2>Wanted, but not moved ({len(skipped):,})</h2>"]
    for (reason, blocked_by), members in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        by = f" by <code>{escape(blocked_by)}</code>" if blocked_by else ""
        rows = "".join(
            f"<tr><td><code>{_name(m.pod.namespace, m.pod.name)}</code></td><td><code>{escape(m.node)}</code></td>"
            f"<td>{escape(m.policy)}</td><td>{escape(m.message)}</td></tr>"
            for m in members[:_SHOWN_PER_REASON]
        )
        more = len(members) - _SHOWN_PER_REASON
        rest = f"<p class='faint'>and {more:,} more</p>" if more > 0 else ""
        parts.append(
            f"<details><summary><b>{escape(reason)}</b>{by}: {plural(len(members), 'pod')}</summary>"
            "<div class='scroll'><table><thead><tr><th>pod</th><th>node</th><th>policy</th><th>why</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div>{rest}</details>"
        )
    return "\n".join(parts)


def _policies(plan: Plan) -> str:
    header, rows = policy_rows(plan)
    if not rows:
        return ""
    return (
        "<h2>By policy</h2>\n<p class='faint'>Before → after, as the planner counts: violations are rules that are broken, "
        "wishes are counted in pods, what is above targets and in use in nodes.</p>\n"
        f"{_table(header, rows)}"
    )


def _bounds(plan: Plan) -> str:
    header, rows = bound_rows(plan)
    if not rows:
        return ""
    return (
        "<h2>Beside the best plan there can be</h2>\n<p class='faint'>What this plan reaches, and what no plan can pass, by an exact "
        f"model; a gap may be the plan's or the model's.</p>\n{_table(header, rows)}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_arrows(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _arrows(cell: str) -> str:
    return cell.replace("->", "→")


def _name(namespace: str, name: str) -> str:
    return f"{escape(namespace)}/{escape(name)}"
