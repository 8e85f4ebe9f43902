"""What somebody meant who mistyped a name. Names come from the cluster or from the program."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_MOST: Final = 3
_LIKENESS: Final = 0.6
_SEARCHED: Final = 5_000
"""Of more names than this only those with the same beginning are compared, so that the answer does not take seconds."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean A or B?``, or nothing if no name is like it."""
    names = sorted(set(known))
    if len(names) > _SEARCHED:
        names = [other for other in names if other[:3] == name[:3]][:_SEARCHED]
    found = difflib.get_close_matches(name, names, _MOST, _LIKENESS)
    return f"; did you mean {' or '.join(found)}?" if found else ""
