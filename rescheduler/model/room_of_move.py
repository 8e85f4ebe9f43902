"""Which Reservation a PodMigration may use: by uid in both directions, never by name alone (pure).

Names can be computed or named by anybody. What counts is who wrote the link: annotations of a Reservation that admission
reserves for the controller, and the status of the PodMigration, which only the controller may write.

Objects of the layout before versions (``model.own_objects``) lack the uids. They are linked as that version linked them: by the
annotation of the Reservation, and by the name in the status of the PodMigration. That name contains a digest of the move's uid
in every version, so no time is compared: the clocks of API servers are set back, and differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_MIGRATION, ANNOTATION_MIGRATION_UID
from rescheduler.model.records import ObjectKey, OwnerRef
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot

_NAMES: Final = 4_096
"""Digests that are kept."""


def made_for(reservation: Reservation) -> str:
    """NAMESPACE/NAME of the PodMigration that the Reservation was made for; "" if it was made for none."""
    return reservation.annotations.get(ANNOTATION_MIGRATION) or ""


def key_of_move(reservation: Reservation) -> ObjectKey | None:
    """The key of the PodMigration that the Reservation was made for; None if it was made for none."""
    namespace, slash, name = made_for(reservation).partition("/")
    return ObjectKey(namespace, name) if slash else None


def refusal(migration: PodMigration, reservation: Reservation) -> str:
    """Why the move may not use the Reservation of the name that it looks for; "" if it may.

    A move that names a Reservation may use one that people made; any other move only the one that was made for it.
    """
    name, taken = reservation.name, migration.status.reservation_uid
    if taken and taken != reservation.uid:
        return f"Reservation {name} is not the one that the move took: it was deleted and made again"
    if migration.reservation_ref:
        other = made_for(reservation)
        return f"Reservation {name} was made for move {other}" if other else ""
    if _made_for_this(migration, reservation):
        return ""
    return (
        f"Reservation {name} was not made for this move by the controller: delete it, or move the pod again"
    )


def _made_for_this(migration: PodMigration, reservation: Reservation) -> bool:
    if made_for(reservation) != str(migration.key):
        return False
    uid = reservation.annotations.get(ANNOTATION_MIGRATION_UID)
    if uid:
        return uid == migration.uid
    # Made before there were uids: no other move has it in its status, and an earlier one of that name had another digest.
    digest = move_digest(migration.key, migration.uid)
    return migration.status.reservation_name == reservation.name and f"-{digest}" in reservation.name


def move_digest(migration: ObjectKey, uid: str) -> str:
    """Ten characters that the name of a move's own Reservation contains, in every version; other moves have others."""
    return digest(f"{uid}/{migration}")


@lru_cache(_NAMES)
def digest(text: str) -> str:
    """Ten characters that stand for ``text`` in names that are made of others."""
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def took_given_room(migration: PodMigration) -> bool:
    """True if the move took the Reservation that it names; without a uid in its status it did so before there were uids."""
    status = migration.status
    return bool(migration.reservation_ref and (status.reservation_uid or status.reserved_at_s))


def room_of_move(
    migration: PodMigration, reservations: Mapping[str, Reservation], name: str
) -> Reservation | None:
    """The Reservation ``name`` if the move may use it."""
    found = reservations.get(name)
    return found if found is not None and not refusal(migration, found) else None


def serves(reservation: Reservation, migration: PodMigration) -> bool:
    """True if the Reservation is for this move now.

    One that people made is so only once the move took it: until then whoever names it has no say in what becomes of it.
    """
    if migration.reservation_ref and not took_given_room(migration):
        return False
    return not refusal(migration, reservation)


def controller_of_move(migration: PodMigration, snapshot: Snapshot) -> OwnerRef | None:
    """The controller whose pod is moved, also after the pod is gone; None if that is not known.

    Always one of the move's own namespace: owners of a Reservation that people made may name controllers of others.
    """
    pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
    if pod is not None and migration.pod_uid in ("", pod.uid):
        return pod.controller
    reservation = snapshot.reservations.get(migration.status.reservation_name)
    if reservation is None or not serves(reservation, migration):
        return None
    owner = reservation.owner_controller
    if owner is None or made_for(reservation):
        return owner
    workload = snapshot.workloads.get(owner.uid)
    return owner if workload is not None and workload.namespace == migration.namespace else None
