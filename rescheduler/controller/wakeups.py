"""Which changes bring the next decision forward, and which start a round of reconciliation.

A decision: changes that create or remove bad placement. A round: changes in any field that the records have. Heartbeats
and other updates start neither: in a large cluster there is always one.
"""

from __future__ import annotations

import msgspec

from rescheduler.model.cluster import RecordChange
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import Node, Pod
from rescheduler.reservations.node_request import holds_nothing

_HEARTBEATS = (Kind.POD, Kind.NODE)


def concerns_moves(kind: Kind, change: RecordChange) -> bool:
    """True if a move in flight could go on because of the change: more than the resource version has changed."""
    before, after = change.before, change.after
    if kind not in _HEARTBEATS or before is None or after is None:
        return True
    version = getattr(after, "resource_version", "")
    return msgspec.structs.replace(before, resource_version=version) != after


def matters(kind: Kind, change: RecordChange) -> bool:
    """True if the change should bring the next decision forward."""
    before, after = change.before, change.after
    if kind is Kind.NODE:
        return _node(before, after)
    if kind is Kind.POD:
        return _pod(before, after)
    if kind is Kind.POD_MIGRATION:
        return _migration(before, after)
    return False


def _node(before: object, after: object) -> bool:
    if not isinstance(before, Node) or not isinstance(after, Node):
        return True
    return _placing(before) != _placing(after)


def _placing(node: Node) -> tuple[object, ...]:
    return node.labels, node.taints, node.unschedulable, node.ready, node.allocatable, node.deleting


def _pod(before: object, after: object) -> bool:
    """True if the scheduler has just refused the pod."""
    if not isinstance(after, Pod) or not after.unschedulable_message or holds_nothing(after):
        return False
    return not isinstance(before, Pod) or not before.unschedulable_message


def _migration(before: object, after: object) -> bool:
    """True if the move has just ended: the limits may allow the next one."""
    if not isinstance(after, PodMigration):
        return False
    over = after.status.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
    return over and isinstance(before, PodMigration) and before.status.phase != after.status.phase
