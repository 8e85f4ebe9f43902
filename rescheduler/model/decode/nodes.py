"""Decodes nodes, namespaces and device classes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec import Raw

from rescheduler.model.decode.interning import SharedParts, created_at
from rescheduler.model.decode.wire_types import ConditionWire, MetaWire, ObjectWire, ResourceList, Time, Wire
from rescheduler.model.kept_empty import parse_kept_empty
from rescheduler.model.names import (
    ANNOTATION_AVOID,
    ANNOTATION_KEPT_EMPTY,
    DO_NOT_DISRUPT,
    SCALE_DOWN_DISABLED,
)
from rescheduler.model.node_status import AvoidEntry, NodeCondition
from rescheduler.model.records import Node, Taint
from rescheduler.model.resources import bounded, parse_resources

_MOST_AVOID_ENTRIES = 1000
_MOST_CONDITIONS = 100


class AvoidWire(Wire):
    """One hint of the annotation. Releases before 0.2.0 wrote ``expiresAtS``, seconds since 1970."""

    controller_kind: str
    controller_name: str
    controller_uid: str
    namespace: str
    reason: str
    until: Time | None = None
    expires_at_s: float = 0.0


_decode_avoid = msgspec.json.Decoder(list[AvoidWire]).decode


class TaintWire(Wire):
    """v1.Taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: Time | None = None


class NodeSpecWire(Wire):
    """v1.NodeSpec."""

    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class NodeStatusWire(Wire):
    """v1.NodeStatus."""

    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    conditions: list[ConditionWire] | None = None
    images: list[Raw] | None = None
    declared_features: list[str] | None = None


class NodeWire(ObjectWire):
    """v1.Node."""

    spec: NodeSpecWire | None = None
    status: NodeStatusWire | None = None


def node(wire: NodeWire, meta: MetaWire, shared: SharedParts) -> Node:
    """The record of a node. A missing allocatable is the capacity, as the API server defaults it."""
    spec, status = wire.spec or NodeSpecWire(), wire.status or NodeStatusWire()
    annotations = meta.annotations or {}
    allocatable = status.capacity if status.allocatable is None else status.allocatable
    return Node(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels=shared.labels(meta.labels),
        taints=tuple(Taint(t.key or "", t.value or "", t.effect or "") for t in spec.taints or ()),
        taints_added_s=_added(spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        ready=_ready(status.conditions),
        conditions=_conditions(status.conditions),
        allocatable=bounded(parse_resources(allocatable)),
        images=shared.images(status.images),
        declared_features=tuple(sorted(status.declared_features or ())),
        avoid=_avoid(annotations.get(ANNOTATION_AVOID)),
        do_not_disrupt=annotations.get(DO_NOT_DISRUPT) == "true",
        scale_down_disabled=annotations.get(SCALE_DOWN_DISABLED) == "true",
        kept_empty=parse_kept_empty(annotations.get(ANNOTATION_KEPT_EMPTY)),
        has_annotations=bool(annotations),
        deleting=meta.deletion_timestamp is not None,
        created_at_s=created_at(meta),
    )


def _added(taints: Iterable[TaintWire]) -> tuple[float, ...]:
    times = tuple(t.time_added.timestamp() if t.time_added is not None else 0.0 for t in taints)
    return times if any(times) else ()


def _ready(conditions: Iterable[ConditionWire] | None) -> bool:
    """The Ready condition; a node that has none yet, as in a hand-written dump, counts as ready."""
    return all(c.status == "True" for c in conditions or () if c.type == "Ready")


def _conditions(conditions: Iterable[ConditionWire] | None) -> tuple[NodeCondition, ...]:
    """Those besides Ready; a node that was given thousands of them has the first hundred."""
    others = (c for c in conditions or () if c.type and c.type != "Ready" and c.status)
    return tuple(
        NodeCondition(
            sys.intern(c.type or ""),
            sys.intern(c.status or ""),
            c.last_transition_time.timestamp() if c.last_transition_time else 0.0,
        )
        for c in islice(others, _MOST_CONDITIONS)
    )


def _avoid(text: str | None) -> tuple[AvoidEntry, ...]:
    """Hints of the annotation, which anybody may write: a malformed value means no hints and never fails the node."""
    if not text:
        return ()
    try:
        found = _decode_avoid(text)[:_MOST_AVOID_ENTRIES]
    except msgspec.DecodeError:
        return ()
    return tuple(
        AvoidEntry(
            controller_kind=one.controller_kind,
            controller_name=one.controller_name,
            controller_uid=one.controller_uid,
            namespace=one.namespace,
            reason=one.reason,
            expires_at_s=one.until.timestamp() if one.until is not None else one.expires_at_s,
        )
        for one in found
    )
