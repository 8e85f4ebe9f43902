"""Carries actions out: the only place where a decision becomes a call.

``ApplyExecutor`` talks to the API server; ``RecordExecutor`` only writes down what would be done (dry run is
another executor, not an ``if``). An executor decides nothing and tries nothing again; the reconciler does.
Calls raise ``ApiError``, ``TransportError`` or ``NotLeaderError``; an eviction's answer is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, Protocol

import msgspec

from rescheduler.controller import patches
from rescheduler.controller.effects import NO_EFFECT, Action, Effect, NotLeaderError, Touched
from rescheduler.kube.client import Body
from rescheduler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from rescheduler.migrations import actions as moves
from rescheduler.migrations.start_first_orphan import orphan_manifest
from rescheduler.model import names
from rescheduler.model.api_objects import encode_migration_status, encode_reservation_status
from rescheduler.model.eviction import EvictionOutcome, EvictionResult
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.records import Node, ObjectKey, OwnerRef
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.engine import Engine
from rescheduler.reservations.koordinator import KoordinatorEngine
from rescheduler.reservations.naming import label_value
from rescheduler.reservations.observed import ReservationSettings
from rescheduler.reservations.template import reservation_manifest


class ClusterWriter(Protocol):
    """The calls that an executor needs; ``kube.client.KubeApi`` has them."""

    def get(self, path: str) -> bytes: ...  # noqa: D102
    def create(self, path: str, body: Body, *, dry_run: bool = False) -> bytes: ...  # noqa: D102
    def replace(self, path: str, body: Body, *, dry_run: bool = False) -> bytes: ...  # noqa: D102
    def merge_patch(self, path: str, patch: Body, *, dry_run: bool = False) -> bytes: ...  # noqa: D102
    def strategic_patch(self, path: str, patch: Body, *, dry_run: bool = False) -> bytes: ...  # noqa: D102
    def json_patch(  # noqa: D102
        self, path: str, operations: Sequence[Mapping[str, Any]], *, dry_run: bool = False
    ) -> bytes: ...
    def delete(  # noqa: D102
        self, path: str, *, uid: str = "", resource_version: str = "", grace_s: int | None = None
    ) -> bytes: ...
    def evict(  # noqa: D102
        self, namespace: str, name: str, uid: str, grace_s: int | None = None, *, dry_run: bool = False
    ) -> EvictionResult: ...


class Executor(Protocol):
    """A strategy of carrying actions out."""

    def execute(self, action: Action) -> Effect:
        """Carry ``action`` out. Raises ApiError, TransportError, NotLeaderError."""
        ...

    def taint(self, node: Node, reservation: str) -> Effect:
        """Put the hand-over taint on a node."""
        ...

    def untaint(self, node: Node) -> Effect:
        """Take hand-over taints off a node."""
        ...


class GateProof(Protocol):
    """Knows whether the gate is in force."""

    def proves(self, owner: OwnerRef, namespace: str) -> bool:
        """True if a pod of ``owner`` created now would be held."""
        ...


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    uid: str = ""
    deletion_timestamp: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta | None = None


_OBJECT = msgspec.json.Decoder(_Object)


class _Identity(msgspec.Struct):
    uid: str


class _WithTemplate(msgspec.Struct):
    template: dict[str, Any]


class _Templated(msgspec.Struct):
    """A controller of pods, of which only identity and template are read."""

    metadata: _Identity
    spec: _WithTemplate


def _version(body: bytes) -> str:
    meta = _OBJECT.decode(body).metadata
    return meta.resource_version if meta else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An object by kind and key."""

    kind: Kind
    key: ObjectKey

    def path(self, subresource: str = "") -> str:
        return RESOURCES[self.kind].object_path(self.key.namespace, self.key.name) + subresource

    def written(self, body: bytes) -> Effect:
        return Effect(touched=(Touched(kind=self.kind, key=self.key, version=_version(body)),))

    def deleted(self) -> Effect:
        return Effect(touched=(Touched(kind=self.kind, key=self.key, deleted=True),))


def _pod(key: ObjectKey) -> _Place:
    return _Place(kind=Kind.POD, key=key)


def _path_of(owner: OwnerRef, namespace: str) -> str:
    return RESOURCES[Kind(owner.kind)].object_path(namespace, owner.name)


def _reservation(name: str) -> _Place:
    return _Place(kind=Kind.RESERVATION, key=ObjectKey("", name))


def _koordinator(name: str) -> _Place:
    return _Place(kind=Kind.KOORDINATOR_RESERVATION, key=ObjectKey("", name))


def _migration(key: ObjectKey) -> _Place:
    return _Place(kind=Kind.POD_MIGRATION, key=key)


