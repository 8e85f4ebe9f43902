"""Makes PodMigrations of the evictions that wait, off the path of the answers.

Every replica files what it was asked itself: the name comes from the uid of the pod, so two replicas make one object between
them, and an ask reaches the leader as an ordinary PodMigration. A replica writes a bounded number each second, the largest pods of a node first, and has a bounded
number open; limits of requested moves decide when each begins. That somebody still asks is told by a longer ``spec.ttl``,
so a move whose caller has given up ends by itself, whoever leads.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from rescheduler.guard.asks import WaitingEviction
from rescheduler.guard.decision import (
    LAST_ASK_S,
    SILENCE_S,
    another_at_s,
    asked_since_s,
    of_earlier_request,
    waits_for_budget,
)
from rescheduler.guard.settings import GuardSettings, WhenNoRoom
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import ANNOTATION_ASKED_SINCE, GUARD
from rescheduler.model.own_objects import named_after
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import LabelSet
from rescheduler.model.times import format_seconds

MOST_OPEN: Final = 1_000
"""PodMigrations of one replica that have not ended, shared out: each namespace leaves as much to the next one as it may have."""
MOST_AT_ONCE: Final = 25
"""Written in one pass."""
GATHERED_S: Final = 0.4
"""A drain asks about all pods of its node at once: the largest of them are moved first."""
LARGEST_FIRST_S: Final = 10.0
"""So long the smaller ones wait for them."""
_BEFORE_A_PLACE: Final = (
    "",
    MigrationReason.RECORDING,
    MigrationReason.PROVING_GATE,
    MigrationReason.CHECKING,
)
ASKS_AGAIN_S: Final = 20.0
"""Callers come again within seconds; nothing is made for one that does not."""
SHOWN_S: Final = 10.0
"""How long the caches may take to show what was written."""


@dataclass(frozen=True, slots=True)
class Create:
    """A PodMigration for an eviction that waits."""

    ask: WaitingEviction
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Extend:
    """Its caller still asks."""

    ask: WaitingEviction
    move: PodMigration
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Remove:
    """One that has ended, and another is wanted."""

    ask: WaitingEviction
    move: PodMigration
    since_s: float
    """When the request began, which the move that goes says and the next one is to say."""


Write = Create | Extend | Remove


@functools.lru_cache(maxsize=20_000)  # each pass asks for those of all evictions that wait
def guarded_key(pod: ObjectKey, uid: str) -> ObjectKey:
    """The PodMigration of the guard for that very pod."""
    return ObjectKey(pod.namespace, named_after(pod.name, f"{uid}/{GUARD}", digits=10))


def is_guarded(move: object, uid: str) -> bool:
    """True for a move of that pod that only the controller can have made, whatever others call theirs."""
    return isinstance(move, PodMigration) and bool(move.requested_by) and move.pod_uid == uid


def guarded_move(ask: WaitingEviction, ttl_s: float) -> PodMigration:
    """The object. The controller chooses the node and the mode, as for every requested move that leaves them open."""
    key = guarded_key(ask.pod, ask.uid)
    return PodMigration(
        namespace=key.namespace,
        name=key.name,
        pod_name=ask.pod.name,
        pod_uid=ask.uid,
        ttl_s=ttl_s,
        grace_s=ask.grace_s,
        policy=GUARD,
        requested_by=ask.user,
        annotations=LabelSet({ANNOTATION_ASKED_SINCE: format_seconds(ask.first_s)}),
        reason="its eviction was asked for",
    )


def due(
    asks: Iterable[WaitingEviction],
    move_of: Callable[[WaitingEviction], PodMigration | None],
    settings: GuardSettings,
    now_s: float,
) -> Iterator[Write]:
    """What is to be written now; namespaces take turns. ``asks``: oldest first."""
    rows: dict[str, list[tuple[WaitingEviction, PodMigration | None]]] = {}
    open_moves: Counter[str] = Counter()
    found = sorted(((ask, move_of(ask)) for ask in asks), key=lambda pair: -pair[0].size)
    largest = _largest(found, now_s)
    for ask, move in found:
        filed = now_s - ask.filed_s < SHOWN_S
        namespace = rows.setdefault(ask.pod.namespace, [])
        open_moves[ask.pod.namespace] += not move.finished if move is not None else filed
        if not filed:
            namespace.append((ask, move))
    left, share = MOST_AT_ONCE, MOST_OPEN // (1 + len(rows)) or 1
    for ask, move in filter(None, chain.from_iterable(zip_longest(*rows.values()))):
        write = _due(ask, move, settings, now_s)
        if isinstance(write, Create):
            waited_s = now_s - ask.came_s
            smaller = ask.size < largest.get(ask.node, 0.0)
            if waited_s < GATHERED_S or (smaller and waited_s < LARGEST_FIRST_S):
                continue
            if open_moves[ask.pod.namespace] >= share:
                continue
            open_moves[ask.pod.namespace] += 1
        if write is None:
            continue
        yield write
        left -= 1
        if left <= 0:
            return


def _largest(found: Iterable[tuple[WaitingEviction, PodMigration | None]], now_s: float) -> dict[str, float]:
    """By node the size of the largest pod that has no place yet: smaller ones would take the only node that it fits on."""
    largest: dict[str, float] = {}
    for ask, move in found:
        if ask.held:
            continue  # another one goes first, which may be smaller
        if now_s - ask.came_s < LARGEST_FIRST_S and (move is None or _unplaced(move)):
            largest[ask.node] = max(largest.get(ask.node, 0.0), ask.size)
    return largest


def _unplaced(move: PodMigration) -> bool:
    status = move.status
    return status.phase is MigrationPhase.PENDING and status.reason in _BEFORE_A_PLACE


def _due(
    ask: WaitingEviction, move: PodMigration | None, settings: GuardSettings, now_s: float
) -> Write | None:
    since_s = asked_since_s(ask.first_s, move, settings.limit_s)
    ends_s = since_s + settings.limit_s
    until_s = min(ask.last_s + SILENCE_S + LAST_ASK_S, ends_s)
    refuses = settings.when_no_room is WhenNoRoom.REFUSE
    asks = now_s - ask.last_s < ASKS_AGAIN_S and not ask.held
    if move is None:
        ttl_s = settings.limit_s if refuses and until_s <= now_s else until_s - now_s
        return Create(ask, float(math.ceil(ttl_s))) if asks and ttl_s > 0 else None
    if move.finished:
        again_s = another_at_s(move, settings.limit_s)
        failed = asks and again_s <= now_s and (again_s < ends_s or refuses)
        again = failed or of_earlier_request(move, ask.first_s, settings.limit_s)
        return Remove(ask, move, since_s) if again else None
    if move.status.eviction_requested_at_s or move.status.evicted_at_s or move.deleting:
        return None
    if waits_for_budget(move):
        until_s = ask.last_s + SILENCE_S + LAST_ASK_S
    wanted_s = float(math.ceil(until_s - move.created_at_s))
    known_s = move.ttl_s or 0.0
    nearly_over = until_s == ends_s and wanted_s > known_s
    return Extend(ask, move, wanted_s) if wanted_s - known_s >= LAST_ASK_S or nearly_over else None
