"""Which changes are worth a new decision before the timer, and which a round of the moves under way.

Decisions: those that make or cure bad placement. Rounds: those in which anything changed that we know of at
all. Heartbeats and status updates are neither; a controller that wakes for every event never sleeps.
"""

from __future__ import annotations

import msgspec

from rescheduler.model.cluster import Change
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import Node, Pod
from rescheduler.reservations.scheduler_probe import is_probe

_HEARTBEATS = (Kind.POD, Kind.NODE)


def concerns_moves(kind: Kind, change: Change) -> bool:
    """True if a move under way could go on because of the change: anything but a new version of the same."""
    before, after = change.before, change.after
    if kind not in _HEARTBEATS or before is None or after is None:
        return True
    version = getattr(after, "resource_version", "")
    return msgspec.structs.replace(before, resource_version=version) != after


def matters(kind: Kind, change: Change) -> bool:
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
    """A pod that the scheduler finds no room for."""
    if not isinstance(after, Pod) or not after.unschedulable_message or is_probe(after):
        return False
    return not isinstance(before, Pod) or not before.unschedulable_message


def _migration(before: object, after: object) -> bool:
    """A move that ended makes room for the next one."""
    if not isinstance(after, PodMigration):
        return False
    over = after.status.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
    return over and isinstance(before, PodMigration) and before.status.phase != after.status.phase
