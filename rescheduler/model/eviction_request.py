"""What is read of an Eviction of ``lifecycle.k8s.io`` (KEP-4563): whose pod it is about, and how far our responder is. Types only.

It is no part of a Snapshot: the API is alpha, and what it says must never keep a decision waiting.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec
from msgspec import field

from rescheduler.model.names import RESPONDER
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import Namespaced, ObjectKey
from rescheduler.model.times import Moment

_ENDS: Final = ("TargetEvicted", "Failed")


class ResponderState(enum.StrEnum):
    """status.targetResponders[].state."""

    INACTIVE = "Inactive"
    ACTIVE = "Active"
    INTERRUPTED = "Interrupted"
    CANCELED = "Canceled"
    COMPLETED = "Completed"


class Requester(msgspec.Struct, frozen=True, gc=False):
    """status.requesters[]."""

    name: str = ""
    intent: str = ""


class ResponderTurn(msgspec.Struct, frozen=True, gc=False):
    """status.targetResponders[]."""

    name: str = ""
    state: str = ""


class Progress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a responder has reported (status.responders[]). Times are whole seconds since the epoch; 0.0: not yet."""

    name: str = RESPONDER
    started_at_s: Moment = field(default=0.0, name="startTime")
    heartbeat_at_s: Moment = field(default=0.0, name="heartbeatTime")
    expected_at_s: Moment = field(default=0.0, name="expectedCompletionTime")
    completed_at_s: Moment = field(default=0.0, name="completionTime")
    message: str = ""


_NOTHING: Final = Progress()


class RequestedEviction(Namespaced, frozen=True, gc=False, kw_only=True):
    """An Eviction of ``lifecycle.k8s.io``; not the ``policy/v1`` Eviction that is posted to a pod."""

    uid: str
    resource_version: str = ""
    pod_name: str = field(default="", name="spec.target.pod.name")
    """Empty: its target is no pod."""
    pod_uid: str = field(default="", name="spec.target.pod.uid")
    asked_by: tuple[Requester, ...] = field(default=(), name="status.requesters")
    turns: tuple[ResponderTurn, ...] = field(default=(), name="status.targetResponders")
    reports: tuple[Progress, ...] = field(default=(), name="status.responders")
    conditions: tuple[Condition, ...] = field(default=(), name="status.conditions")

    @property
    def requesters(self) -> tuple[str, ...]:
        """Those who want the eviction now."""
        return tuple(one.name for one in self.asked_by if one.name and one.intent == "Eviction")

    @property
    def state(self) -> str:
        """Of our responder; "": it is none of this target's."""
        return next((one.state for one in self.turns if one.name == RESPONDER), "")

    @property
    def progress(self) -> Progress:
        """Of our responder."""
        return next((one for one in self.reports if one.name == RESPONDER), _NOTHING)

    @property
    def active(self) -> str:
        """The responder whose turn it is."""
        return next((one.name for one in self.turns if one.state == ResponderState.ACTIVE), "")

    @property
    def active_message(self) -> str:
        """What that one has reported."""
        return next((one.message for one in self.reports if one.name == self.active), "")

    @property
    def ended(self) -> bool:
        """Condition TargetEvicted or Failed: nobody acts on it any more."""
        return any(one.type in _ENDS and one.status == "True" for one in self.conditions)

    @property
    def pod(self) -> ObjectKey:
        """The pod that is to leave."""
        return ObjectKey(self.namespace, self.pod_name)
