"""Whose turn it is: which of the objects that only wait are looked at in this round. Fair by namespace, bounded. Pure.

A look asks the scheduling rules about the whole cluster, so it costs milliseconds, and anybody may create thousands of objects
that wait. Promises: a round looks at no more than ``AT_ONCE`` of them; namespaces take turns, so none waits for the objects
of another; within a namespace those go first that were never looked at, oldest first, then those whose last look is
the longest ago; a namespace with few of them is looked at in every round (``few_rest``: but for those of which no look
leads to anything yet). One of many rests after a look that led to
nothing, each time for twice as long, unless its own spec changes.

It only decides when something is looked at. What it remembers may be lost: then everything is looked at again.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.model.records import ObjectKey
from rescheduler.model.times import earliest

AT_ONCE: Final = 16
"""So many looks take about 0.1 s in a cluster of 5,000 nodes, and a move of one namespace alone waits for no second round."""
FIRST_REST_S: Final = 1.0
LONGEST_REST_S: Final = 64.0


class Waiting(NamedTuple):
    """An object that waits for a look."""

    key: ObjectKey
    namespace: str
    """Whose objects it shares its turns with."""
    created_at_s: float
    generation: int


class Turn(NamedTuple):
    """The outcome for one round."""

    keys: frozenset[ObjectKey]
    """To be looked at now."""
    wake_at_s: float | None
    """When the next one is due; None: nothing else waits."""


class _Look(NamedTuple):
    round: int
    generation: int
    rest_s: float
    until_s: float
    sure: bool = False
    """It is known that no look is needed before."""


@dataclass(slots=True)
class Turns:
    """The queue of one kind of objects. ``next`` once a round, then ``looked`` or ``again`` for those that were given."""

    at_once: int = AT_ONCE
    longest_rest_s: float = LONGEST_REST_S
    few_rest: bool = False
    """Also one of few rests if it is known that no look is needed before."""
    _looks: dict[ObjectKey, _Look] = field(default_factory=dict)
    _served: dict[str, int] = field(default_factory=dict)
    """Namespace -> the round of its last look."""
    _round: int = 0

    def next(self, waiting: Iterable[Waiting], now_s: float) -> Turn:
        """Who is looked at now. ``waiting``: all that wait."""
        self._round += 1
        queues: dict[str, list[Waiting]] = {}
        for one in waiting:
            queues.setdefault(one.namespace, []).append(one)
        self._served = {name: at for name, at in self._served.items() if name in queues}
        share = max(1, self.at_once // max(1, len(queues)))
        due: dict[str, list[Waiting]] = {}
        resting_s: float | None = None
        for namespace, queue in queues.items():
            few = len(queue) <= share
            until_s = [self._rests_until_s(one, now_s, few=few) for one in queue]
            ready = [one for one, at_s in zip(queue, until_s, strict=True) if at_s is None]
            resting_s = earliest(resting_s, *until_s)
            if ready:
                due[namespace] = heapq.nsmallest(self.at_once + 1, ready, key=self._rank)
        chosen = self._round_robin(due)
        for one in chosen:
            known = self._looks.get(one.key)
            rest_s = known.rest_s if known is not None else FIRST_REST_S
            self._looks[one.key] = _Look(self._round, one.generation, rest_s, now_s + rest_s)
        left = sum(map(len, due.values())) > len(chosen)
        return Turn(frozenset(one.key for one in chosen), now_s if left else resting_s)

    def looked(self, key: ObjectKey, now_s: float, until_s: float | None, *, sure: bool) -> None:
        """A look led to nothing. ``until_s``: when another one is needed at the latest; with ``sure`` none is before."""
        look = self._looks.get(key)
        if look is None:
            return
        if sure and until_s is not None:
            self._looks[key] = look._replace(until_s=until_s, sure=True)
            return
        rest_s = min(self.longest_rest_s, 2.0 * look.rest_s)
        ends_s = now_s + look.rest_s
        self._looks[key] = look._replace(
            rest_s=rest_s, until_s=ends_s if until_s is None else min(ends_s, until_s)
        )

    def again(self, key: ObjectKey) -> None:
        """Something was done for it, and the next step follows at once: it goes first in its namespace."""
        self._looks.pop(key, None)

    def restart(self) -> None:
        """Look at everything again: what all of them depend on is another one."""
        self._looks.clear()

    def forget(self, live: Container[ObjectKey]) -> None:
        """Drop what belongs to objects that are not there any more."""
        for key in [key for key in self._looks if key not in live]:
            del self._looks[key]

    def _rests_until_s(self, one: Waiting, now_s: float, *, few: bool) -> float | None:
        """None: it is due. ``few``: its namespace has so few that all of them are looked at."""
        look = self._looks.get(one.key)
        if look is None or look.generation != one.generation or now_s >= look.until_s:
            return None
        return None if few and not (self.few_rest and look.sure) else look.until_s

    def _rank(self, one: Waiting) -> tuple[int, float, ObjectKey]:
        look = self._looks.get(one.key)
        fresh = look is None or look.generation != one.generation
        return 0 if fresh or look is None else look.round, one.created_at_s, one.key

    def _round_robin(self, due: Mapping[str, Sequence[Waiting]]) -> list[Waiting]:
        order = sorted(due, key=lambda name: (self._served.get(name, 0), name))
        chosen: list[Waiting] = []
        for place in range(self.at_once):
            for namespace in order:
                if len(chosen) == self.at_once:
                    return chosen
                if place < len(due[namespace]):
                    chosen.append(due[namespace][place])
                    self._served[namespace] = self._round
        return chosen
