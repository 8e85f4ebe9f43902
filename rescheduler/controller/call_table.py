"""The call of each action: ``CALLS``, one row per action (pure).

Every body carries the uid or the resourceVersion that its action was decided on, so that a late call misses
instead of hitting a successor: a wrong uid answers 422 (patches) or 409 (deletes), a stale version 409.
Nothing here decides whether an action is right; that is the business of the two machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from rescheduler.controller import node_calls
from rescheduler.controller.calls import (
    Call,
    CreationTrial,
    EventNote,
    GateProbe,
    OnError,
    Operation,
    ReadThenCall,
    TemplateTrial,
    Verb,
)
from rescheduler.controller.creation_trial import creation_trial
from rescheduler.controller.effects import Action
from rescheduler.kube.errors import ConflictError
from rescheduler.migrations import actions as moves
from rescheduler.migrations.start_first_replacement import replacement_manifest
from rescheduler.model import names
from rescheduler.model.encode import (
    encode_head_room_status,
    encode_migration_status,
    encode_reservation_status,
    encode_window_status,
)
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import format_seconds
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.koordinator import KoordinatorEngine, affinity
from rescheduler.reservations.observed import ReservationSettings
from rescheduler.reservations.placeholder import PlaceholderEngine
from rescheduler.reservations.template import reservation_manifest, toleration_json
from rescheduler.reservations.template_trial import trial_pod
from rescheduler.room_sets import actions as room_sets

Json = dict[str, Any]

_GATE_OFF: Final[Json] = {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}
"""Strategic patch: list entries are merged by name, so gates of others stay."""


def operation_of(action: Action, settings: ReservationSettings) -> Operation:
    """What is to be sent for ``action``."""
    return CALLS[type(action)](action, settings)


# Placeholders


def _create_placeholder(action: rooms.CreatePlaceholder, settings: ReservationSettings) -> Call:
    engine = PlaceholderEngine(settings)
    name = engine.holder_name(action.reservation, action.part)
    return _create(
        Kind.POD,
        ObjectKey(settings.namespace, name),
        engine.holder(action.reservation, action.node, action.part),
    )


def _try_template(action: rooms.TryTemplate, settings: ReservationSettings) -> TemplateTrial:
    body, key = trial_pod(action.reservation), ObjectKey(settings.namespace, "template-")
    return TemplateTrial(Call(verb=Verb.CREATE, kind=Kind.POD, key=key, body=body, dry_run=True))


def _delete_placeholder(action: rooms.DeletePlaceholder, _: ReservationSettings) -> Call | ReadThenCall:
    # With a grace period of 0 the API server would remove the object while the kubelet still runs the pod.
    delete: Call | ReadThenCall = _delete(Kind.POD, action.pod, action.uid, grace_s=1)
    for pod in reversed(action.nominated):
        delete = _while_nominated(pod, delete)
    return delete


def _remove_placeholder(action: rooms.RemovePlaceholder, _: ReservationSettings) -> Call:
    return _delete(Kind.POD, action.pod, action.uid, grace_s=0)


def _while_nominated(pod: rooms.Nominate, then: Call | ReadThenCall) -> ReadThenCall:
    return ReadThenCall(
        read=Call(verb=Verb.GET, kind=Kind.POD, key=pod.pod, on_error=OnError.IGNORE_NOT_FOUND),
        then=partial(_if_nominated, pod, then),
        purpose=f"{then.line} if uid {pod.uid} is nominated to node {pod.node}, else nominate it again",
    )


def _if_nominated(pod: rooms.Nominate, then: Call | ReadThenCall, found: bytes) -> Call | ReadThenCall | None:
    read = _READ.decode(found)
    if read.metadata.uid != pod.uid:
        return None
    if read.status.nominated_node_name == pod.node:
        return then
    # Only the nomination: the placeholder is deleted in a later round, once the cache shows it.
    return _nomination(pod.pod, pod.uid, pod.node)


def _admit_placeholder(action: rooms.AdmitPlaceholder, _: ReservationSettings) -> Call:
    gates = [{"name": names.GATE_ROOM, "$patch": "delete"}]
    return _strategic_patch(action.pod, {"metadata": {"uid": action.uid}, "spec": {"schedulingGates": gates}})


def _create_koordinator_reservation(
    action: rooms.CreateKoordinatorReservation, settings: ReservationSettings
) -> Call:
    engine = KoordinatorEngine(settings)
    key = ObjectKey("", engine.holder_name(action.reservation))
    return _create(Kind.KOORDINATOR_RESERVATION, key, engine.holder(action.reservation, action.node))


def _delete_koordinator_reservation(
    action: rooms.DeleteKoordinatorReservation, _: ReservationSettings
) -> Call:
    return _delete(Kind.KOORDINATOR_RESERVATION, ObjectKey("", action.name), action.uid)


# Claimants


def _nominate(action: rooms.Nominate, _: ReservationSettings) -> Call:
    return _nomination(action.pod, action.uid, action.node)


def _take_back_nomination(action: rooms.TakeBackNomination, _: ReservationSettings) -> ReadThenCall:
    return ReadThenCall(
        read=Call(verb=Verb.GET, kind=Kind.POD, key=action.holder, on_error=OnError.IGNORE_NOT_FOUND),
        then=partial(_unless_the_placeholder_ends, action),
        purpose=f"{_nomination(action.pod, action.uid, '').line} if uid {action.holder_uid} is not terminating",
    )


def _unless_the_placeholder_ends(action: rooms.TakeBackNomination, placeholder: bytes) -> Call | None:
    found = _READ.decode(placeholder).metadata
    if found.uid != action.holder_uid or found.deletion_timestamp:
        return None
    return _nomination(action.pod, action.uid, "")


def _nomination(pod: ObjectKey, uid: str, node: str) -> Call:
    """``node`` "": the nomination is withdrawn."""
    patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}
    return _merge_patch(Kind.POD, pod, patch, subresource="status")


def _ungate(action: rooms.Ungate, _: ReservationSettings) -> Call:
    spec = dict(_GATE_OFF)
    if action.tolerations is not None:
        # A strategic patch replaces the list of tolerations, so it must be complete.
        spec["tolerations"] = [toleration_json(t) for t in action.tolerations]
    annotations = {names.ANNOTATION_RESERVATION: action.reservation}
    return _strategic_patch(
        action.pod, {"metadata": {"uid": action.uid, "annotations": annotations}, "spec": spec}
    )


def _tolerate(action: rooms.Tolerate, _: ReservationSettings) -> Call:
    annotations = {names.ANNOTATION_RESERVATION: action.reservation}
    seen = {"uid": action.uid, "resourceVersion": action.resource_version}
    spec = {"tolerations": [toleration_json(t) for t in action.tolerations]}
    return _strategic_patch(action.pod, {"metadata": {**seen, "annotations": annotations}, "spec": spec})


def _release_pod(action: rooms.ReleasePod, _: ReservationSettings) -> Call:
    metadata = {"uid": action.uid, "annotations": {names.ANNOTATION_RESERVATION: None}}
    return _strategic_patch(
        action.pod, {"metadata": metadata, "spec": dict(_GATE_OFF)}, on_error=OnError.IGNORE_NOT_FOUND
    )


def _steer(action: rooms.Steer, _: ReservationSettings) -> Call:
    annotations = {
        names.ANNOTATION_RESERVATION: action.reservation,
        names.KOORDINATOR_AFFINITY: affinity(action.holder),
    }
    return _strategic_patch(
        action.pod, {"metadata": {"uid": action.uid, "annotations": annotations}, "spec": dict(_GATE_OFF)}
    )


def _unsteer(action: rooms.Unsteer, _: ReservationSettings) -> Call:
    annotations = {names.ANNOTATION_RESERVATION: None, names.KOORDINATOR_AFFINITY: None}
    return _merge_patch(Kind.POD, action.pod, {"metadata": {"uid": action.uid, "annotations": annotations}})


# Reservations and PodMigrations


def _write_reservation_status(action: rooms.WriteReservationStatus, _: ReservationSettings) -> Call:
    return _replace_status(
        Kind.RESERVATION,
        ObjectKey("", action.seen.name),
        action.seen.uid,
        action.seen.resource_version,
        encode_reservation_status(action.status),
    )


def _create_reservation(action: moves.CreateReservation, _: ReservationSettings) -> Call:
    body = reservation_manifest(
        name=action.name,
        migration=action.migration,
        migration_uid=action.migration_uid,
        pod=action.pod,
        template=action.template,
        volumes=action.volumes,
        node=action.node,
        ttl_s=action.ttl_s,
        soft=action.soft,
        pre_allocation=action.pre_allocation,
    )
    return _create(Kind.RESERVATION, ObjectKey("", action.name), body)


def _create_room(action: room_sets.CreateRoom, _: ReservationSettings) -> Call:
    return _create(Kind.RESERVATION, ObjectKey("", action.name), action.body)


def _write_window_status(action: room_sets.WriteWindowStatus, _: ReservationSettings) -> Call:
    seen, status = action.seen, encode_window_status(action.status)
    key = ObjectKey("", seen.name)
    return _replace_status(Kind.RESERVATION_WINDOW, key, seen.uid, seen.resource_version, status)


def _write_head_room_status(action: room_sets.WriteHeadRoomStatus, _: ReservationSettings) -> Call:
    seen, status = action.seen, encode_head_room_status(action.status)
    key = ObjectKey("", seen.name)
    return _replace_status(Kind.HEAD_ROOM, key, seen.uid, seen.resource_version, status)


def _delete_reservation(action: rooms.DeleteReservation, _: ReservationSettings) -> Call:
    return _delete(
        Kind.RESERVATION,
        ObjectKey("", action.seen.name),
        action.seen.uid,
        resource_version=action.seen.resource_version if action.unchanged else "",
    )


def _adopt_pod(action: moves.AdoptPod, _: ReservationSettings) -> Call:
    patch = {
        "metadata": {"uid": action.uid, "resourceVersion": action.resource_version},
        "spec": {"podRef": {"uid": action.pod_uid}},
    }
    return _merge_patch(Kind.POD_MIGRATION, action.migration, patch)


def _write_migration_status(action: moves.WriteMigrationStatus, _: ReservationSettings) -> Call:
    return _replace_status(
        Kind.POD_MIGRATION,
        action.seen.key,
        action.seen.uid,
        action.seen.resource_version,
        encode_migration_status(action.status),
    )


def _delete_migration(action: moves.DeleteMigration, _: ReservationSettings) -> Call:
    return _delete(Kind.POD_MIGRATION, action.migration, action.uid)


def _record_event(action: rooms.RecordEvent, _: ReservationSettings) -> EventNote:
    return EventNote(action)


# Evictions


def _prove_gate(action: moves.ProveGate, _: ReservationSettings) -> GateProbe:
    return GateProbe(action.controller, action.namespace)


def _dry_run_create(action: moves.DryRunCreate, _: ReservationSettings) -> CreationTrial:
    return creation_trial(action)


def _dry_run_evict(action: moves.DryRunEvict, _: ReservationSettings) -> Call:
    return _eviction(action, dry_run=True)


def _evict(action: moves.Evict, _: ReservationSettings) -> Call:
    return _eviction(action, dry_run=False)


def _eviction(action: moves.Evict | moves.DryRunEvict, *, dry_run: bool) -> Call:
    return Call(
        verb=Verb.EVICT,
        kind=Kind.POD,
        key=action.pod,
        subresource="eviction",
        uid=action.pod_uid,
        grace_s=action.grace_s,
        dry_run=dry_run,
    )


# Replacements of mode StartFirst


def _start_replacement(action: moves.StartReplacement, _: ReservationSettings) -> ReadThenCall:
    # The template is read from the API server, because the cache keeps only the fields that the rules need.
    key = ObjectKey(action.namespace, action.owner.name)
    return ReadThenCall(
        read=Call(verb=Verb.GET, kind=Kind(action.owner.kind), key=key),
        then=partial(_from_the_owners_template, action),
        purpose=f"POST its template as pod {action.name} on node {action.node} if its uid is {action.owner.uid}",
    )


def _from_the_owners_template(action: moves.StartReplacement, owner: bytes) -> Call:
    found = _OWNER.decode(owner)
    if found.metadata.uid != action.owner.uid:
        raise ConflictError(
            409, "Conflict", f"{action.owner.kind} {action.owner.name} was deleted and created again"
        )
    key = ObjectKey(action.namespace, action.name)
    body = replacement_manifest(
        found.spec.template,
        key=key,
        migration=action.migration,
        labels=dict(action.labels),
        says=action.replaces,
        node=action.node,
    )
    return _create(Kind.POD, key, _encode(body), on_error=OnError.RETURN_REFUSAL)


def _label_replacement(action: moves.LabelReplacement, _: ReservationSettings) -> Call:
    return _merge_patch(
        Kind.POD, action.pod, {"metadata": {"uid": action.uid, "labels": dict(action.labels)}}
    )


def _measure_watch(action: moves.MeasureWatch, _: ReservationSettings) -> Call:
    noted = {names.ANNOTATION_SEEN: f"{action.at_s:.3f}"}
    body, refused = _encode({"metadata": {"uid": action.uid, "annotations": noted}}), OnError.RETURN_REFUSAL
    return Call(verb=Verb.MERGE_PATCH, kind=Kind.POD, key=action.pod, body=body, on_error=refused)


def _remove_replacement(action: moves.RemoveReplacement, _: ReservationSettings) -> Call:
    return _delete(Kind.POD, action.pod, action.uid)


CALLS: Final[Mapping[type[Action], Callable[[Any, ReservationSettings], Operation]]] = {
    rooms.TryTemplate: _try_template,
    rooms.CreatePlaceholder: _create_placeholder,
    rooms.DeletePlaceholder: _delete_placeholder,
    rooms.RemovePlaceholder: _remove_placeholder,
    rooms.AdmitPlaceholder: _admit_placeholder,
    rooms.CreateKoordinatorReservation: _create_koordinator_reservation,
    rooms.DeleteKoordinatorReservation: _delete_koordinator_reservation,
    rooms.Nominate: _nominate,
    rooms.TakeBackNomination: _take_back_nomination,
    rooms.Ungate: _ungate,
    rooms.Tolerate: _tolerate,
    rooms.ReleasePod: _release_pod,
    rooms.Steer: _steer,
    rooms.Unsteer: _unsteer,
    rooms.TaintNode: node_calls.taint_node,
    rooms.UntaintNode: node_calls.untaint_node,
    rooms.WriteReservationStatus: _write_reservation_status,
    rooms.DeleteReservation: _delete_reservation,
    rooms.RecordEvent: _record_event,
    room_sets.CreateRoom: _create_room,
    room_sets.WriteWindowStatus: _write_window_status,
    room_sets.WriteHeadRoomStatus: _write_head_room_status,
    moves.WriteAvoidHints: node_calls.write_avoid_hints,
    moves.KeepNodeEmpty: node_calls.keep_node_empty,
    moves.GiveNodeBack: node_calls.give_node_back,
    moves.CreateReservation: _create_reservation,
    moves.AdoptPod: _adopt_pod,
    moves.WriteMigrationStatus: _write_migration_status,
    moves.DeleteMigration: _delete_migration,
    moves.ProveGate: _prove_gate,
    moves.DryRunCreate: _dry_run_create,
    moves.DryRunEvict: _dry_run_evict,
    moves.Evict: _evict,
    moves.StartReplacement: _start_replacement,
    moves.LabelReplacement: _label_replacement,
    moves.MeasureWatch: _measure_watch,
    moves.RemoveReplacement: _remove_replacement,
}
"""A row for each action; a test compares it with the union of all actions."""


def set_keys(
    config_map: ObjectKey,
    version: str,
    add: Mapping[str, str],
    remove: Iterable[str],
    *,
    valid_until_s: float = 0.0,
) -> Call:
    """Set and remove single keys of that version of the ConfigMap; all keys are valid until then (0: no limit is set)."""
    metadata = {"resourceVersion": version, **_valid_until(valid_until_s)}
    patch = {"metadata": metadata, "data": {**add, **dict.fromkeys(remove)}}
    return _merge_patch(Kind.CONFIG_MAP, config_map, patch)


def create_config_map(config_map: ObjectKey, data: Mapping[str, str], *, valid_until_s: float = 0.0) -> Call:
    """Create the ConfigMap again if that of the manifests was deleted."""
    name = {"namespace": config_map.namespace, "name": config_map.name}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**name, **_valid_until(valid_until_s)},
        "data": dict(data),
    }
    return Call(verb=Verb.CREATE, kind=Kind.CONFIG_MAP, key=config_map, body=_encode(body))


def _valid_until(seconds: float) -> Json:
    return {"annotations": {names.ANNOTATION_VALID_UNTIL: format_seconds(seconds)}} if seconds else {}


# What several rows have in common


def _create(kind: Kind, key: ObjectKey, body: bytes, *, on_error: OnError = OnError.RAISE) -> Call:
    return Call(
        verb=Verb.CREATE, kind=kind, key=key, body=body, on_error=on_error | OnError.IGNORE_ALREADY_EXISTS
    )


def _merge_patch(kind: Kind, key: ObjectKey, patch: Json, *, subresource: str = "") -> Call:
    return Call(verb=Verb.MERGE_PATCH, kind=kind, key=key, subresource=subresource, body=_encode(patch))


def _strategic_patch(pod: ObjectKey, patch: Json, *, on_error: OnError = OnError.RAISE) -> Call:
    return Call(verb=Verb.STRATEGIC_PATCH, kind=Kind.POD, key=pod, body=_encode(patch), on_error=on_error)


def _replace_status(kind: Kind, key: ObjectKey, uid: str, version: str, status: Mapping[str, Any]) -> Call:
    """The object with nothing but its identity, its version (compare and swap) and the whole status."""
    metadata = {"name": key.name, "uid": uid, "resourceVersion": version}
    if key.namespace:
        metadata["namespace"] = key.namespace
    body = {"apiVersion": names.API_VERSION, "kind": kind.value, "metadata": metadata, "status": dict(status)}
    return Call(verb=Verb.REPLACE, kind=kind, key=key, subresource="status", body=_encode(body))


def _delete(
    kind: Kind, key: ObjectKey, uid: str, *, resource_version: str = "", grace_s: int | None = None
) -> Call:
    return Call(
        verb=Verb.DELETE,
        kind=kind,
        key=key,
        uid=uid,
        resource_version=resource_version,
        grace_s=grace_s,
        on_error=OnError.IGNORE_NOT_FOUND,
    )


def _encode(body: Json) -> bytes:
    return msgspec.json.encode(body)


class _ReadMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str = ""


class _ReadStatus(msgspec.Struct, rename="camel", frozen=True):
    nominated_node_name: str | None = ""


class _Read(msgspec.Struct):
    """The fields of a pod that is read right before a call."""

    metadata: _ReadMeta
    status: _ReadStatus = _ReadStatus()


class _WithTemplate(msgspec.Struct):
    template: Json


class _Owner(msgspec.Struct):
    """A controller of pods, of which only uid and template are read."""

    metadata: _ReadMeta
    spec: _WithTemplate


# Made at import: the first use of a decoder is not safe from two threads.
_READ: Final = msgspec.json.Decoder(_Read)
_OWNER: Final = msgspec.json.Decoder(_Owner)
