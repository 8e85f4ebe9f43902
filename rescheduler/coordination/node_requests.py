"""Which moves and Reservations ask the node autoscaler for a node, and what is done about the pods that ask. Pure.

A move that people ask for (``kubectl drain`` by the guard, ``move``, ``drain``, an EvictionRequest) and that no node takes has no
placeholder yet, so no node autoscaler would see it. While it waits, a pod of ours stands for it (``reservations.node_request``). Once
a node with room is there, the move chooses it like any other, and the pod goes.

| the move | its pod |
|---|---|
| finds no target for ``SETTLED_S`` | is made, then gets the condition that node autoscalers look for |
| waits for something that passes, after that | stays |
| has a target, is paused, has begun or ended, is gone | is deleted |
| is one too many (``MOST``; namespaces take turns) | is not made, or deleted |

A Reservation of people, of a HeadRoom or of a ReservationWindow asks in the same way while it is Pending because no node has room for
its template. One that names its node, waits for room that others leave or make, or may not be admitted yet does not ask.

One pod for each running pod that is to move, of the shape that its controller would create anyway, or for each Reservation within
the share and the quotas of its namespace: nobody grows the pool by more. Everything is read off the objects, so a restart leaves nothing; only the time of waiting begins anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import NODE_REQUEST_SCHEDULER
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.room_of_move import key_of_move
from rescheduler.model.room_pod import made_for_pod, namespace_of_pods
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.node_request import key_of, request_key
from rescheduler.reservations.observed_reservation import ObservedReservation

MOST: Final = 100
"""Pods that ask at the same time."""
SETTLED_S: Final = 5.0
"""What passes by itself, such as a hand-over on the only node with room, adds no node."""
_STILL_WAITS: Final[frozenset[str]] = frozenset(
    {
        Why.NO_TARGET,
        Why.OWNER_BUSY,
        Why.SERVER_BUSY,
        Why.REPLACEMENT_UNKNOWN,
        Why.HIGHER_PRIORITY_WAITS,
        Why.LIMIT_HOUR,
        Why.COOLDOWN,
        Why.BACKOFF,
        Why.RECORDING,
    }
)
"""What a move may wait for after it has begun to ask, without a target being known."""
_COMPONENT: Final = {"app.kubernetes.io/name": "rescheduler", "app.kubernetes.io/component": "controller"}


class Asking(NamedTuple):
    """A move or a Reservation that may ask."""

    source: PodMigration | Reservation
    pod: Pod | None
    """The pod that asks for it now."""


def asking(
    snapshot: Snapshot,
    without_node: Mapping[str, bool],
    standing: Mapping[ObjectKey, Pod],
    namespace: str,
) -> list[Asking]:
    """Those that ask, or do once they have waited for long enough.

    ``without_node``: of each Reservation that was looked at whether no node takes it; others go on as they were.
    ``standing``: all pods that ask; ``namespace``: ours.
    """
    of_namespace: dict[str, list[Asking]] = defaultdict(list)
    for move in snapshot.migrations.values():
        if _waits(move):
            pod = standing.get(request_key(move, namespace))
            if pod is not None or move.status.reason == Why.NO_TARGET:
                of_namespace[move.namespace].append(Asking(move, pod))
    for room in snapshot.reservations.values():
        waits = without_node.get(room.name)
        if waits is False or room.deleting or room.status.phase is not ReservationPhase.PENDING:
            continue
        pod = standing.get(request_key(room, namespace)) if standing else None
        if waits or pod is not None:
            of_namespace[namespace_of_pods(room)].append(Asking(room, pod))
    in_turns = chain.from_iterable(
        zip_longest(*(_one_for_each_pod(of_namespace[name]) for name in sorted(of_namespace)))
    )
    return list(islice(filter(None, in_turns), MOST))


def _one_for_each_pod(asks: list[Asking]) -> Iterable[Asking]:
    """The one that asks already, or the oldest."""
    asks.sort(key=lambda one: (one.pod is None, one.source.created_at_s, key_of(one.source)))
    first: dict[ObjectKey, Asking] = {}
    for one in asks:
        key, source = key_of(one.source), one.source
        first.setdefault(ObjectKey("pod", source.pod_name) if isinstance(source, PodMigration) else key, one)
    return first.values()


def _waits(move: PodMigration) -> bool:
    """A move that names its target, or a room, waits for that one."""
    return (
        move.status.phase is MigrationPhase.PENDING
        and move.status.reason in _STILL_WAITS
        and move.requested
        and not (move.target_node or move.reservation_ref or move.after)
        and not (move.paused or move.deleting or move.unreadable)
    )


def finds_no_node(observed: ObservedReservation) -> bool:
    """No node takes the pod of the template, and neither a node nor pods that leave are named for it."""
    room = observed.reservation
    return (
        room.status.phase is ReservationPhase.PENDING
        and observed.placeholder is None
        and bool(observed.choice.message)
        and not (observed.choice.failed or observed.migration is not None or key_of_move(room) is not None)
        and not (room.template_node or room.preallocated or room.make_room or made_for_pod(room) is not None)
        and not (room.deleting or room.unreadable)
    )


def spoiled(pod: Pod) -> bool:
    """True if somebody has bound it, or admission has given it to a scheduler, which would: none is made again for that move."""
    return bool(pod.node) or pod.spec.scheduler_name != NODE_REQUEST_SCHEDULER


def withdrawn(standing: Mapping[ObjectKey, Pod], asks: list[Asking], namespace: str) -> Iterator[Pod]:
    """The pods that are to go: nobody needs them, or they are spoiled."""
    wanted = {one.pod.key for one in asks if one.pod is not None and not spoiled(one.pod)}
    for key, pod in standing.items():
        if key.namespace == namespace and key not in wanted and not pod.deleting:
            yield pod


def placed(
    asked: Iterable[ObjectKey],
    snapshot: Snapshot,
    without_node: Mapping[str, bool],
    standing: Mapping[ObjectKey, Pod],
    namespace: str,
) -> Iterator[Pod]:
    """The pods that are to go because of what has become of those that ``asked`` at the last look, by ``key_of``."""
    for key in asked if standing else ():
        move = snapshot.migrations.get(key)
        source = snapshot.reservations.get(key.name) if not key.namespace else move
        waits = without_node.get(key.name, True) if move is None else _waits(move)
        pod = standing.get(request_key(source, namespace)) if source is not None and not waits else None
        if pod is not None and not pod.deleting:
            yield pod


def request_machine(request: ObjectKey) -> ObjectKey:
    """Under which machine the steps of that pod are taken."""
    return ObjectKey("node-request", request.name)


def own_deployment(snapshot: Snapshot, namespace: str) -> Workload | None:
    """The Deployment of this program; None outside of a cluster."""
    for workload in snapshot.workloads.values():
        if workload.namespace == namespace and workload.kind == "Deployment":
            labels = workload.template_labels
            if all(labels.get(key) == value for key, value in _COMPONENT.items()):
                return workload
    return None
