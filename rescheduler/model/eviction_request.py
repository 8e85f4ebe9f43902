"""What is read of an Eviction of ``lifecycle.k8s.io`` (KEP-4563): whose pod it is about, and how far our responder is. Types only.

It is no part of a Snapshot: the API is alpha, and what it says must never keep a decision waiting.
"""

from __future__ import annotations

import enum

import msgspec

from rescheduler.model.records import Namespaced, ObjectKey


class ResponderState(enum.StrEnum):
    """status.targetResponders[].state."""

    INACTIVE = "Inactive"
    ACTIVE = "Active"
    INTERRUPTED = "Interrupted"
    CANCELED = "Canceled"
    COMPLETED = "Completed"


class Progress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a responder has reported. Times are whole seconds since the epoch; 0.0: not yet."""

    started_at_s: float = 0.0
    heartbeat_at_s: float = 0.0
    expected_at_s: float = 0.0
    completed_at_s: float = 0.0
    message: str = ""


class RequestedEviction(Namespaced, frozen=True, gc=False, kw_only=True):
    """An Eviction of ``lifecycle.k8s.io``; not the ``policy/v1`` Eviction that is posted to a pod."""

    uid: str
    resource_version: str = ""
    pod_name: str = ""
    """Empty: its target is no pod."""
    pod_uid: str = ""
    requesters: tuple[str, ...] = ()
    """Those who want the eviction now."""
    state: str = ""
    """Of our responder; "": it is none of this target's."""
    progress: Progress = Progress()
    """Of our responder."""
    active: str = ""
    """The responder whose turn it is."""
    active_message: str = ""
    """What that one has reported."""
    ended: bool = False
    """Condition TargetEvicted or Failed: nobody acts on it any more."""

    @property
    def pod(self) -> ObjectKey:
        """The pod that is to leave."""
        return ObjectKey(self.namespace, self.pod_name)
