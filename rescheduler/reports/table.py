"""Aligned text tables, and amounts as text. Without colour, which the caller adds."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rescheduler.model.counted import plural, verb
from rescheduler.visible import visible_line

_READABLE = 24
"""A last column, which says why, is cut to so much before other columns are cut."""
_LEAST_CELL = 8
_BAR_WIDTH = 10
_BINARY = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[int] = frozenset(),
    width: int | None = None,
    spare: Sequence[int] = (),
) -> list[str]:
    """Lines of a table, indented by two spaces. Columns in ``right`` are right-aligned; the last one is not padded.

    ``width``: no line is longer, as far as the headers allow; cells that are cut end with an ellipsis. None: nothing is cut.
    ``spare``: columns that are left out, the first one first, before names in the others are cut.
    """
    shown = [[visible_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in shown) for i in range(len(header))]
    if width is not None:
        left = _left(widths, spare, width, len(header[-1]))
        right = frozenset(position for position, column in enumerate(left) if column in right)
        header, widths = [header[column] for column in left], [widths[column] for column in left]
        shown = [[row[column] for column in left] for row in shown]
        _narrow(widths, [len(name) for name in header], width)
        shown = [[cut(cell, widths[i]) for i, cell in enumerate(row)] for row in shown]
    lines = []
    for row in shown:
        cells = [
            cell.rjust(widths[i]) if i in right else (cell if i == len(row) - 1 else cell.ljust(widths[i]))
            for i, cell in enumerate(row)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def flat_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A whole text of a table that begins in the first column, as those of kubectl; ends in a newline."""
    return "".join(f"{line.removeprefix('  ')}\n" for line in table(header, rows))


def _left(widths: Sequence[int], spare: Sequence[int], width: int, least_last: int) -> list[int]:
    """The columns without as many of ``spare`` as it takes to cut none but the last."""
    left = list(range(len(widths)))
    last = min(widths[-1], max(least_last, _READABLE))
    for column in spare:
        if sum(widths[i] for i in left[:-1]) + last + 2 * len(left) <= width:
            break
        left.remove(column)
    return left


def cut(text: str, width: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Take from the last column first, then from whichever is the widest."""
    over = sum(widths) + 2 * len(widths) - width
    last = len(widths) - 1
    taken = min(max(over, 0), max(widths[last] - max(least[last], _READABLE), 0))
    widths[last] -= taken
    over -= taken
    while over > 0:
        wide = max(range(len(widths)), key=lambda i: widths[i] - max(least[i], _LEAST_CELL))
        if widths[wide] <= max(least[wide], _LEAST_CELL):
            return
        widths[wide] -= 1
        over -= 1


def wrapped(text: str, width: int, first: str = "", others: str = "  ", most: int | None = None) -> list[str]:
    """A sentence on lines of ``width`` columns. ``first``, ``others``: their indents. ``most``: so many lines, the last with an ellipsis."""
    return textwrap.wrap(
        visible_line(text),
        width,
        initial_indent=first,
        subsequent_indent=others,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=False,
    )


def percent(part: int, whole: int) -> str:
    """Share in whole percent; ``-`` if ``whole`` is 0."""
    return f"{round(100 * part / whole)}%" if whole > 0 else "-"


def bar(part: int, whole: int) -> str:
    """A bar of ten cells; full cells are ``#``."""
    filled = min(_BAR_WIDTH, round(_BAR_WIDTH * part / whole)) if whole > 0 else 0
    return "[" + "#" * filled + "." * (_BAR_WIDTH - filled) + "]"


def cpu(milli: int) -> str:
    """CPU as text: 250m, 1.5, 4."""
    if milli % 1000 == 0:
        return str(milli // 1000)
    return f"{milli}m" if abs(milli) < 1000 else f"{milli / 1000:.2f}".rstrip("0").rstrip(".")  # noqa: PLR2004


def memory(amount: int) -> str:
    """Bytes as text: 512Mi, 1.5Gi."""
    for factor, suffix in _BINARY:
        if abs(amount) >= factor:
            return f"{amount / factor:.1f}".removesuffix(".0") + suffix
    return str(amount)


def amount(resource: str, value: int) -> str:
    """An amount of a resource as text: CPU is given in milli, memory and storage in bytes."""
    if resource == "cpu":
        return cpu(value)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return memory(value)
    return str(value)


def beyond(pods: int) -> str:
    """The line about badly placed pods after the last planned move."""
    return f"and {plural(pods, 'more badly placed pod')}: --max-moves all plans {verb(pods, 'its move', 'their moves')} too"
