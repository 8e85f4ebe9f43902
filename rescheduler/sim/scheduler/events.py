"""Which change of an object may help which refused pod. Pure."""

from __future__ import annotations

from rescheduler.model.records import Node, Pod
from rescheduler.sim.scheduler.queue import Wake


def wake_of_node(old: Node | None, new: Node | None) -> Wake | None:
    """A node came, or changed in what filters look at."""
    if new is None:
        return None
    if old is None:
        return Wake.NODE_ADDED
    changed = (
        old.labels != new.labels
        or old.taints != new.taints
        or old.unschedulable != new.unschedulable
        or old.allocatable != new.allocatable
        or old.declared_features != new.declared_features
    )
    return Wake.NODE_CHANGED if changed else None


def wake_of_pod(old: Pod | None, new: Pod | None) -> Wake | None:
    """A pod took, gave back or changed what it holds; the end of a nomination frees room as well."""
    if old is not None and _holds(old) and (new is None or not _holds(new)):
        return Wake.POD_GONE
    if old is not None and old.nominated_node and (new is None or _gives_up(old, new)):
        return Wake.POD_GONE
    if new is None or not _holds(new):
        return None
    if old is None or not old.node:
        return Wake.POD_BOUND
    changed = old.held != new.held or old.labels != new.labels or old.deleting != new.deleting
    return Wake.POD_CHANGED if changed else None


def _holds(pod: Pod) -> bool:
    return bool(pod.node) and not pod.terminal


def _gives_up(old: Pod, new: Pod) -> bool:
    return not new.node and new.nominated_node != old.nominated_node
