"""A Plan as text: what gets better, by policy, what is blocked and by whom, the moves, nodes before and after; and what became of moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from rescheduler.model.counted import plural
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.planning.badness import sum_of
from rescheduler.planning.plan import NodeSummary, Plan, numbers_before
from rescheduler.reports.objective_words import (
    ReportSection,
    and_more,
    bounds_section,
    change_words,
    headline,
    policies_section,
    rooms_section,
    skipped_groups,
)
from rescheduler.reports.table import bar, beyond, percent, table, wrapped

Style = Callable[[str, str], str]
"""(text, role) -> coloured text; roles: heading, good, bad, faint. ``plain`` adds no colour."""

_NODES_SHOWN = 40
_REASONS_SHOWN = 40
_ROLES: Mapping[MigrationPhase, str] = {MigrationPhase.SUCCEEDED: "good", MigrationPhase.FAILED: "bad"}


def plain(text: str, role: str) -> str:
    """No colour."""
    del role
    return text


def plan_text(plan: Plan, style: Style = plain, width: int | None = None) -> str:
    """The whole report, ending in a newline: first what gets better and what is blocked, then the moves.

    ``width``: of the terminal; rows of tables are cut to it. None: nothing is cut.
    """
    parts = [
        _headline(plan, width),
        _section(policies_section(plan), style, width),
        _section(rooms_section(plan), style, width),
        _section(_skipped(plan), style, width),
        _section(bounds_section(plan), style, width),
        _moves(plan, style, width),
        _section(_nodes(plan), style, width),
    ]
    if plan.metadata.warnings:
        parts.insert(
            1, "\n".join(style(_wrapped(f"warning: {w}", width), "bad") for w in plan.metadata.warnings)
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(plan: Plan, width: int | None) -> str:
    before = plan.before
    pending = f" ({before.pending_pods} pending)" if before.pending_pods else ""
    first = (
        f"{plural(len(before.nodes), 'node')}, {plural(before.pods, 'pod')}{pending}; "
        f"aggressiveness {plan.metadata.aggressiveness:g}; state of {plan.metadata.generated_at}"
    )
    named = plan.metadata.configuration
    configuration = f"\nconfiguration: {named}" if isinstance(named, str) else ""
    more = f"\nThe list is cut: {beyond(plan.beyond)}" if plan.beyond else ""
    return _wrapped(f"{first}{configuration}\n{headline(plan)}{more}", width)


def _wrapped(text: str, width: int | None) -> str:
    """Its lines, folded between words to the width of the terminal."""
    if width is None:
        return text
    return "\n".join("\n".join(wrapped(line, width)) for line in text.splitlines())


def _section(
    section: ReportSection, style: Style, width: int | None, spare: Sequence[int] = (), said: str = ""
) -> str:
    """``said``: stands behind the title."""
    if not section.rows:
        return ""
    header = [cell.upper() for cell in section.header]
    lines = table(header, section.rows, right=section.right, width=width, spare=spare)
    more = [f"  {section.more}"] if section.more else []
    return "\n".join([style(f"{section.title.upper()}{said}", "heading"), *lines, *more])


def _moves(plan: Plan, style: Style, width: int | None) -> str:
    before = numbers_before(plan.moves)
    after = any(before)
    rows = [
        (
            str(number),
            *((before[number - 1] or "-",) if after else ()),
            f"{move.pod.namespace}/{move.pod.name}",
            move.source,
            move.target,
            move.policy,
            f"{move.gain:.2f}",
            f"{move.disruption:.2f}",
            change_words(sum_of(effect.change for effect in move.effects)) or "-",
            move.message or move.reason,
        )
        for number, move in enumerate(plan.moves, 1)
    ]
    header = (
        "#",
        *(("AFTER",) if after else ()),
        "POD",
        "FROM",
        "TO",
        "POLICY",
        "GAIN",
        "COST",
        "CHANGES",
        "WHY",
    )
    policy, gain, cost, changes = range(len(header) - 5, len(header) - 1)
    spare = (cost, gain, changes, policy)
    section = ReportSection("Moves", header, rows, right=frozenset({0, gain, cost}))
    return _section(section, style, width, spare, ", each with its target reserved first")


def _skipped(plan: Plan) -> ReportSection:
    rows = [
        (
            g[0].reason.value,
            f"{len(g):,}",
            g[0].blocked_by or "-",
            f"{g[0].pod.namespace}/{g[0].pod.name}: {g[0].message}",
        )
        for g in skipped_groups(plan.skipped)
    ]
    return ReportSection(
        f"WANTED BUT NOT MOVED ({len(plan.skipped):,})",
        ("REASON", "PODS", "BLOCKED BY", "FOR EXAMPLE"),
        rows[:_REASONS_SHOWN],
        f"and {len(rows) - _REASONS_SHOWN:,} more reasons" if len(rows) > _REASONS_SHOWN else "",
        right=frozenset({1}),
    )


def _nodes(plan: Plan) -> ReportSection:
    after = {n.name: n for n in plan.after.nodes}
    changed = [n for n in plan.before.nodes if after.get(n.name) != n]
    shown = changed or list(plan.before.nodes)
    listed = shown[:_NODES_SHOWN]
    header: tuple[str, ...] = ("NODE", "ZONE", "CPU REQUESTED", "MEMORY REQUESTED", "PODS")
    rows = [_node_row(node, after.get(node.name, node)) for node in listed]
    if any(node.cpu_used_milli is not UNSET for node in listed):
        header += ("CPU USED NOW", "MEMORY USED NOW")
        rows = [(*row, *_used(node)) for row, node in zip(rows, listed, strict=True)]
    return ReportSection(
        "NODES THAT CHANGE" if changed else "NODES",
        header,
        rows,
        and_more(len(shown) - _NODES_SHOWN),
    )


def _used(node: NodeSummary) -> tuple[str, str]:
    """Shares of allocatable that are measured."""
    return (
        _share(node.cpu_used_milli, node.cpu_allocatable_milli),
        _share(node.memory_used_bytes, node.memory_allocatable_bytes),
    )


def _share(used: int | UnsetType, of: int) -> str:
    return "-" if isinstance(used, UnsetType) or not of else f"{used / of:.0%}"


def _node_row(before: NodeSummary, after: NodeSummary) -> tuple[str, ...]:
    name = before.name if before.schedulable else f"{before.name} (unschedulable)"
    cpu = _change(
        before.cpu_requested_milli,
        before.cpu_allocatable_milli,
        after.cpu_requested_milli,
        after.cpu_allocatable_milli,
    )
    memory = _change(
        before.memory_requested_bytes,
        before.memory_allocatable_bytes,
        after.memory_requested_bytes,
        after.memory_allocatable_bytes,
    )
    return name, before.zone or "-", cpu, memory, f"{before.pods} -> {after.pods}"


def _change(before: int, before_whole: int, after: int, after_whole: int) -> str:
    return f"{percent(before, before_whole):>4} -> {percent(after, after_whole):>4} {bar(after, after_whole)}"


def outcomes_text(moves: Mapping[ObjectKey, PodMigration | None], style: Style = plain) -> str:
    """One line for each PodMigration that was begun, ending in a newline. None: its object was deleted meanwhile."""
    if not moves:
        return "No move was begun.\n"
    landed = sum(m is not None and m.status.phase is MigrationPhase.SUCCEEDED for m in moves.values())
    rows = [_row(key, move) for key, move in moves.items()]
    head, *lines = table(("pod", "from", "to", "became", "why"), rows)
    phases = (move.status.phase if move is not None else MigrationPhase.FAILED for move in moves.values())
    coloured = [style(line, _ROLES.get(phase, "faint")) for line, phase in zip(lines, phases, strict=True)]
    headline = f"{plural(len(moves), 'move')} begun, {landed} landed on the reserved node"
    return "\n".join([headline, style(head, "heading"), *coloured]) + "\n"


def _row(key: ObjectKey, move: PodMigration | None) -> tuple[str, ...]:
    if move is None:
        return (f"PodMigration {key}", "", "", "Deleted", "its object was deleted before it had ended")
    status = move.status
    return (
        f"{move.namespace}/{move.pod_name}",
        status.source_node,
        status.node_name or move.target_node,
        status.reason or str(status.phase),
        status.message,
    )
