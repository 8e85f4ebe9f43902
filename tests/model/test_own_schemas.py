"""The schemas of the manifests and the Structs of our own objects declare the same fields, types, choices and defaults."""

import enum
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import yaml

from rescheduler.model.decode.custom_resources import status_type
from rescheduler.model.decode.wire_form import declared_fields
from rescheduler.model.migration import PodMigration
from rescheduler.model.own_objects import Layout
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.selectors import LabelSelector, Pairs
from rescheduler.model.times import Duration, Moment, Second

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
KINDS = {
    "reservations": Reservation,
    "podmigrations": PodMigration,
    "reservationwindows": ReservationWindow,
    "headrooms": HeadRoom,
}
MOMENT = {"type": "string", "format": "date-time"}
SCALARS = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    Layout: {"type": "integer"},
    Duration: {"type": "string"},
    Moment: MOMENT,
    Second: MOMENT,
    ObjectKey: {"type": "string"},
}
REQUIREMENTS = {"key": SCALARS[str], "operator": SCALARS[str], "values": {"items": SCALARS[str]}}
MAPS = {
    Pairs: {"additionalProperties": SCALARS[str]},
    Resources: {"additionalProperties": {"x-kubernetes-int-or-string": True}},
    LabelSelector: {"properties": {"matchLabels": {"additionalProperties": SCALARS[str]}, "matchExpressions": {"items": {"properties": REQUIREMENTS}}}},
}  # fmt: skip
NOT_DECLARED = {
    "spec.template": "read as far as a pod can be read",
    "spec.owners.object.apiVersion": "of Koordinator's type, without meaning here",
    "spec.owners.object.kind": "as apiVersion",
    "spec.owners.controller.blockOwnerDeletion": "of an owner reference, without meaning here",
    "spec.owners.controller.controller": "written, never read",
    "status.rooms": "a column of kubectl",
    "status.placed": "a column of kubectl",
}
OPEN_CHOICES = {("podmigrations", "status.mode")}


def expected(declared):
    """The schema of a type, as far as it follows from the Struct."""
    if declared in SCALARS:
        return SCALARS[declared]
    if declared in MAPS:
        return MAPS[declared]
    if getattr(declared, "__origin__", None) is tuple:
        return {"items": expected(get_args(declared)[0])}
    if issubclass(declared, enum.Enum):
        return {"type": "string", "enum": sorted(choice.value for choice in declared)}
    return fields_of(declared)


def fields_of(record):
    made = {}
    for field in declared_fields(record):
        *into, last = field.path
        properties = made
        for key in into:
            properties = properties.setdefault(key, {}).setdefault("properties", {})
        properties[last] = dict(expected(field.declared))
        if field.default is not None and isinstance(field.default, enum.Enum | bool):
            properties[last]["default"] = field.default
    return {"properties": made}


def differences(plural, path, want, have):
    for inner in {"additionalProperties", "items"} & set(want):
        yield from differences(plural, path, want[inner], have[inner])
    for key in ("type", "format", "enum", "x-kubernetes-int-or-string", "default"):
        absent_as_meant = key == "default" or (key == "enum" and (plural, path) in OPEN_CHOICES)
        found = sorted(have[key]) if key == "enum" and key in have else have.get(key)
        if key in want and found != want[key] and not (found is None and absent_as_meant):
            yield f"{path}.{key}: {found} in the schema, {want[key]} in the Struct"
    ours, theirs = want.get("properties", {}), have.get("properties", {})
    for name in sorted({*ours, *theirs}):
        below = f"{path}.{name}"
        if name not in theirs:
            yield f"{below} is missing in the schema"
        elif name in ours:
            yield from differences(plural, below, ours[name], theirs[name])
        elif below not in NOT_DECLARED:
            yield f"{below} is missing in the Struct"


@pytest.mark.parametrize("plural", KINDS)
def test_a_schema_declares_what_the_struct_declares(plural):
    document = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    (version,) = document["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    for part, record in (("spec", KINDS[plural]), ("status", status_type(KINDS[plural]))):
        assert list(differences(plural, part, fields_of(record), schema[part])) == []


class Wrong(msgspec.Struct, kw_only=True):
    """A status with another type, another choice, and a field too few."""

    phase: int = 0
    conditions: str = ""


def test_a_difference_is_found():
    schema = yaml.safe_load((CRDS / "podmigrations.yaml").read_text())["spec"]["versions"][0]["schema"]
    status = schema["openAPIV3Schema"]["properties"]["status"]
    found = list(differences("podmigrations", "status", fields_of(Wrong), status))
    assert "status.phase.type: string in the schema, integer in the Struct" in found
    assert "status.reason is missing in the Struct" in found
