"""Aligned text tables, and words for amounts. Plain text: colour is added by the caller where it is wanted."""

from __future__ import annotations

from collections.abc import Sequence

_BINARY = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> list[str]:
    """Lines of a table indented by two blanks; columns in ``right`` are flushed right, the last is not padded."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.rjust(widths[i]) if i in right else (cell if i == len(row) - 1 else cell.ljust(widths[i]))
            for i, cell in enumerate(row)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def percent(part: int, whole: int) -> str:
    """Share in whole percent; "-" where there is no whole."""
    return f"{round(100 * part / whole)}%" if whole > 0 else "-"


def cpu(milli: int) -> str:
    """CPU for people: 250m, 1.5, 4."""
    if milli % 1000 == 0:
        return str(milli // 1000)
    return f"{milli}m" if abs(milli) < 1000 else f"{milli / 1000:.2f}".rstrip("0").rstrip(".")  # noqa: PLR2004


def memory(amount: int) -> str:
    """Bytes for people: 512Mi, 1.5Gi."""
    for factor, suffix in _BINARY:
        if abs(amount) >= factor:
            return f"{amount / factor:.1f}".removesuffix(".0") + suffix
    return str(amount)


def plural(count: int, word: str) -> str:
    """'1 pod', '2 pods'."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def beyond(pods: int) -> str:
    """That a plan ended before so many pods were looked at."""
    return f"and {pods:,} more badly placed pods: --max-moves all plans their moves too"
