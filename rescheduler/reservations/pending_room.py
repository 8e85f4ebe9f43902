"""The Reservation of a pending pod for which others step aside: it stands before anybody is evicted (pure).

It is preallocated: its placeholder is nominated to the node, so whatever becomes free there stays free for the pod. The pod
owns it by uid, and is handed the room as every pending owner is (``reservations.pending_claimant``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from rescheduler.model import names
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationOwner
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.naming import digest, slug
from rescheduler.reservations.template import template_of


def pending_room_name(pod: str, uid: str, decided_at_s: float) -> str:
    """Deterministic for one decision; a later try for the same pod has another name."""
    return f"{slug(pod, 'pod')}-{digest(f'{uid}/{decided_at_s:.3f}')}{names.PENDING_SUFFIX}"


def pending_room_manifest(name: str, pod: Pod, node: str, *, moves: int, ttl_s: float) -> dict[str, Any]:
    """``moves``: how many pods are moved for it."""
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
