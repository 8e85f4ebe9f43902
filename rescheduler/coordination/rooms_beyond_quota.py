"""Collects what the quotas count of each room: the move that it is for, and the pod that it gives room back for. No decisions."""

from __future__ import annotations

from collections.abc import Mapping

from rescheduler.coordination.index import RoundIndex
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ObjectRef
from rescheduler.reservations.observed import LinkedMigration
from rescheduler.reservations.quota import Quota, RoomOfMove, beyond_quota


def rooms_beyond_quota(
    index: RoundIndex, links: Mapping[str, LinkedMigration], quotas: Mapping[str, Quota]
) -> dict[str, str]:
    """Pending Reservations that must wait until others have ended, by name, with the message."""
    snapshot = index.snapshot
    defaults = [found for found in snapshot.priority_classes.values() if found.default]
    moves = {name: _room(index, link) for name, link in links.items() if link.created}
    return beyond_quota(
        snapshot.reservations.values(),
        quotas,
        tuple(snapshot.resource_quotas.values()),
        moves,
        min(defaults, key=lambda found: (found.value, found.name)).name if defaults else "",
    )


def _room(index: RoundIndex, link: LinkedMigration) -> RoomOfMove:
    namespace, _, _ = link.key.partition("/")
    if link.pod_uid:
        pod = index.pod(ObjectRef(namespace, link.pod_name, link.pod_uid))
    else:
        pod = index.snapshot.pods.get(ObjectKey(namespace, link.pod_name))
    stands = pod is not None and not pod.terminal
    spec = pod.spec if pod is not None and stands else None
    return RoomOfMove(link.requested, spec.requests if spec is not None else None, spec)
