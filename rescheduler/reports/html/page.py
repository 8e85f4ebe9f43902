"""The HTML page of a Plan: the verdict and what blocks first, then what gets better, moves and nodes.

What people look through (moves, what stays, nodes) is data in the page, which its script shows with filter, order and groups; the verdict, what blocks
and what gets better by policy are there without it. The page may run its own script and load nothing: its policy says so by hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

from rescheduler.model.counted import plural, verb
from rescheduler.planning.plan import Move, NodeSummary, Plan, Skipped, numbers_before
from rescheduler.reports.html.files import PARTS, REPORT_SCRIPT, STYLE, asset
from rescheduler.reports.objective_words import (
    TOLD,
    ReportSection,
    and_more,
    badness_of,
    bounds_section,
    effect_words,
    headline,
    in_units,
    policies_section,
    rooms_section,
    skipped_groups,
)
from rescheduler.reports.table import beyond

_BLOCKERS_SHOWN: Final = 12
_SHOWN_PER_REASON: Final = 200
_MOVES_SHOWN: Final = 2000
_SECTIONS: Final = """<section id="nodes-section"><h2>Nodes</h2>
<div class="tools"><input id="node-filter" type="search" placeholder="name of a node" aria-label="name of a node">
<span class="faint">One cell for each node, by zone; the fuller its fullest resource, the warmer. Outlined: changed by the plan. Click a node for its figures.</span></div>
<div id="legend"></div><div class="columns"><figure><figcaption>before</figcaption><div id="map-before"></div></figure>
<figure><figcaption>after</figcaption><div id="map-after"></div></figure></div><div id="detail" class="detail" hidden></div></section>
<section id="changed-section"><h2>Nodes that change</h2><div id="changed"></div></section>"""


_COUNTED: Final = (
    "Before → after, as the planner counts: violations are rules that are broken, preferences are counted in pods, "
    "what is above targets and in use in nodes."
)
_PROVEN: Final = "What this plan reaches, and what no plan can pass, by an exact model; a gap may be the plan's or the model's."


class _MoveRow(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One move, as the script of the page shows it."""

    number: int
    after: str
    pod: str
    workload: str
    source: str
    target: str
    policy: str
    gain: float
    cost: float
    changes: str
    why: str


class _StaysRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that stays."""

    pod: str
    node: str
    policy: str
    reason: str
    by: str
    why: str


class _ReportData(msgspec.Struct, frozen=True, kw_only=True):
    """What the script of the page shows. ``after``: the nodes that change, as they will be."""

    before: Sequence[NodeSummary]
    after: Sequence[NodeSummary]
    moves: Sequence[_MoveRow]
    stays: Sequence[_StaysRow]


def plan_html(plan: Plan) -> str:
    """The whole page."""
    after = {node.name: node for node in plan.after.nodes}
    changed = frozenset(n.name for n in plan.before.nodes if n.name in after and after[n.name] != n)
    body = "\n".join(
        part
        for part in (
            _head(plan),
            _warnings(plan),
            _cards(plan),
            _blockers(plan.skipped),
            _section(policies_section(plan), _COUNTED),
            _section(bounds_section(plan), _PROVEN),
            _section(rooms_section(plan)),
            _moves(plan),
            _stays(plan.skipped),
            _SECTIONS,
        )
        if part
    )
    style, script = asset(STYLE), asset(PARTS) + asset(REPORT_SCRIPT)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Rescheduling plan</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f'<script type="application/json" id="plan">{_data(plan, changed)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(plan: Plan, changed: frozenset[str]) -> str:
    """As JSON that cannot end the element that it stands in."""
    before = numbers_before(plan.moves)
    data = _ReportData(
        before=plan.before.nodes,
        after=[node for node in plan.after.nodes if node.name in changed],
        moves=[
            _move_row(number, before[number - 1], move)
            for number, move in enumerate(plan.moves[:_MOVES_SHOWN], 1)
        ],
        stays=[
            _stays_row(one) for group in skipped_groups(plan.skipped) for one in group[:_SHOWN_PER_REASON]
        ],
    )
    return msgspec.json.encode(data).decode().replace("<", "\\u003c").replace(">", "\\u003e")


def _move_row(number: int, before: str, move: Move) -> _MoveRow:
    owner = move.controller
    return _MoveRow(
        number=number,
        after=before,
        pod=f"{move.pod.namespace}/{move.pod.name}",
        workload=f"{move.pod.namespace}/{owner.name} ({owner.kind})" if owner is not None else "",
        source=move.source,
        target=move.target,
        policy=move.policy,
        gain=move.gain,
        cost=move.disruption,
        changes=_arrows(effect_words(move.effects)),
        why=move.message or move.reason,
    )


def _stays_row(one: Skipped) -> _StaysRow:
    return _StaysRow(
        pod=f"{one.pod.namespace}/{one.pod.name}",
        node=one.node,
        policy=one.policy,
        reason=one.reason.value,
        by=one.blocked_by,
        why=one.message,
    )


def _blockers(skipped: Sequence[Skipped]) -> str:
    """What keeps how many pods where they are."""
    groups = skipped_groups(skipped)
    rows = [(g[0].reason.value, f"{len(g):,}", g[0].blocked_by or "-") for g in groups[:_BLOCKERS_SHOWN]]
    more = and_more(len(groups) - _BLOCKERS_SHOWN)
    return _section(ReportSection("What blocks", ("reason", "pods", "by"), rows, more))


def _moves(plan: Plan) -> str:
    if not plan.moves:
        return "<h2>Moves</h2>\n<p>Nothing to move.</p>"
    rest = _faint(and_more(len(plan.moves) - _MOVES_SHOWN))
    left = f"<p class='warning'>{beyond(plan.beyond)}</p>" if plan.beyond else ""
    return (
        f"<h2>{plural(len(plan.moves), 'move').capitalize()}, in this order</h2>\n"
        "<noscript><p class='warning'>Moves and nodes are shown by the script of this page, which is off here.</p></noscript>"
        f"<div id='moves'></div>{rest}{left}"
    )


def _stays(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return ""
    more = sum(max(0, len(members) - _SHOWN_PER_REASON) for members in skipped_groups(skipped))
    rest = f"<p class='faint'>and {more:,} more, for the same reasons</p>" if more else ""
    return f"<h2>Wanted, but not moved ({len(skipped):,})</h2>\n<div id='stays'></div>{rest}"


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
        (f"{len(plan.moves):,}", verb(len(plan.moves), "move", "moves")),
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


def _section(section: ReportSection, note: str = "") -> str:
    if not section.rows:
        return ""
    said = f"<p class='faint'>{note}</p>\n" if note else ""
    title, shown = escape(section.title), _table(section.title, section.header, section.rows)
    return f"<h2>{title}</h2>\n{said}{shown}{_faint(section.more)}"


def _faint(text: str) -> str:
    return f"<p class='faint'>{text}</p>" if text else ""


def _table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles, name = [escape(cell) for cell in header], escape(caption)
    head = "".join(f"<th scope='col'>{title}</th>" for title in titles)
    body = "".join(f"<tr>{_cells(titles, row)}</tr>" for row in rows)
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{name}'><table><caption class='unseen'>{name}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(titles: Sequence[str], row: Sequence[str]) -> str:
    """``data-title``: shown on phones, where a row is a block."""
    return "".join(
        f"<td data-title='{title}'>{escape(_arrows(cell))}</td>"
        for title, cell in zip(titles, row, strict=True)
    )


def _arrows(cell: str) -> str:
    return cell.replace("->", "→")
