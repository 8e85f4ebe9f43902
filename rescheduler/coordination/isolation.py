"""Finds the objects of which a computation over all objects crashes, so that these rest and all others are served. Pure.

What looks at many objects at once cannot say of which one it crashed. So it is tried without some of them. Promises: those that
are left out are few where few are to blame; the number of tries grows with the logarithm of the number of groups; a crash
that is no object's fault is raised, not hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Final, TypeVar

Group = TypeVar("Group", bound=Hashable)
Found = TypeVar("Found")

MOST_GROUPS: Final = 8
"""The most that are left out by default: beyond that the crash is taken to be everybody's."""


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

    Raises:
        Exception: what ``compute`` raises with every group left out, or if more than ``most`` are to blame.
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
        if len(blamed) > most:
            raise error
        return result, blamed
    if isinstance(found := tried(everybody), Exception):
        raise found
    bad: dict[Group, Exception] = {}
    while isinstance(found := tried(bad), Exception):
        if len(bad) == most:
            raise found
        guilty, error = _first(lambda out: tried([*bad, *out]), [g for g in everybody if g not in bad], found)
        bad[guilty] = error
    return found, bad


def _fewest(
    tried: Callable[[Collection[Group]], Found | Exception],
    groups: Sequence[Group],
    found: Found,
    error: Exception,
) -> tuple[Found, dict[Group, Exception]]:
    """Of ``groups``, without which it does not crash, those that must be left out. ``found``: the result without all of them."""
    bad = list(groups)
    for group in reversed(groups) if len(groups) > 1 else ():
        fewer = [other for other in bad if other != group]
        if fewer and not isinstance(better := tried(fewer), Exception):
            bad, found = fewer, better
    return found, dict.fromkeys(bad, error)


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
