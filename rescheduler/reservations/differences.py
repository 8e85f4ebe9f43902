"""Differences between an object of ours as it was sent and as it is stored, in words for people (pure).

What is compared, and which difference matters, is decided by who calls: ``placeholder_check``, ``koordinator``, and
``migrations.start_first_check``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from rescheduler.model import names
from rescheduler.model.records import FieldWriter, Pod, Toleration
from rescheduler.model.resources import Resources, format_amount

_OWN_MANAGER: Final = names.CREATED_BY
METADATA: Final = "f:metadata"
SPEC: Final = "f:spec"


class Difference(NamedTuple):
    """One part of an object that is not as asked."""

    field: str
    asked: str
    stored: str
    path: tuple[str, ...]
    """Of the field in ``metadata.managedFields``."""

    def words(self, writers: Iterable[FieldWriter]) -> str:
        """For people, with who has written it, as far as that is recorded."""
        found = ", ".join(sorted(_writers_of(self.path, writers)))
        by = f"written by {found}" if found else "changed while it was created, by admission"
        return f"{self.field} is {self.stored} instead of {self.asked} ({by})"


def not_as_asked(what: str, found: Iterable[Difference], writers: Iterable[FieldWriter], remedy: str) -> str:
    """All differences on one line, for people; "": there are none."""
    known = tuple(writers)
    words = "; ".join(one.words(known) for one in found)
    return f"{what} is not as asked: {words}; {remedy}" if words else ""


def of_amount(
    name: str, asked: int, requested: int, held: int, path: tuple[str, ...], *, exact: bool = False
) -> Iterator[Difference]:
    """Whether a resource is requested, and held on the node, as much as asked. ``exact``: no more is requested either."""
    if requested < asked or (exact and requested > asked):
        field, stored = f"request for {name}", requested
    elif held < asked:
        field, stored = f"{name} that is held", held
    else:
        return
    yield Difference(field, format_amount(name, asked), format_amount(name, stored), path)


def held_by(pod: Pod) -> Resources:
    """What it occupies on its node, or will: smaller than its request while a resize waits."""
    return pod.held if pod.node else pod.spec.requests


def taint_of(toleration: Toleration) -> str:
    """The taints that it tolerates, as key and effect."""
    return f"{toleration.key or 'any taint'}:{toleration.effect or 'any effect'}"


def _writers_of(path: tuple[str, ...], writers: Iterable[FieldWriter]) -> Iterator[str]:
    for writer in writers:
        if writer.manager and writer.manager != _OWN_MANAGER and _owns(path, writer.fields):
            yield writer.manager


def _owns(path: tuple[str, ...], fields: bytes) -> bool:
    try:
        at = msgspec.json.decode(fields) if fields else None
    except msgspec.DecodeError:
        return False
    for part in path:
        if not isinstance(at, dict) or part not in at:
            return False
        at = at[part]
    return True
