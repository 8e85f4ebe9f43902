"""Decodes ReservationWindows and HeadRooms."""

from __future__ import annotations

from msgspec import Raw

from rescheduler.model.decode.custom_resources import (
    ConditionTextWire,
    OwnerWire,
    conditions,
    optional_time,
    owner,
    read_template,
)
from rescheduler.model.decode.interning import SharedParts, created_at
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.wire_types import ABSENT, MetaWire, ObjectWire, ResourceList, Wire
from rescheduler.model.layout import check_layout
from rescheduler.model.resources import parse_resources
from rescheduler.model.room_sets import (
    HeadRoom,
    HeadRoomStatus,
    ReservationWindow,
    WindowPhase,
    WindowStatus,
    YieldTo,
)
from rescheduler.model.times import parse_duration


class WindowSpecWire(Wire):
    """spec of a ReservationWindow."""

    cron: str | None = None
    time_zone: str | None = None
    duration: str | None = None
    end: str | None = None
    start_reserve_ago: str | None = None
    suspend: bool | None = None
    make_room: bool | None = None
    pod_num_to_reserve: int | None = None
    resources: ResourceList | None = None
    node_selector: dict[str, str | None] | None = None
    template: Raw = ABSENT
    owners: list[OwnerWire] | None = None


class WindowStatusWire(Wire):
    """status of a ReservationWindow."""

    phase: str | None = None
    layout: int | None = None
    observed_generation: int | None = None
    start: str | None = None
    end: str | None = None
    gather_from: str | None = None
    wanted: int | None = None
    gathered: int | None = None
    placed_pods: list[str] | None = None
    nodes: list[str] | None = None
    conditions: list[ConditionTextWire] | None = None


class WindowWire(ObjectWire):
    """rescheduler.dev/v1alpha1 ReservationWindow."""

    spec: WindowSpecWire | None = None
    status: WindowStatusWire | None = None


class HeadRoomSpecWire(Wire):
    """spec of a HeadRoom."""

    rooms: int | None = None
    spread_over: str | None = None
    yield_to: str | None = None
    make_room: bool | None = None
    node_selector: dict[str, str | None] | None = None
    template: Raw = ABSENT
    owners: list[OwnerWire] | None = None


class HeadRoomStatusWire(Wire):
    """status of a HeadRoom."""

    layout: int | None = None
    observed_generation: int | None = None
    wanted: int | None = None
    standing: int | None = None
    nodes: list[str] | None = None
    conditions: list[ConditionTextWire] | None = None


class HeadRoomWire(ObjectWire):
    """rescheduler.dev/v1alpha1 HeadRoom."""

    spec: HeadRoomSpecWire | None = None
    status: HeadRoomStatusWire | None = None


def reservation_window(
    wire: WindowWire, meta: MetaWire, shared: SharedParts, pods: PodDecoder
) -> ReservationWindow:
    """The record of a ReservationWindow."""
    spec = wire.spec or WindowSpecWire()
    template = read_template(spec.template, shared, pods)
    return ReservationWindow(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        created_at_s=created_at(meta),
        deleting=meta.deletion_timestamp is not None,
        cron=spec.cron or "",
        time_zone=spec.time_zone or "",
        duration_s=None if spec.duration is None else parse_duration(spec.duration),
        end=spec.end or "",
        start_reserve_ago_s=parse_duration(spec.start_reserve_ago) if spec.start_reserve_ago else 0.0,
        suspend=bool(spec.suspend),
        make_room=bool(spec.make_room),
        pods=spec.pod_num_to_reserve or 1,
        resources=parse_resources(spec.resources),
        node_selector=_pairs(spec.node_selector),
        template=template.spec,
        template_raw=b"" if bytes(spec.template) in (b"", b"null") else template.raw,
        template_node=template.node,
        owners=tuple(owner(one) for one in spec.owners or ()),
        status=_window_status(wire.status or WindowStatusWire()),
    )


def head_room(wire: HeadRoomWire, meta: MetaWire, shared: SharedParts, pods: PodDecoder) -> HeadRoom:
    """The record of a HeadRoom."""
    spec = wire.spec or HeadRoomSpecWire()
    status = wire.status or HeadRoomStatusWire()
    template = read_template(spec.template, shared, pods)
    check_layout(status.layout)
    return HeadRoom(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        created_at_s=created_at(meta),
        deleting=meta.deletion_timestamp is not None,
        rooms=spec.rooms or 0,
        spread_over=spec.spread_over or "",
        yield_to=YieldTo(spec.yield_to or YieldTo.HIGHER_PRIORITY),
        make_room=bool(spec.make_room),
        node_selector=_pairs(spec.node_selector),
        template=template.spec,
        template_raw=template.raw,
        owners=tuple(owner(one) for one in spec.owners or ()),
        status=HeadRoomStatus(
            observed_generation=status.observed_generation or 0,
            wanted=status.wanted or 0,
            standing=status.standing or 0,
            nodes=tuple(status.nodes or ()),
            conditions=conditions(status.conditions),
        ),
    )


def _window_status(wire: WindowStatusWire) -> WindowStatus:
    check_layout(wire.layout)
    return WindowStatus(
        phase=WindowPhase(wire.phase) if wire.phase else None,
        observed_generation=wire.observed_generation or 0,
        start_s=optional_time(wire.start),
        end_s=optional_time(wire.end),
        gather_from_s=optional_time(wire.gather_from),
        wanted=wire.wanted or 0,
        gathered=wire.gathered or 0,
        placed_pods=tuple(wire.placed_pods or ()),
        nodes=tuple(wire.nodes or ()),
        conditions=conditions(wire.conditions),
    )


def _pairs(labels: dict[str, str | None] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value or "") for key, value in (labels or {}).items()))
