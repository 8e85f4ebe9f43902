"""Sections ``limits`` and ``protections``: how much may be moved at once, and what may not be moved at all."""

from __future__ import annotations

from typing import Any

import msgspec

from rescheduler.configuration.reader import SectionReader, camel_case
from rescheduler.planning.limits import (
    Limits,
    NamespaceFilter,
    Protections,
    RequestedLimits,
    limits_for,
)
from rescheduler.policies.wire import LabelSelectorArgs


class RequestedWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """``limits.requested`` as it is written."""

    moves_per_hour: int | None = None
    workload_cooldown: str | None = None


class LimitsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Section ``limits`` as it is written; what is None follows from the aggressiveness."""

    moves_at_once: int | None = None
    moves_per_hour: int | None = None
    per_node: int | None = None
    per_namespace: int | None = None
    per_workload: int | None = None
    minimum_gain: float | None = None
    workload_cooldown: str | None = None
    budget_buffer: int | None = None
    requested: RequestedWire | None = None


class NamespacesWire(msgspec.Struct, forbid_unknown_fields=True):
    """``protections.namespaces`` as it is written: one of the two."""

    include: list[str] | None = None
    exclude: list[str] | None = None


class ProtectionsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Section ``protections`` as it is written."""

    priority_threshold: int | None = None
    min_replicas: int | None = None
    min_age: str | None = None
    local_storage: bool | None = None
    persistent_volumes: bool | None = None
    without_budget: bool | None = None
    prefer_no_eviction: bool | None = None
    namespaces: NamespacesWire | None = None
    label_selector: LabelSelectorArgs | None = None


def read_limits(reader: SectionReader, aggressiveness: float) -> Limits:
    """What is written goes before what follows from the aggressiveness."""
    base = limits_for(aggressiveness)
    wire = reader.section("limits", LimitsWire)
    if wire is None:
        return base
    given = _given(wire, except_for={"workload_cooldown", "requested"})
    for name, value in given.items():
        if value < 0 or (name == "minimum_gain" and value > 1):
            top = " and at most 1" if name == "minimum_gain" else ""
            reader.complain(("limits", camel_case(name)), f"is {value}", f"must be at least 0{top}")
    given["workload_cooldown_s"] = reader.duration(
        ("limits", "workloadCooldown"), wire.workload_cooldown, base.workload_cooldown_s
    )
    given["requested"] = _read_requested(reader, wire.requested or RequestedWire(), base.requested)
    return msgspec.structs.replace(base, **given)


def _read_requested(reader: SectionReader, wire: RequestedWire, base: RequestedLimits) -> RequestedLimits:
    path = ("limits", "requested")
    moves = base.moves_per_hour if wire.moves_per_hour is None else wire.moves_per_hour
    if moves < 0:
        reader.complain((*path, "movesPerHour"), f"is {moves}", "must be at least 0")
    cooldown_s = reader.duration(
        (*path, "workloadCooldown"), wire.workload_cooldown, base.workload_cooldown_s
    )
    return RequestedLimits(moves_per_hour=moves, workload_cooldown_s=cooldown_s)


def read_protections(reader: SectionReader) -> Protections:
    """What is written goes before the defaults."""
    base = Protections()
    wire = reader.section("protections", ProtectionsWire)
    if wire is None:
        return base
    given = _given(wire, except_for={"min_age", "namespaces", "label_selector"})
    given["min_age_s"] = reader.duration(("protections", "minAge"), wire.min_age, base.min_age_s)
    given["namespaces"] = _namespaces(reader, wire.namespaces, base.namespaces)
    if wire.label_selector is not None:
        selector = wire.label_selector.compiled()
        if selector.invalid:
            reader.complain(("protections", "labelSelector"), selector.invalid, "see labels and selectors")
        given["label_selector"] = selector
    return msgspec.structs.replace(base, **given)


def _namespaces(reader: SectionReader, wire: NamespacesWire | None, base: NamespaceFilter) -> NamespaceFilter:
    if wire is None:
        return base
    if wire.include and wire.exclude:
        reader.complain(
            ("protections", "namespaces"), "both include and exclude are given", "keep one of them"
        )
    if wire.include:
        return NamespaceFilter(include=tuple(wire.include), exclude=())
    return NamespaceFilter(exclude=tuple(base.exclude if wire.exclude is None else wire.exclude))


def _given(wire: msgspec.Struct, *, except_for: set[str]) -> dict[str, Any]:
    """The fields that are written and mean themselves."""
    names = (name for name in wire.__struct_fields__ if name not in except_for)
    return {name: value for name in names if (value := getattr(wire, name)) is not None}
