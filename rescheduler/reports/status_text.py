"""The status of a cluster as text on one screen."""

from __future__ import annotations

from typing import Final

from rescheduler.model.counted import plural, verb
from rescheduler.model.gated_pods import RELEASE
from rescheduler.reports.cluster_status import work_words
from rescheduler.reports.health import health
from rescheduler.reports.status_document import ClusterStatus
from rescheduler.reports.table import cut, table, wrapped
from rescheduler.visible import visible_line

_ROWS: Final = 8
"""Of each table, so that all fits one screen."""
_GATED_ROWS: Final = 4
_LEAST: Final = 40
_LINES: Final = 4
_INDENT: Final = 15 * " "


def status_text(report: ClusterStatus, width: int | None) -> str:
    """One screen. ``width``: columns of the terminal; longer lines end with an ellipsis. None: nothing is cut."""
    lines = [
        *(row for line in health(report) for row in _wrapped(f"{line.part:<15}{line.says}", width)),
        "",
        *_gated(report, width),
        *_moves(report),
        *_policies(report),
        *_blocked(report),
        *(line for text in report.warnings for line in _wrapped(f"warning: {text}", width, "  ")),
    ]
    shown = map(visible_line, lines)
    return "".join(f"{line if width is None else cut(line, max(width, _LEAST))}\n" for line in shown)


def _gated(report: ClusterStatus, width: int | None) -> list[str]:
    if report.gated is None:
        return ["whether pods wait at the gate is not known"]
    if not report.gated:
        return []
    count = report.gated_in_all
    rows = [(f"{one.namespace}/{one.pod}", one.since, one.message) for one in report.gated[:_GATED_ROWS]]
    more = f", the oldest {_GATED_ROWS}" if count > _GATED_ROWS else ""
    remedy = [] if report.controller.runs else [f"  nobody lets them go: start the controller, or: {RELEASE}"]
    title = f"{plural(count, 'pod')} {verb(count, 'waits', 'wait')} at the gate{more}"
    return [title, *table(("pod", "since", "says"), rows, width=width), *remedy, ""]


def _moves(report: ClusterStatus) -> list[str]:
    if report.moves is None:
        return ["moves under way are not known"]
    if not report.moves:
        return ["no moves under way"]
    rows = [
        (f"{m.namespace}/{m.pod}", m.source or "-", m.target or "-", m.phase, m.message or m.reason)
        for m in report.moves[:_ROWS]
    ]
    out = f", {plural(report.evicted_now, 'pod')} evicted and not bound yet" if report.evicted_now else ""
    title = f"{work_words(len(report.moves), report.waiting)}{_cut(len(report.moves))}{out}"
    return [title, *table(("pod", "from", "to", "step", "says"), rows), ""]


def _policies(report: ClusterStatus) -> list[str]:
    if not report.planned_at:
        return ["what is badly placed is not known: the cluster was not read"]
    if not report.policies:
        return ["no policy is configured: nothing is badly placed"]
    found = [policy for policy in report.policies if policy.badly_placed]
    rows = [(policy.name, f"{policy.badly_placed:,}") for policy in found[:_ROWS]]
    total = sum(policy.badly_placed for policy in report.policies)
    at = f" (read at {report.planned_at})" if report.planned_at != report.at else ""
    would = f"the next decision would begin {plural(report.would_move, 'move')}"
    title = f"{plural(total, 'badly placed pod')}; {would}{at}"
    return [title, *(table(("policy", "pods"), rows, right=frozenset({1})) if rows else []), ""]


def _blocked(report: ClusterStatus) -> list[str]:
    if not report.blocked:
        return []
    rows = [(one.reason, f"{one.pods:,}", one.blocked_by or "-") for one in report.blocked[:_ROWS]]
    title = f"{plural(sum(one.pods for one in report.blocked), 'pod')} blocked{_cut(len(report.blocked))}"
    return [title, *table(("why", "pods", "by"), rows, right=frozenset({1}))]


def _cut(count: int) -> str:
    return f", the first {_ROWS}" if count > _ROWS else ""


def _wrapped(text: str, width: int | None, indent: str = _INDENT) -> list[str]:
    """A sentence on a few lines: what is wrong often stands at its end."""
    if width is None:
        return [text]
    return wrapped(text, max(width, _LEAST), others=indent, most=_LINES)