@dataclass(frozen=True, kw_only=True)
class ApplyExecutor:
    """Really does it, with an engine for each way to hold a room. ``still_leader`` is asked right before each eviction, the one call without return."""

    api: ClusterWriter
    engine: Engine
    namespace: str
    gate: GateProof
    still_leader: Callable[[], bool]
    koordinator: Engine = field(default_factory=lambda: KoordinatorEngine(ReservationSettings()))
    record_event: Callable[[rooms.RecordEvent], None] = field(default=lambda _: None)

    def taint(self, node: Node, reservation: str) -> Effect:
        """Put the hand-over taint on a node that is still as we saw it."""
        place = _Place(kind=Kind.NODE, key=ObjectKey("", node.name))
        body = self.api.json_patch(place.path(), patches.taint_on(node, label_value(reservation)))
        return place.written(body)

    def untaint(self, node: Node) -> Effect:
        """Take hand-over taints off a node that is still as we saw it."""
        place = _Place(kind=Kind.NODE, key=ObjectKey("", node.name))
        return place.written(self.api.json_patch(place.path(), patches.taint_off(node)))

    @singledispatchmethod
    def execute(self, action: Action) -> Effect:
        """Carry ``action`` out. Raises ApiError, TransportError, NotLeaderError."""
        raise TypeError(f"no way to carry out {type(action).__name__}")

    @execute.register
    def _create_placeholder(self, action: rooms.CreatePlaceholder) -> Effect:
        name = self.engine.holder_name(action.reservation, action.part)
        place = _pod(ObjectKey(self.namespace, name))
        collection = RESOURCES[Kind.POD].object_path(self.namespace, "")
        body = self.engine.holder(action.reservation, action.node, action.part)
        return self._create(place, collection, body)

    @execute.register
    def _delete_placeholder(self, action: rooms.DeletePlaceholder) -> Effect:
        return self._delete(_pod(action.pod), action.uid, grace_s=1)

    @execute.register
    def _write_reservation_status(self, action: rooms.WriteReservationStatus) -> Effect:
        place = _reservation(action.name)
        body = status_body(
            "Reservation",
            place.key,
            action.uid,
            action.resource_version,
            encode_reservation_status(action.status),
        )
        return place.written(self.api.replace(place.path("/status"), body))

    @execute.register
    def _nominate(self, action: rooms.Nominate) -> Effect:
        place = _pod(action.pod)
        return place.written(
            self.api.merge_patch(place.path("/status"), patches.nominate(action.uid, action.node))
        )

    @execute.register
    def _take_back_nomination(self, action: rooms.TakeBackNomination) -> Effect:
        if not self._stands(action.holder, action.holder_uid):
            return Effect()
        return self._nominate(rooms.Nominate(action.pod, action.uid, ""))

    def _stands(self, pod: ObjectKey, uid: str) -> bool:
        try:
            found = _OBJECT.decode(self.api.get(_pod(pod).path())).metadata
        except NotFoundError:
            return False
        return found is not None and found.uid == uid and not found.deletion_timestamp

    @execute.register
    def _ungate(self, action: rooms.Ungate) -> Effect:
        place = _pod(action.pod)
        patch = patches.ungate(action.uid, action.reservation, action.tolerations)
        return place.written(self.api.strategic_patch(place.path(), patch))

    @execute.register
    def _admit_placeholder(self, action: rooms.AdmitPlaceholder) -> Effect:
        place = _pod(action.pod)
        return place.written(self.api.strategic_patch(place.path(), patches.admit(action.uid)))

    @execute.register
    def _create_koordinator_reservation(self, action: rooms.CreateKoordinatorReservation) -> Effect:
        place = _koordinator(self.koordinator.holder_name(action.reservation))
        body = self.koordinator.holder(action.reservation, action.node)
        return self._create(place, RESOURCES[place.kind].collection_path, body)

    @execute.register
    def _delete_koordinator_reservation(self, action: rooms.DeleteKoordinatorReservation) -> Effect:
        return self._delete(_koordinator(action.name), action.uid)

    @execute.register
    def _steer(self, action: rooms.Steer) -> Effect:
        place = _pod(action.pod)
        patch = patches.steer(action.uid, action.reservation, action.holder)
        return place.written(self.api.strategic_patch(place.path(), patch))

    @execute.register
    def _unsteer(self, action: rooms.Unsteer) -> Effect:
        place = _pod(action.pod)
        return place.written(self.api.merge_patch(place.path(), patches.unsteer(action.uid)))

    @execute.register
    def _release_pod(self, action: rooms.ReleasePod) -> Effect:
        place = _pod(action.pod)
        try:
            body = self.api.strategic_patch(place.path(), patches.ungate(action.uid, None, None))
        except NotFoundError:
            return NO_EFFECT
        return place.written(body)

    @execute.register
    def _delete_reservation(self, action: rooms.DeleteReservation) -> Effect:
        return self._delete(_reservation(action.name), action.uid, version=action.resource_version)

    @execute.register
    def _record_event(self, action: rooms.RecordEvent) -> Effect:
        self.record_event(action)
        return NO_EFFECT

    @execute.register
    def _adopt_pod(self, action: moves.AdoptPod) -> Effect:
        place = _migration(action.migration)
        patch = patches.adopt_pod(action.uid, action.resource_version, action.pod_uid)
        return place.written(self.api.merge_patch(place.path(), patch))

    @execute.register
    def _write_migration_status(self, action: moves.WriteMigrationStatus) -> Effect:
        place = _migration(action.migration)
        body = status_body(
            "PodMigration",
            place.key,
            action.uid,
            action.resource_version,
            encode_migration_status(action.status),
        )
        return place.written(self.api.replace(place.path("/status"), body))

    @execute.register
    def _create_reservation(self, action: moves.CreateReservation) -> Effect:
        body = reservation_manifest(
            name=action.name,
            migration=action.migration,
            pod=action.pod,
            template=action.template,
            volumes=action.volumes,
            node=action.node,
            ttl_s=action.ttl_s,
            soft=action.soft,
        )
        return self._create(_reservation(action.name), RESOURCES[Kind.RESERVATION].collection_path, body)

    @execute.register
    def _prove_gate(self, action: moves.ProveGate) -> Effect:
        return Effect(gate_proven=self.gate.proves(action.controller, action.namespace))

    @execute.register
    def _dry_run_evict(self, action: moves.DryRunEvict) -> Effect:
        namespace, name = action.pod
        return Effect(eviction=self.api.evict(namespace, name, action.pod_uid, action.grace_s, dry_run=True))

    @execute.register
    def _evict(self, action: moves.Evict) -> Effect:
        if not self.still_leader():
            raise NotLeaderError("leadership was lost before the eviction")
        namespace, name = action.pod
        result = self.api.evict(namespace, name, action.pod_uid, action.grace_s)
        touched = _pod(action.pod).deleted().touched if result.outcome is EvictionOutcome.EVICTED else ()
        return Effect(eviction=result, touched=touched)

    @execute.register
    def _start_replacement(self, action: moves.StartReplacement) -> Effect:
        """From the owner's own template, as it is stored now. A refusal is a value: asking again is no use."""
        owner = self.api.get(_path_of(action.owner, action.namespace))
        found = msgspec.json.decode(owner, type=_Templated)
        if found.metadata.uid != action.owner.uid:
            raise ConflictError(
                409, "Conflict", f"{action.owner.kind} {action.owner.name} is another one now"
            )
        place = _pod(ObjectKey(action.namespace, action.name))
        body = orphan_manifest(
            found.spec.template,
            key=place.key,
            migration=action.migration,
            labels=dict(action.labels),
            says=action.replaces,
            node=action.node,
        )
        try:
            return self._create(
                place, RESOURCES[Kind.POD].object_path(action.namespace, ""), msgspec.json.encode(body)
            )
        except (ForbiddenError, RejectedError) as error:
            return Effect(refused=error.message or str(error))

    @execute.register
    def _label_replacement(self, action: moves.LabelReplacement) -> Effect:
        place = _pod(action.pod)
        patch = patches.label(action.uid, action.labels)
        return place.written(self.api.merge_patch(place.path(), patch))

    @execute.register
    def _remove_replacement(self, action: moves.RemoveReplacement) -> Effect:
        return self._delete(_pod(action.pod), action.uid)

    @execute.register
    def _add_hint(self, action: moves.WriteAvoidHints) -> Effect:
        place = _Place(kind=Kind.NODE, key=ObjectKey("", action.node))
        patch = patches.avoid(action.resource_version, action.entries)
        return place.written(self.api.merge_patch(place.path(), patch))

    @execute.register
    def _delete_migration(self, action: moves.DeleteMigration) -> Effect:
        return self._delete(_migration(action.migration), action.uid)

    def _create(self, place: _Place, collection: str, body: bytes) -> Effect:
        """A name that is taken is our own earlier try: names are deterministic."""
        try:
            return place.written(self.api.create(collection, body))
        except AlreadyExistsError:
            return NO_EFFECT

    def _delete(self, place: _Place, uid: str, *, version: str = "", grace_s: int | None = None) -> Effect:
        try:
            self.api.delete(place.path(), uid=uid, resource_version=version, grace_s=grace_s)
        except NotFoundError:
            return NO_EFFECT
        return place.deleted()


@dataclass(frozen=True, kw_only=True)
class RecordExecutor:
    """Does nothing and remembers what it would have done, in order: dry run."""

    actions: list[Action] = field(default_factory=list)

    def execute(self, action: Action) -> Effect:
        """Write ``action`` down."""
        self.actions.append(action)
        return NO_EFFECT

    def taint(self, node: Node, reservation: str) -> Effect:  # noqa: ARG002  the Protocol's signature
        """Nothing."""
        return NO_EFFECT

    def untaint(self, node: Node) -> Effect:  # noqa: ARG002  the Protocol's signature
        """Nothing."""
        return NO_EFFECT


def status_body(
    kind: str, key: ObjectKey, uid: str, version: str, status: Mapping[str, Any]
) -> dict[str, Any]:
    """An object that carries nothing but its identity, its version and a whole status."""
    metadata = {"name": key.name, "uid": uid, "resourceVersion": version}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "status": dict(status)}
