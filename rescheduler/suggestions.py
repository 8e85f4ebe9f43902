"""What somebody meant who mistyped a name. Names come from the cluster, from the program, or from a document's keys."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from typing import Final

_NAMED: Final = 3
"""More names than this that are equally like it are counted, not listed: to name some of them would be a guess."""
_LIKENESS: Final = 0.6
_SEARCHED: Final = 5_000
"""Of more names than this only those with the same beginning are compared, so that the answer does not take seconds."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean A?`` with the name that is most like it, or several that are equally so; nothing if none is."""
    names = sorted(set(known))
    if len(names) > _SEARCHED:
        names = [other for other in names if other[:3] == name[:3]][:_SEARCHED]
    found = difflib.get_close_matches(name, names, len(names) or 1, _LIKENESS)
    nearest = sorted(
        itertools.takewhile(lambda other: _likeness(name, other) == _likeness(name, found[0]), found)
    )
    if not nearest:
        return ""
    if len(nearest) > _NAMED:
        return f"; did you mean {nearest[0]}, or one of {len(nearest) - 1:,} others that are like it?"
    *others, last = nearest
    return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"


def _likeness(name: str, other: str) -> float:
    """From 0 to 1, as ``get_close_matches`` counts it."""
    return difflib.SequenceMatcher(None, other, name).ratio()
