"""Which gate keys are stored: all live in one ConfigMap, so each namespace has a bounded share of it. Pure.

Promises: the keys of all stay within ``MOST_KEY_BYTES``, and those of one namespace within ``MOST_HOME_BYTES``, so a write costs
no more than that, whoever changes his keys how often; a namespace with few keys finds room however many others want
(max-min fair); within a namespace moves go first, because they wait for the proof of their keys, then Reservations with
few keys before those with many. Who is left out is told (``ungated``): the room is held, but new pods are not.

A Reservation belongs to the namespace of its owners; one whose owners are confined to none can be made only by authors who
may change pods everywhere, and has the whole store.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from rescheduler.model.room_of_move import made_for
from rescheduler.model.room_pod import namespaces_of
from rescheduler.reservations.observed import ObservedReservation

MOST_KEY_BYTES: Final = 512 * 1024
"""Half of what a ConfigMap may contain: beyond that the API server would refuse the keys of all, also those of moves."""
MOST_HOME_BYTES: Final = 64 * 1024
"""Of one namespace: about 600 controllers or labels."""


class GateStore(NamedTuple):
    """What is stored, and who is left out."""

    keys: dict[str, str]
    """Key -> name of the Reservation; of several with one key the first by name."""
    left_out: dict[str, ObservedReservation]
    """Reservations whose keys are not stored, by name, with the words for their author."""


class _Wish(NamedTuple):
    """The keys of one Reservation, and its place in the queue of its namespace."""

    observed: ObservedReservation
    keys: Collection[str]
    size: int
    home: str

    @property
    def turn(self) -> tuple[bool, int, str]:
        return not made_for(self.observed.reservation), self.size, self.observed.reservation.name


def stored(wanted: Iterable[tuple[ObservedReservation, Collection[str]]]) -> GateStore:
    """``wanted``: each Reservation whose new pods should be held, with its keys."""
    wishes = [_wish(observed, keys) for observed, keys in wanted]
    fitting = _fitting(wishes)
    keys: dict[str, str] = {}
    left_out: dict[str, ObservedReservation] = {}
    for wish in sorted(wishes, key=lambda wish: wish.observed.reservation.name):
        name = wish.observed.reservation.name
        if name in fitting:
            for key in wish.keys:
                keys.setdefault(key, name)
        else:
            left_out[name] = dataclasses.replace(wish.observed, ungated=_words(wish.home))
    return GateStore(keys, left_out)


def _wish(observed: ObservedReservation, keys: Collection[str]) -> _Wish:
    name, found = observed.reservation.name, namespaces_of(observed.reservation)
    size = sum(len(key) + len(name) for key in keys)
    return _Wish(observed, keys, size, "" if "" in found else min(found, default=""))


def _fitting(wishes: Iterable[_Wish]) -> set[str]:
    """Names of the Reservations whose keys are stored: moves first, then by how much their namespace has before them."""
    homes: Mapping[str, list[_Wish]] = defaultdict(list)
    for wish in wishes:
        homes[wish.home].append(wish)
    queue: list[tuple[bool, int, str, int]] = []
    for home, queued in homes.items():
        taken, most = 0, MOST_HOME_BYTES if home else MOST_KEY_BYTES
        for wish in sorted(queued, key=lambda wish: wish.turn):
            taken += wish.size
            if taken > most:
                break
            queue.append(
                (not made_for(wish.observed.reservation), taken, wish.observed.reservation.name, wish.size)
            )
    fitting, filled = set[str](), 0
    for _, _, name, size in sorted(queue):
        filled += size
        if filled > MOST_KEY_BYTES:
            break
        fitting.add(name)
    return fitting


def _words(home: str) -> str:
    whose = f"Reservations for pods of namespace {home}" if home else "these Reservations"
    return (
        f"new pods of its owners are not held for it: the gate has no place for more keys of {whose}; "
        "name controllers or a label that the pods share, or wait until others have ended"
    )
