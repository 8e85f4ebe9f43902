"""Finds the objects of which a computation over all objects crashes, so that these rest and all others are served. Pure.

What looks at many objects at once cannot say of which one it crashed. So it is tried without some of them. Promises: those that
are left out are few where few are to blame; the number of tries grows with the logarithm of the number of groups, however
many are to blame; a crash that is no object's fault is raised, not hidden. Where many are to blame, neighbours of theirs
are left out with them: these come back by and by, as what is left out is tried again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final, TypeVar

Group = TypeVar("Group", bound=Hashable)
Found = TypeVar("Found")

MOST_GROUPS: Final = 8
"""The most that are found one by one by default; of more, parts of all groups are left out."""
_PARTS: Final = 16
_PROBES: Final = 4 * MOST_GROUPS
"""Tries to find out who of those that are left out is not to blame."""


def isolated(
    compute: Callable[[Collection[Group]], Found],
    groups: Callable[[], Sequence[Group]],
    known: Callable[[Exception], Collection[Group]] = lambda _: (),
    fatal: tuple[type[Exception], ...] = (),
    most: int = MOST_GROUPS,
) -> tuple[Found, dict[Group, Exception]]:
    """The result without the groups of which it crashes, and these, each with what it raised.

    ``compute`` is given the groups that are left out. ``groups``: asked for after a crash only. ``known``: those that may be to blame for a
    crash, for example because they were the last time; they are tried first. What ``fatal`` names is raised at once.
    ``most`` below ``MOST_GROUPS``: the caller has a better way if more are to blame.

    Raises:
        Exception: what ``compute`` raises with every group left out, if groups everywhere are to blame, or more than a ``most`` that
            is below ``MOST_GROUPS``.
    """

    def tried(out: Collection[Group]) -> Found | Exception:
        try:
            return compute(frozenset(out))
        except fatal:
            raise
        except Exception as error:  # noqa: BLE001 - who is to blame is found here, and told by the caller
            return error

    found = tried(())
    if not isinstance(found, Exception):
        return found, {}
    error, everybody = found, groups()
    again = [group for group in dict.fromkeys(known(error)) if group in frozenset(everybody)]
    if again and not isinstance(found := tried(again), Exception):
        result, blamed = _fewest(tried, again, found, error)
        if len(blamed) > most and most < MOST_GROUPS:
            raise error
        return result, blamed
    if isinstance(found := tried(everybody), Exception):
        raise found
    return _one_by_one(tried, everybody, error, most)


def _one_by_one(
    tried: Callable[[Collection[Group]], Found | Exception],
    everybody: Sequence[Group],
    error: Exception,
    most: int,
) -> tuple[Found, dict[Group, Exception]]:
    """The result without those that are to blame, each found by itself. ``error``: what all of them raise. Raises Exception."""
    bad: dict[Group, Exception] = {}
    found: Found | Exception = error
    while isinstance(found, Exception):
        if len(bad) == most:
            if most < MOST_GROUPS:
                raise found
            return _in_parts(tried, everybody, bad, found)
        guilty, why = _first(lambda out: tried([*bad, *out]), [g for g in everybody if g not in bad], found)
        bad[guilty] = why
        found = tried(bad)
    return found, bad


def _fewest(
    tried: Callable[[Collection[Group]], Found | Exception],
    groups: Sequence[Group],
    found: Found,
    error: Exception,
) -> tuple[Found, dict[Group, Exception]]:
    """Of ``groups``, without which it does not crash, those that must be left out. ``found``: the result without all of them.

    Of more than ``_PROBES`` allow, some may be left out that need not be.
    """
    few = len(groups) <= MOST_GROUPS
    bad, parts = list(groups), deque([[one] for one in reversed(groups)] if few else _halves(groups))
    for _ in range(_PROBES):
        if not parts:
            break
        part = parts.popleft()
        fewer = [group for group in bad if group not in frozenset(part)]
        if fewer and not isinstance(better := tried(fewer), Exception):
            bad, found = fewer, better
        else:
            parts.extend(_halves(part))
    return found, dict.fromkeys(bad, error)


def _halves(groups: Sequence[Group]) -> list[Sequence[Group]]:
    """The later half first; nothing of a single group."""
    middle = len(groups) // 2
    return [groups[middle:], groups[:middle]] if middle else []


def _in_parts(
    tried: Callable[[Collection[Group]], Found | Exception],
    everybody: Sequence[Group],
    bad: Mapping[Group, Exception],
    error: Exception,
) -> tuple[Found, dict[Group, Exception]]:
    """The result without ``bad`` and without each part of the others that it does not bear by itself. Raises ``error``."""
    rest = [group for group in everybody if group not in bad]
    size = -(-len(rest) // _PARTS)
    blamed = dict(bad)
    for start in range(0, len(rest), size):
        part = frozenset(rest[start : start + size])
        if isinstance(alone := tried([group for group in everybody if group not in part]), Exception):
            blamed |= dict.fromkeys(part, alone)
    if len(blamed) == len(everybody):
        raise error
    if isinstance(found := tried(blamed), Exception):
        raise found
    return found, blamed


def _first(
    tried: Callable[[Sequence[Group]], object], groups: Sequence[Group], error: Exception
) -> tuple[Group, Exception]:
    """The first group with which those before it crash, and what they raise. ``error``: what all of them raise."""
    passes, fails = 0, len(groups)  # how many of the first groups it bears, and does not bear
    while fails - passes > 1:
        middle = (passes + fails) // 2
        found = tried(groups[middle:])
        if isinstance(found, Exception):
            fails, error = middle, found
        else:
            passes = middle
    return groups[fails - 1], error
