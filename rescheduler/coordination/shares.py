"""Which entries of all namespaces are kept in a store of bounded size: a max-min fair queue. Pure.

Promise: the entries of a namespace with few of them are kept however many others have, because an entry comes after
those with less of their own namespace before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class ShareRequest(NamedTuple):
    """An entry that is to be stored. ``late``: it comes after all that are not."""

    late: bool
    size: int
    name: str


def fitting(
    requested: Mapping[str, Iterable[ShareRequest]], most: int, most_of: Callable[[str], int] | None = None
) -> set[str]:
    """The names of those that are stored. ``requested``: by namespace, in its order; ``most_of``: of one namespace."""
    queue: list[tuple[bool, int, str, int]] = []
    for home, queued in requested.items():
        taken = 0
        for entry in queued:
            taken += entry.size
            if taken <= (most_of(home) if most_of else most):
                queue.append((entry.late, taken, entry.name, entry.size))
    found, filled = set[str](), 0
    for _, _, name, size in sorted(queue):
        filled += size
        if filled > most:
            break
        found.add(name)
    return found
