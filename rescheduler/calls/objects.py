"""The calls about our own objects: Reservations, PodMigrations, windows and head-rooms, ConfigMaps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from rescheduler.calls.call import (
    Call,
    Json,
    Seen,
    Status,
    Verb,
    create,
    delete,
    encode,
    merge_patch,
)
from rescheduler.errors import TransitionError
from rescheduler.model import names
from rescheduler.model.decode.wire_form import with_status
from rescheduler.model.event import Event, about
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationStatus, PodMigration
from rescheduler.model.own_objects import with_readable
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.times import format_seconds


def write_status(seen: Seen, status: Status) -> Call:
    """Write the status if the object is still as it was seen (compare and swap): of two claims or intents only one is stored."""
    key = seen.key if isinstance(seen, PodMigration) else ObjectKey("", seen.name)
    return Call(
        does="write_status",
        verb=Verb.REPLACE,
        kind=Kind(type(seen).__name__),
        key=key,
        subresource="status",
        body=encode(with_status(seen, status)),
        lane=key.namespace,
        seen=seen,
        status=status,
    )


def create_reservation(name: str, body: bytes) -> Call:
    """``body``: the Reservation as JSON. Its name comes from the uid of what it is for."""
    return create("create_reservation", Kind.RESERVATION, ObjectKey("", name), body)


def delete_reservation(seen: Reservation, *, unchanged: bool = False, why: str = "") -> Call:
    """Delete it. ``unchanged``: only if it is still as it was seen, so that one that was claimed in the meantime is not hit."""
    version = seen.resource_version if unchanged else ""
    key = ObjectKey("", seen.name)
    return delete(
        "delete_reservation", Kind.RESERVATION, key, seen.uid, resource_version=version, seen=seen, why=why
    )


def adopt_pod(migration: PodMigration, pod_uid: str) -> Call:
    """Fill in ``spec.podRef.uid``: from now on the move is of the pod with this uid only."""
    seen = {"uid": migration.uid, "resourceVersion": migration.resource_version}
    patch = {"metadata": seen, "spec": {"podRef": {"uid": pod_uid}}}
    return merge_patch("adopt_pod", Kind.POD_MIGRATION, migration.key, patch, lane=migration.namespace)


def delete_migration(migration: PodMigration) -> Call:
    """Delete a PodMigration that has ended."""
    key = migration.key
    return delete("delete_migration", Kind.POD_MIGRATION, key, migration.uid, lane=key.namespace)


StatusT = TypeVar("StatusT", ReservationStatus, MigrationStatus)


def unreadable(seen: Seen, status: StatusT, now_s: float) -> tuple[StatusT, tuple[Call | Event, ...]]:
    """What is done for an object that cannot be read in full: it stays as it is, with what it holds, and its author is told.

    Raises:
        TransitionError: its status cannot be read, so nothing can be told there.
    """
    if seen.status_unreadable:
        raise TransitionError(seen.unreadable)
    conditions = with_readable(status.conditions, seen.unreadable, now_s)
    if conditions == status.conditions:
        return status, ()
    told = msgspec.structs.replace(status, conditions=conditions)
    text = f"no step is taken, and what it holds stays held, until these fields are mended: {seen.unreadable}"
    return told, (write_status(seen, told), Event(about(seen), "Damaged", text, warning=True))


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
    return merge_patch("set_keys", Kind.CONFIG_MAP, config_map, patch)


def create_config_map(config_map: ObjectKey, data: Mapping[str, str], *, valid_until_s: float = 0.0) -> Call:
    """Create the ConfigMap again if that of the manifests was deleted."""
    name = {"namespace": config_map.namespace, "name": config_map.name}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**name, **_valid_until(valid_until_s)},
        "data": dict(data),
    }
    does, kind = "create_config_map", Kind.CONFIG_MAP
    return Call(does=does, verb=Verb.CREATE, kind=kind, key=config_map, body=encode(body))


def _valid_until(seconds: float) -> Json:
    return {"annotations": {names.ANNOTATION_VALID_UNTIL: format_seconds(seconds)}} if seconds else {}
