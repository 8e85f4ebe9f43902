"""What no machine takes care of any more, found again in each round whatever a crash or a deleted object left behind. Pure.

- Replacements of mode StartFirst without a live move are adopted or deleted.
- Pods that wait for a Reservation of Koordinator that is lost are released.
- Rooms that others were to make for a pending pod are given back if they are not made any more.
- Placeholders without an owner are deleted: a Reservation that was deleted with ``--cascade=orphan`` while nobody led leaves them, and they
  would hold their room for ever, beyond every quota.
- Placeholders that are terminating on a node that does not answer are removed: only its kubelet ends a pod, and on a node
  that never comes back it never does. The node gets some time first, because it often comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from rescheduler.calls.call import AnyCall
from rescheduler.calls.objects import delete_reservation
from rescheduler.calls.pods import delete_placeholder, remove_placeholder, unsteer
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.memory import Sightings
from rescheduler.migrations.start_first_replacement import orphan_calls
from rescheduler.model.event import Event, about
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import waiting_pod
from rescheduler.reservations.koordinator_steps import unsteered
from rescheduler.reservations.settings import ReservationSettings

OWNERLESS_S: Final = 30.0
"""So long a placeholder without an owner is only watched: if another program takes the owner off each new one, this bounds how many are made."""


class Leftover(NamedTuple):
    """One of them: what is to be done for it, by which machine, and when; before ``due_s`` it is only watched."""

    machine: ObjectKey
    calls: tuple[AnyCall, ...]
    due_s: float = 0.0


def leftovers(
    index: RoundIndex,
    sightings: Sightings,
    settings: ReservationSettings,
    now_s: float,
) -> tuple[Leftover, ...]:
    """All of this round."""
    snapshot = index.snapshot
    unadopted = index.kept.pods.unadopted.values()
    orphans = orphan_calls(unadopted, snapshot.migrations, snapshot.workloads, index.pods_of)
    lost = unsteered(index.waiting, snapshot.reservations)
    return (
        *(Leftover(_machine("orphan", pod.uid), (call,)) for pod, call in orphans),
        *(Leftover(release_machine(pod.uid), (unsteer(pod),)) for pod in lost),
        *(
            Leftover(_machine("room", room.uid), _given_up(room, why, snapshot.pods))
            for room, why in index.waiting_room.given_up(now_s)
        ),
        *_ownerless(index, sightings, settings, now_s),
        *_unanswered(index, sightings, settings, now_s),
    )


def release_machine(uid: str) -> ObjectKey:
    """Under which machine a pod is let go that no Reservation lets go."""
    return ObjectKey("release", uid)


def _given_up(room: Reservation, why: str, pods: Mapping[ObjectKey, Pod]) -> tuple[AnyCall, ...]:
    """The Reservation is deleted, so its pod is told why it waits on, if it does."""
    deletion = delete_reservation(room, unchanged=True, why=why)
    pod = waiting_pod(room, pods)
    if pod is None:
        return (deletion,)
    return (deletion, Event(about(pod), "RoomGivenUp", why, warning=True))


def _ownerless(
    index: RoundIndex, sightings: Sightings, settings: ReservationSettings, now_s: float
) -> Iterator[Leftover]:
    for pod in index.kept.pods.ownerless_placeholders.values():
        if pod.namespace == settings.namespace:
            machine = _machine("placeholder", pod.uid)
            since_s = sightings.since("ownerless", machine, now_s, state=True)
            yield Leftover(machine, (delete_placeholder(pod),), since_s + OWNERLESS_S)


def _unanswered(
    index: RoundIndex, sightings: Sightings, settings: ReservationSettings, now_s: float
) -> Iterator[Leftover]:
    for pod in index.kept.pods.ending_placeholders.values():
        if pod.namespace != settings.namespace:
            continue
        machine = _machine("placeholder", pod.uid)
        since_s = sightings.since("unanswered", machine, now_s, state=not _answers(index, pod))
        if since_s:
            yield Leftover(machine, (remove_placeholder(pod),), since_s + settings.node_grace_s)


def _answers(index: RoundIndex, pod: Pod) -> bool:
    node = index.snapshot.nodes.get(pod.node)
    return node is not None and node.ready


def _machine(what: str, uid: str) -> ObjectKey:
    return ObjectKey(what, uid)
