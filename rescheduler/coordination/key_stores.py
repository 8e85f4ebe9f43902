"""Which gate keys, and which nodes to avoid, are stored: all of a kind live in one ConfigMap, so each namespace has a bounded share of it. Pure.

Promises: the keys of all stay within ``MOST_KEY_BYTES``, and those of one namespace within ``MOST_HOME_BYTES``, so a write costs
no more than that, whoever changes his keys how often; a namespace with few keys finds room however many others want
(max-min fair); within a namespace moves go first, because they wait for the proof of their keys, then Reservations with
few keys before those with many (``fitting``). Who is left out is told (``ungated``): the room is held, but new pods are not.

A Reservation belongs to the namespace of its owners; one whose owners are confined to none can be made only by authors who
may change pods everywhere, and has the whole store.

ConfigMap ``avoid-nodes`` tells admission which nodes the pods of which controllers avoid; it is computed anew in each round from the
hints on nodes, and bounded by ``MOST_BYTES`` in the same way.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from rescheduler.model import names
from rescheduler.model.controller_key import controller_key
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import Node, OwnerRef
from rescheduler.model.reservation import ControllerRef, Reservation
from rescheduler.model.room_of_move import made_for
from rescheduler.model.room_pod import namespaces_of
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.owners import controller_matches

MOST_KEY_BYTES: Final = 512 * 1024
"""Half of what a ConfigMap may contain: beyond that the API server would refuse the keys of all, also those of moves."""
MOST_HOME_BYTES: Final = 64 * 1024
"""Of one namespace: about 600 controllers or labels."""


class ShareRequest(NamedTuple):
    """An entry that is to be stored. ``late``: it comes after all that are not."""

    late: bool
    size: int
    name: str


class GateStore(NamedTuple):
    """What is stored, and who is left out."""

    keys: dict[str, str]
    """Key -> name of the Reservation; of several with one key the first by name."""
    left_out: dict[str, ObservedReservation]
    """Reservations whose keys are not stored, by name, with the words for their author."""


def stored(wanted: Iterable[tuple[ObservedReservation, Collection[str]]]) -> GateStore:
    """``wanted``: each Reservation whose new pods should be held, with its keys."""
    requested: dict[str, list[ShareRequest]] = defaultdict(list)
    ordered = sorted(wanted, key=lambda one: one[0].reservation.name)
    for observed, wanted_keys in ordered:
        room = observed.reservation
        size = sum(len(key) + len(room.name) for key in wanted_keys)
        requested[_home_of(room)].append(ShareRequest(late=not made_for(room), size=size, name=room.name))
    for queued in requested.values():
        queued.sort()
    found = fitting(requested, MOST_KEY_BYTES, lambda home: MOST_HOME_BYTES if home else MOST_KEY_BYTES)
    keys: dict[str, str] = {}
    left_out: dict[str, ObservedReservation] = {}
    for observed, wanted_keys in ordered:
        name = observed.reservation.name
        if name in found:
            for key in wanted_keys:
                keys.setdefault(key, name)
        else:
            left_out[name] = dataclasses.replace(observed, ungated=_words(_home_of(observed.reservation)))
    return GateStore(keys, left_out)


def _home_of(room: Reservation) -> str:
    found = namespaces_of(room)
    return "" if "" in found else min(found, default="")


def _words(home: str) -> str:
    whose = f"Reservations for pods of namespace {home}" if home else "these Reservations"
    return (
        f"new pods of its owners are not held for it: the gate has no place for more keys of {whose}; "
        "name controllers or a label that the pods share, or wait until others have ended"
    )


def fitting(
    requested: Mapping[str, Iterable[ShareRequest]], most: int, most_of: Callable[[str], int] | None = None
) -> set[str]:
    """The names of those that are stored: a max-min fair queue of the entries of all namespaces.

    The entries of a namespace with few of them are kept however many others have, because an entry comes after those with less
    of their own namespace before them. ``requested``: by namespace, in its order; ``most_of``: of one namespace.
    """
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


MOST_NODES: Final = 20
"""The most nodes to avoid per controller; with more of them the preference would exclude most of the cluster."""
MOST_BYTES: Final = 512 * 1024
"""Of all keys with their nodes."""


def avoid_keys(
    hinted: Iterable[Node], now_s: float, refused: Callable[[str], bool] = lambda _: False
) -> dict[str, str]:
    """What ConfigMap ``avoid-nodes`` should contain. ``hinted``: all nodes with hints.

    ``refused``: of a controller's uid, whether the API server refuses its pods: a policy may refuse them for the hint, a mere
    preference, so it is left out until they come.
    """
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in hinted:
        host = node.labels.get(names.HOSTNAME) or node.name
        for entry in node.avoid:
            if entry.expires_at_s > now_s and entry.controller_uid and entry.namespace:
                hosts[entry.namespace, entry.controller_uid].add(host)
    found: dict[str, str] = {}
    requested: dict[str, list[ShareRequest]] = defaultdict(list)
    for (namespace, uid), listed in sorted(hosts.items()):
        if refused(uid):
            continue
        key, text = controller_key(namespace, uid), ",".join(sorted(listed)[:MOST_NODES])
        found[key] = text
        requested[namespace].append(ShareRequest(late=False, size=len(key) + len(text), name=key))
    return {key: found[key] for key in sorted(fitting(requested, MOST_BYTES))}


def avoided_by(reservation: Reservation, snapshot: Snapshot, node: Node) -> bool:
    """True if the node has a hint that has not ended against a controller that the Reservation is for, or one below it."""
    if not node.avoid:
        return False
    wanted = [
        owner.controller
        for owner in reservation.owners
        if owner.controller is not None and owner.controller != ControllerRef()
    ]
    return any(
        controller_matches(controller, entry.namespace, ref)
        for entry in node.avoid
        if entry.expires_at_s > snapshot.taken_at_s
        for ref in _controllers(entry, snapshot)
        for controller in wanted
    )


def _controllers(entry: AvoidEntry, snapshot: Snapshot) -> Iterator[OwnerRef]:
    workload = snapshot.workloads.get(entry.controller_uid)
    if workload is None or workload.namespace != entry.namespace:
        return
    yield OwnerRef(workload.api_version, workload.kind, workload.name, workload.uid)
    if workload.controller is not None:
        yield workload.controller
