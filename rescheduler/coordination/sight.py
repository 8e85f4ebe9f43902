"""What a stage over all objects looks at if it crashes of some of them: the cluster without these, and what rests because of it. Pure.

Objects are left out in groups. One person writes most of a namespace, so it is one group: its pods, workloads, budgets, claims,
moves, and the Reservations for its pods with their placeholders. A node is one, with what is about it alone; each object that belongs
to neither is one. A pod that is left out still occupies its room: a bare pod stands in for it, which has no owner, so that nothing moves
it, and its gates, so that it is let go in time. Only if the stage crashes of bare pods, too, they are left out altogether.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.model.migration import PodMigration
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import Node, ObjectKey, Pod, PodSpec
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import home_of, namespaces_of
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.storage_records import CSINode, PersistentVolume, VolumeAttachment
from rescheduler.reservations.placeholder import placeholder_name

NAMESPACE: Final = "Namespace"
NODE: Final = "Node"
_ROOM: Final = "Reservation"
_KOORDINATOR: Final = "KoordinatorReservation"
_MAPPINGS: Final = (
    "nodes", "namespaces", "workloads", "budgets", "priority_classes", "volumes", "claims", "storage_classes", "csi_nodes",
    "csi_drivers", "csi_capacities", "attachments", "device_classes", "services", "resource_quotas", "reservations",
    "migrations", "koordinator",
)  # fmt: skip
"""The mappings of a Snapshot that have objects of the API server, but for pods."""

Member = Reservation | PodMigration


class Left(NamedTuple):
    """Objects that are left out together."""

    what: str
    name: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What a stage looks at."""

    snapshot: Snapshot
    rests: tuple[Member, ...] = ()
    """Reservations and PodMigrations that take no step, and keep what they hold."""
    namespaces: frozenset[str] = frozenset()
    """Those that are left out."""
    gone: tuple[Pod, ...] = ()
    """Pods that are left out altogether."""


def group_of(record: object, reservations: Mapping[str, Reservation]) -> Left | None:
    """The group of a record; None if it is none of the API server."""
    match record:
        case Pod():
            return _group_of_pod(record, reservations)
        case Node() | CSINode():
            return Left(NODE, record.name)
        case VolumeAttachment():
            return Left(NODE, record.node)
        case PersistentVolume():
            return (
                Left(NAMESPACE, record.claim.namespace)
                if record.claim
                else Left("PersistentVolume", record.name)
            )
        case Reservation():
            return _group_of_room(record)
        case _:
            if not isinstance(record, msgspec.Struct):
                return None
            namespace, name = getattr(record, "namespace", None), getattr(record, "name", None)
            if not isinstance(name, str):
                return None
            if isinstance(namespace, str) and namespace:
                return Left(NAMESPACE, namespace)
            return Left(type(record).__name__, name)  # of a Namespace it is that namespace


def nodes_of(member: Member) -> frozenset[str]:
    """The nodes that a Reservation or PodMigration is about; "" among them if one is not known yet."""
    if isinstance(member, Reservation):
        return frozenset((member.status.node_name, member.template_node))
    return frozenset((member.status.node_name, member.status.source_node, member.target_node))


def groups_of(snapshot: Snapshot) -> list[Left]:
    """All groups, in order."""
    found = {group for record in _each(snapshot) if (group := group_of(record, snapshot.reservations))}
    return sorted(found)


def _each(snapshot: Snapshot) -> Iterator[object]:
    for name in _MAPPINGS:
        yield from getattr(snapshot, name).values()
    yield from snapshot.pods.values()


def _group_of_pod(pod: Pod, reservations: Mapping[str, Reservation]) -> Left:
    if not pod.namespace:  # the room of one of Koordinator's Reservations
        return Left(_KOORDINATOR, pod.name)
    if LABEL_PLACEHOLDER in pod.labels and pod.controller is not None:
        room = reservations.get(pod.controller.name)
        if room is not None and room.uid == pod.controller.uid:
            return _group_of_room(room)
    return Left(NAMESPACE, pod.namespace)


def _group_of_room(room: Reservation) -> Left:
    try:
        home = home_of(room)
    except Exception:  # noqa: BLE001 - it is asked because something crashed, maybe of its owners
        home = ""
    return Left(NAMESPACE, home) if home else Left(_ROOM, room.name)


