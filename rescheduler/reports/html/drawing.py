"""Hand-written SVG: a map of all nodes coloured by load, and bars of the nodes that change."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rescheduler.planning.plan import NodeSummary
from rescheduler.reports.table import cpu, memory, percent

_SIZES = ((120, 22, 3), (700, 13, 2))
_SMALLEST = (7, 1)
_MAP_WIDTH = 450
_HOT = 1.0
_LEGEND_STEPS = 20


def node_map(nodes: Sequence[NodeSummary], changed: frozenset[str]) -> str:
    """One cell for each node, grouped by zone, coloured by its fullest resource; changed nodes are outlined."""
    cell, gap = next(((c, g) for most, c, g in _SIZES if len(nodes) <= most), _SMALLEST)
    pitch = cell + gap
    columns = _MAP_WIDTH // pitch
    line = round(cell / 15, 1)
    parts: list[str] = []
    y = 0
    for zone, members in _by_zone(nodes):
        parts.append(
            f'<text class="small" x="0" y="{y + 10}">{escape(zone or "no zone")} ({len(members)})</text>'
        )
        y += 15
        for index, node in enumerate(members):
            x = (index % columns) * pitch
            top = y + (index // columns) * pitch
            mark = ' class="mark"' if node.name in changed else ""
            parts.append(
                f'<g><title>{escape(describe(node))}</title><rect x="{x}" y="{top}" width="{cell}" height="{cell}" '
                f'rx="2" fill="{colour(load(node))}"/>'
                + (
                    f'<rect{mark} x="{x}" y="{top}" width="{cell}" height="{cell}" rx="2" stroke-width="{line}"/>'
                    if mark
                    else ""
                )
                + "</g>"
            )
        y += -(-len(members) // columns) * pitch + 8
    width = columns * pitch
    return f'<svg viewBox="-1 0 {width + 2} {max(y, 1)}" role="img">{"".join(parts)}</svg>'


def legend() -> str:
    """The scale of the colours, from empty to full."""
    step = 120 / _LEGEND_STEPS
    cells = "".join(
        f'<rect x="{34 + index * step:g}" y="0" width="{step:g}" height="10" '
        f'fill="{colour(index / (_LEGEND_STEPS - 1))}"/>'
        for index in range(_LEGEND_STEPS)
    )
    return (
        f'<svg class="legend" viewBox="0 0 190 12" role="img"><text class="small" x="0" y="9">empty</text>{cells}'
        '<text class="small" x="160" y="9">full</text></svg>'
    )


def change_bars(pairs: Sequence[tuple[NodeSummary, NodeSummary]]) -> str:
    """For each (before, after): two bars, cpu and memory; the outline is before, the fill is after."""
    row, label, bar, gap = 20, 190, 250, 86
    parts = [
        f'<text class="small" x="{label}" y="10">cpu requested</text>',
        f'<text class="small" x="{label + bar + gap}" y="10">memory requested</text>',
    ]
    for index, (before, after) in enumerate(pairs):
        y = 18 + index * row
        parts.append(f'<text x="0" y="{y + 11}">{escape(_cut(before.name))}</text>')
        amounts = (
            (before.cpu_requested_milli, after.cpu_requested_milli, after.cpu_allocatable_milli),
            (before.memory_requested_bytes, after.memory_requested_bytes, after.memory_allocatable_bytes),
        )
        for column, (old, new, whole) in enumerate(amounts):
            parts.append(_bar(label + column * (bar + gap), y, bar, (old, new, whole)))
    height = 22 + len(pairs) * row
    return f'<svg viewBox="0 0 {label + 2 * bar + gap + 82} {height}" role="img">{"".join(parts)}</svg>'


def _bar(x: int, y: int, width: int, amounts: tuple[int, int, int]) -> str:
    old, new, whole = amounts
    before = min(1.0, old / whole) if whole > 0 else 0.0
    after = min(1.0, new / whole) if whole > 0 else 0.0
    return (
        f'<rect class="track" x="{x}" y="{y + 2}" width="{width}" height="12" rx="2"/>'
        f'<rect x="{x}" y="{y + 2}" width="{after * width:.1f}" height="12" rx="2" fill="{colour(after)}"/>'
        f'<rect class="ghost" x="{x}" y="{y + 2}" width="{before * width:.1f}" height="12" rx="2"/>'
        f'<text class="small" x="{x + width + 5}" y="{y + 12}">{percent(old, whole)} → {percent(new, whole)}</text>'
    )


def load(node: NodeSummary) -> float:
    """Share of the fullest of cpu and memory, 0 where the node has none."""
    shares = (
        (node.cpu_requested_milli, node.cpu_allocatable_milli),
        (node.memory_requested_bytes, node.memory_allocatable_bytes),
    )
    return max((part / whole for part, whole in shares if whole > 0), default=0.0)


def colour(share: float) -> str:
    """From cool (empty) through green to red (full). Hues are far apart in lightness too, for colour-blind readers."""
    share = max(0.0, min(_HOT, share))
    hue = 205 - 195 * share**1.6
    light = 82 - 34 * share
    return f"hsl({hue:.0f} 62% {light:.0f}%)"


def describe(node: NodeSummary) -> str:
    """One sentence for the tool tip."""
    state = "" if node.schedulable else ", unschedulable"
    return (
        f"{node.name}{state}: cpu {cpu(node.cpu_requested_milli)} of {cpu(node.cpu_allocatable_milli)}, "
        f"memory {memory(node.memory_requested_bytes)} of {memory(node.memory_allocatable_bytes)}, {node.pods} pods"
    )


def _by_zone(nodes: Sequence[NodeSummary]) -> list[tuple[str, list[NodeSummary]]]:
    zones: dict[str, list[NodeSummary]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node)
    return sorted(zones.items())


def _cut(name: str, limit: int = 28) -> str:
    return name if len(name) <= limit else name[: limit // 2] + "…" + name[-(limit // 2 - 1) :]
