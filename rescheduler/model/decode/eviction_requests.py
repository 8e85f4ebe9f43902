"""Decodes Evictions of ``lifecycle.k8s.io``."""

from __future__ import annotations

import datetime as dt
from typing import Final

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_types import ConditionWire, MetaWire, ObjectWire, Time, Wire
from rescheduler.model.eviction_request import Progress, RequestedEviction, ResponderState
from rescheduler.model.names import RESPONDER

_ENDS: Final = ("TargetEvicted", "Failed")


class PodReferenceWire(Wire):
    """spec.target.pod."""

    name: str | None = None
    uid: str | None = None


class TargetWire(Wire):
    """spec.target."""

    pod: PodReferenceWire | None = None


class EvictionSpecWire(Wire):
    """lifecycle.k8s.io EvictionSpec."""

    target: TargetWire | None = None


class RequesterWire(Wire):
    """status.requesters."""

    name: str | None = None
    intent: str | None = None


class TargetResponderWire(Wire):
    """status.targetResponders."""

    name: str | None = None
    state: str | None = None


class ResponderStatusWire(Wire):
    """status.responders."""

    name: str | None = None
    start_time: Time | None = None
    heartbeat_time: Time | None = None
    expected_completion_time: Time | None = None
    completion_time: Time | None = None
    message: str | None = None


class EvictionStatusWire(Wire):
    """lifecycle.k8s.io EvictionStatus."""

    requesters: list[RequesterWire] | None = None
    target_responders: list[TargetResponderWire] | None = None
    responders: list[ResponderStatusWire] | None = None
    conditions: list[ConditionWire] | None = None


class RequestedEvictionWire(ObjectWire):
    """lifecycle.k8s.io Eviction."""

    spec: EvictionSpecWire | None = None
    status: EvictionStatusWire | None = None


def requested_eviction(wire: RequestedEvictionWire, meta: MetaWire, shared: SharedParts) -> RequestedEviction:
    """The record of an Eviction."""
    del shared
    status = wire.status or EvictionStatusWire()
    target = wire.spec.target if wire.spec is not None else None
    pod = (target.pod if target is not None else None) or PodReferenceWire()
    states = (one.state for one in status.target_responders or () if one.name == RESPONDER)
    active = [one.name or "" for one in status.target_responders or () if one.state == ResponderState.ACTIVE]
    reports = (_progress(one) for one in status.responders or () if one.name == RESPONDER)
    return RequestedEviction(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        pod_name=pod.name or "",
        pod_uid=pod.uid or "",
        requesters=tuple(
            one.name for one in status.requesters or () if one.name and one.intent == "Eviction"
        ),
        state=next(states, None) or "",
        progress=next(reports, Progress()),
        active="".join(active[:1]),
        active_message=next((one.message or "" for one in status.responders or () if one.name in active), ""),
        ended=any(one.type in _ENDS and one.status == "True" for one in status.conditions or ()),
    )


def _progress(wire: ResponderStatusWire) -> Progress:
    return Progress(
        started_at_s=_seconds(wire.start_time),
        heartbeat_at_s=_seconds(wire.heartbeat_time),
        expected_at_s=_seconds(wire.expected_completion_time),
        completed_at_s=_seconds(wire.completion_time),
        message=wire.message or "",
    )


def _seconds(moment: dt.datetime | None) -> float:
    return moment.timestamp() if moment is not None else 0.0
