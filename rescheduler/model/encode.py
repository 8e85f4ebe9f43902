"""Reservations and PodMigrations as JSON-ready objects for the API server.

The counterpart of ``decode.custom_resources``: an encoded object decodes to the same record. A status
is always written as a whole. Empty fields are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rescheduler.model.conditions import Condition
from rescheduler.model.layout import LAYOUT
from rescheduler.model.migration import MigrationStatus, MoveMode
from rescheduler.model.names import API_VERSION
from rescheduler.model.records import ObjectKey, Toleration
from rescheduler.model.reservation import (
    MakingRoom,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationStatus,
)
from rescheduler.model.resources import encode_resources
from rescheduler.model.room_sets import HeadRoomStatus, WindowStatus
from rescheduler.model.selectors import LabelSelector, Operator
from rescheduler.model.times import format_duration, format_seconds, format_timestamp

JsonObject = dict[str, Any]
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def encode_reservation_status(status: ReservationStatus) -> JsonObject:
    """``status`` of a Reservation."""
    return _without_empty(
        {
            "phase": status.phase.value,
            "layout": LAYOUT,
            "observedGeneration": status.observed_generation,
            "nodeName": status.node_name,
            "conditions": _conditions(status.conditions),
            "allocatable": encode_resources(status.allocatable),
            "allocated": encode_resources(status.allocated),
            "currentOwners": [_object_ref(owner) for owner in status.current_owners],
            "expires": None if status.expires_at_s is None else format_seconds(status.expires_at_s),
            "makingRoom": None if status.making_room is None else _making_room(status.making_room),
        }
    )


def encode_migration_status(status: MigrationStatus) -> JsonObject:
    """``status`` of a PodMigration; times with a fraction of a second."""
    return _without_empty(
        {
            "phase": status.phase.value,
            "layout": LAYOUT,
            "observedGeneration": status.observed_generation,
            "reason": status.reason,
            "message": status.message,
            "conditions": _conditions(status.conditions),
            "reservationName": status.reservation_name,
            "reservationUid": status.reservation_uid,
            "sourceNode": status.source_node,
            "nodeName": status.node_name,
            "mode": status.mode.value,
            "replacement": _object_ref(status.replacement) if status.replacement else None,
            "startedAt": _optional_timestamp(status.started_at_s),
            "reservedAt": _optional_timestamp(status.reserved_at_s),
            "evictionRequestedAt": _optional_timestamp(status.eviction_requested_at_s),
            "evictedAt": _optional_timestamp(status.evicted_at_s),
            "landedAt": _optional_timestamp(status.landed_at_s),
            "readyAt": _optional_timestamp(status.ready_at_s),
            "finishedAt": _optional_timestamp(status.finished_at_s),
        }
    )


def encode_window_status(status: WindowStatus) -> JsonObject:
    """``status`` of a ReservationWindow."""
    return _without_empty(
        {
            "phase": status.phase.value if status.phase is not None else None,
            "layout": LAYOUT,
            "observedGeneration": status.observed_generation,
            "start": _optional_seconds(status.start_s),
            "end": _optional_seconds(status.end_s),
            "gatherFrom": _optional_seconds(status.gather_from_s),
            "rooms": f"{status.gathered}/{status.wanted}",
            "wanted": status.wanted,
            "gathered": status.gathered,
            "placed": len(status.placed_pods),
            "placedPods": list(status.placed_pods),
            "nodes": list(status.nodes),
            "conditions": _conditions(status.conditions),
        }
    )


def encode_head_room_status(status: HeadRoomStatus) -> JsonObject:
    """``status`` of a HeadRoom."""
    return _without_empty(
        {
            "layout": LAYOUT,
            "observedGeneration": status.observed_generation,
            "rooms": f"{status.standing}/{status.wanted}",
            "wanted": status.wanted,
            "standing": status.standing,
            "nodes": list(status.nodes),
            "conditions": _conditions(status.conditions),
        }
    )


def reservation_manifest(
    name: str,
    *,
    template: Mapping[str, Any],
    owners: Sequence[ReservationOwner],
    ttl_s: float | None = None,
    expires_at_s: float | None = None,
    pre_allocation: bool = False,
    make_room: bool = False,
    allocate_once: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner_references: Sequence[Mapping[str, Any]] = (),
    finalizers: Sequence[str] = (),
) -> JsonObject:
    """A Reservation to create. ``template``: a PodTemplateSpec as JSON; ``ttl_s`` 0: it never expires."""
    spec: JsonObject = {
        "template": dict(template),
        "owners": [encode_owner(owner) for owner in owners],
        "allocateOnce": allocate_once,
    }
    if pre_allocation:
        spec["preAllocation"] = True
    if make_room:
        spec["makeRoom"] = True
    if ttl_s is not None:
        spec["ttl"] = format_duration(ttl_s)
    if expires_at_s is not None:
        spec["expires"] = format_seconds(expires_at_s)
    meta = _without_empty(
        {
            "name": name,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "ownerReferences": [dict(reference) for reference in owner_references],
            "finalizers": list(finalizers),
        }
    )
    return {"apiVersion": API_VERSION, "kind": "Reservation", "metadata": meta, "spec": spec}


def reservation_with_status(seen: Reservation, status: ReservationStatus) -> JsonObject:
    """To replace the status of a Reservation that is still as it was seen."""
    meta = {"name": seen.name, "uid": seen.uid, "resourceVersion": seen.resource_version}
    body = {"apiVersion": API_VERSION, "kind": "Reservation", "metadata": meta}
    return {**body, "status": encode_reservation_status(status)}


def migration_manifest(
    namespace: str,
    name: str,
    *,
    pod_name: str,
    pod_uid: str = "",
    target_node: str = "",
    mode: MoveMode = MoveMode.AUTO,
    ttl_s: float | None = None,
    paused: bool = False,
    reservation_ref: str = "",
    grace_s: int | None = None,
    reason: str = "",
    policy: str = "",
    after: Sequence[ObjectKey] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> JsonObject:
    """A PodMigration to create."""
    spec = _without_empty(
        {
            "podRef": _without_empty({"name": pod_name, "uid": pod_uid}),
            "target": {"nodeName": target_node} if target_node else None,
            "mode": mode.value,
            "ttl": None if ttl_s is None else format_duration(ttl_s),
            "paused": paused or None,
            "reservationRef": {"name": reservation_ref} if reservation_ref else None,
            "deleteOptions": None if grace_s is None else {"gracePeriodSeconds": grace_s},
            "reason": reason,
            "policy": policy,
            "after": [f"{key.namespace}/{key.name}" for key in after],
        }
    )
    meta = _without_empty(
        {
            "namespace": namespace,
            "name": name,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        }
    )
    return {"apiVersion": API_VERSION, "kind": "PodMigration", "metadata": meta, "spec": spec}


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and without what is empty, so that equal values have equal bytes."""
    return msgspec.json.encode(_filled(value), order="sorted")


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rest for key, entry in value.items() if (rest := _filled(entry)) not in _EMPTY}
    return [_filled(entry) for entry in value] if isinstance(value, list) else value