@dataclass(slots=True)
class Sights:
    """Makes what is seen without some groups. Of the same arguments in a row the result is the same object."""

    _bare: dict[ObjectKey, tuple[Pod, Pod]] = field(default_factory=dict)
    _last: dict[bool, tuple[Snapshot, frozenset[Left], Sight]] = field(default_factory=dict)

    def without(self, snapshot: Snapshot, out: Collection[Left], *, bare: bool) -> Sight:
        """``bare``: a bare pod stands in for each pod that is left out."""
        last, wanted = self._last.get(bare), frozenset(out)
        if last is None or last[0] is not snapshot or last[1] != wanted:
            last = self._last[bare] = (snapshot, wanted, self._made(snapshot, wanted, bare=bare))
        return last[2]

    def forget(self) -> None:
        """Nothing is left out any more."""
        self._bare.clear()
        self._last.clear()

    def _made(self, snapshot: Snapshot, out: frozenset[Left], *, bare: bool) -> Sight:
        if not out:
            return Sight(snapshot)

        def left_out(record: object) -> bool:
            return group_of(record, snapshot.reservations) in out

        nodes = {group.name for group in out if group.what == NODE}
        changes: dict[str, Any] = {name: _kept(getattr(snapshot, name), left_out) for name in _MAPPINGS}
        changes["usage"] = {name: used for name, used in snapshot.usage.items() if name not in nodes}
        gone = {key: pod for key, pod in snapshot.pods.items() if left_out(pod)}
        if gone:
            stands = {key: self._stand_in(pod) for key, pod in gone.items()} if bare else {}
            pods = {
                key: stands.get(key, pod)
                for key, pod in snapshot.pods.items()
                if key in stands or key not in gone
            }
            changes |= {"pods": pods, "pod_log": None}
        namespaces = frozenset(group.name for group in out if group.what == NAMESPACE)
        return Sight(
            dataclasses.replace(snapshot, **changes),
            tuple(_resting(snapshot, out, namespaces, nodes)),
            namespaces,
            () if bare else tuple(gone.values()),
        )

    def _stand_in(self, pod: Pod) -> Pod:
        known = self._bare.get(pod.key)
        if known is None or known[0] is not pod:
            known = self._bare[pod.key] = (pod, _bare(pod))
        return known[1]


def _kept(objects: Mapping[Any, Any], left_out: Callable[[object], bool]) -> Mapping[Any, Any]:
    """The same mapping if all of it stays, so that what is kept for it stays too."""
    gone = {key for key, record in objects.items() if left_out(record)}
    return {key: record for key, record in objects.items() if key not in gone} if gone else objects


def _bare(pod: Pod) -> Pod:
    """What it takes on its node and holds at its gates, and nothing else that anybody wrote."""
    spec = PodSpec(
        requests=pod.spec.requests,
        score_cpu_milli=pod.spec.score_cpu_milli,
        score_memory_bytes=pod.spec.score_memory_bytes,
        priority=pod.spec.priority,
        scheduler_name=pod.spec.scheduler_name,
        gates=pod.spec.gates,
    )
    nothing = Pod(namespace=pod.namespace, name=pod.name, uid=pod.uid, spec=spec)
    return msgspec.structs.replace(
        pod,
        spec=spec,
        labels=nothing.labels,
        annotations=nothing.annotations,
        controller=None,
        unschedulable_message="",
        disruption_reason="",
    )


def _resting(
    snapshot: Snapshot, out: Collection[Left], namespaces: Collection[str], nodes: Collection[str]
) -> Iterator[Member]:
    """What is left out, and what depends on it: by its node, its pods, or the object of Koordinator that holds its room."""
    holders = {group.name for group in out if group.what == _KOORDINATOR}
    for room in snapshot.reservations.values():
        if (
            _group_of_room(room) in out
            or not nodes_of(room).isdisjoint(nodes)
            or _for_any(room, namespaces)
            or (holders and placeholder_name(room) in holders)
        ):
            yield room
    for move in snapshot.migrations.values():
        if move.namespace in namespaces or not nodes_of(move).isdisjoint(nodes):
            yield move


def _for_any(room: Reservation, namespaces: Collection[str]) -> bool:
    try:
        return not namespaces_of(room).isdisjoint(namespaces)
    except Exception:  # noqa: BLE001 - it is asked because something crashed, maybe of its owners
        return True
