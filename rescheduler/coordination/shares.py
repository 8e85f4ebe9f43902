"""Which wishes of all namespaces find place in a store of bounded size. Pure.

Promise: a namespace that wants little finds place however much others want (max-min fair), because a wish comes after
those with less of their own namespace before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class ShareRequest(NamedTuple):
    """Something to be stored. ``late``: it comes after all wishes that are not."""

    late: bool
    size: int
    name: str


def fitting(
    wishes: Mapping[str, Iterable[ShareRequest]], most: int, most_of: Callable[[str], int] | None = None
) -> set[str]:
    """The names of those that are stored. ``wishes``: by namespace, in its order; ``most_of``: of one namespace."""
    queue: list[tuple[bool, int, str, int]] = []
    for home, queued in wishes.items():
        taken = 0
        for wish in queued:
            taken += wish.size
            if taken <= (most_of(home) if most_of else most):
                queue.append((wish.late, taken, wish.name, wish.size))
    found, filled = set[str](), 0
    for _, _, name, size in sorted(queue):
        filled += size
        if filled > most:
            break
        found.add(name)
    return found