def encode_owner(owner: ReservationOwner) -> JsonObject:
    """One of ``spec.owners``."""
    encoded: JsonObject = {}
    if owner.object is not None:
        encoded["object"] = _object_ref(owner.object)
    if owner.controller is not None:
        controller = owner.controller
        encoded["controller"] = _without_empty(
            {
                "apiVersion": controller.api_version,
                "kind": controller.kind,
                "name": controller.name,
                "uid": controller.uid,
                "namespace": controller.namespace,
                "controller": True,
            }
        )
    if owner.label_selector is not None:
        encoded["labelSelector"] = encode_label_selector(owner.label_selector)
    return encoded


def encode_label_selector(selector: LabelSelector) -> JsonObject:
    """A metav1.LabelSelector. ``In`` with one value becomes a matchLabels entry, the first for each key."""
    labels: dict[str, str] = {}
    expressions: list[JsonObject] = []
    for requirement in selector.requirements:
        single = requirement.operator is Operator.IN and len(requirement.values) == 1
        if single and requirement.key not in labels:
            labels[requirement.key] = requirement.values[0]
            continue
        expressions.append(
            _without_empty(
                {
                    "key": requirement.key,
                    "operator": requirement.operator.value,
                    "values": list(requirement.values),
                }
            )
        )
    return _without_empty({"matchLabels": labels, "matchExpressions": expressions})


def _conditions(conditions: Sequence[Condition]) -> list[JsonObject]:
    return [msgspec.to_builtins(condition) for condition in conditions]


def encode_toleration(toleration: Toleration) -> JsonObject:
    """A toleration as the API writes it."""
    entry: JsonObject = {"operator": toleration.operator}
    for name, text in (
        ("key", toleration.key),
        ("value", toleration.value),
        ("effect", toleration.effect),
    ):
        if text:
            entry[name] = text
    if toleration.seconds is not None:
        entry["tolerationSeconds"] = toleration.seconds
    return entry


def _making_room(making: MakingRoom) -> JsonObject:
    return {
        "nodeName": making.node,
        "moves": making.moves,
        "attempt": making.attempt,
        "since": format_seconds(making.since_s),
    }


def _object_ref(reference: ObjectRef) -> JsonObject:
    return _without_empty({"namespace": reference.namespace, "name": reference.name, "uid": reference.uid})


def _optional_timestamp(seconds: float) -> str | None:
    return format_timestamp(seconds) if seconds else None


def _optional_seconds(seconds: float | None) -> str | None:
    return None if seconds is None else format_seconds(seconds)


def _without_empty(fields: JsonObject) -> JsonObject:
    """Without empty fields (None, "", empty lists and objects). Zero and false are kept."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}
