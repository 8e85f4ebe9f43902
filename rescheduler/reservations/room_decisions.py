"""What a decision writes for a room that others make: who steps aside, and for a pending pod the Reservation itself. Pure.

The controller decides who steps aside; the moves are PodMigrations, which evict nobody before the placeholder is nominated to
the node (``coordination.waiting_room``). How the Reservation waits: ``preallocation``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rescheduler.model import names
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.records import Pod
from rescheduler.model.reservation import MakingRoom, ObjectRef, Reservation, ReservationOwner
from rescheduler.model.room_of_move import digest
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.placeholder import slug
from rescheduler.reservations.template import template_of


def making_room(reservation: Reservation, node: str, moves: int, decided_at_s: float) -> MakingRoom:
    """What a decision writes into its status. ``moves``: how many pods are moved for it."""
    attempt = digest(f"{reservation.uid}/{decided_at_s:.3f}")
    return MakingRoom(node=node, moves=moves, attempt=attempt, since_s=decided_at_s)


def pending_room_name(pod: str, uid: str, decided_at_s: float) -> str:
    """Deterministic for one decision; a later try for the same pod has another name."""
    return f"{slug(pod, 'pod')}-{digest(f'{uid}/{decided_at_s:.3f}')}{names.PENDING_SUFFIX}"


def pending_room_manifest(name: str, pod: Pod, node: str, *, moves: int, ttl_s: float) -> dict[str, Any]:
    """A Reservation that stands before anybody is evicted for the pod. ``moves``: how many pods are moved for it.

    It is preallocated: its placeholder is nominated to the node, so whatever becomes free there stays free for the pod. The pod
    owns it by uid, and is handed the room as every pending owner is (``reservations.pending_claimant``).
    """
    notes = {names.ANNOTATION_PENDING_POD: str(pod.key), names.ANNOTATION_PENDING_POD_MOVES: str(moves)}
    return manifest(
        Reservation(
            name=name,
            template_raw=msgspec.json.encode(template_of(pod.namespace, pod.spec, (), node)),
            owners=(ReservationOwner(object=ObjectRef(pod.namespace, pod.name, pod.uid)),),
            ttl_s=ttl_s,
            pre_allocation=True,
            labels=LabelSet({names.LABEL_CREATED_BY: names.CREATED_BY}),
            annotations=LabelSet(notes),
        )
    )
