"""Section ``replacements``: which controllers create another pod for one that is evicted, besides those of Kubernetes."""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.configuration.reader import SectionReader
from rescheduler.model.replacement_rules import GroupKind, ReplacementRules

_KUBERNETES: Final[dict[GroupKind, str]] = {
    ("batch", "Job"): "set replacements.jobs: true",
    ("apps", "DaemonSet"): "remove it: its pods belong to their nodes and are never moved",
    ("apps", "ReplicaSet"): "remove it: its rules are known",
    ("apps", "StatefulSet"): "remove it: its rules are known",
    ("", "ReplicationController"): "remove it: its rules are known",
    ("", "Node"): "remove it: static pods are never moved",
}


class ControllerKindWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A kind of controllers as it is written."""

    api_group: str
    kind: str


class ReplacementsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Section ``replacements`` as it is written."""

    jobs: bool = False
    controllers: list[ControllerKindWire] = []
    not_replacing: list[ControllerKindWire] = []


def read_replacements(reader: SectionReader) -> ReplacementRules:
    """What is written; nothing else is known without an API server."""
    wire = reader.section("replacements", ReplacementsWire) or ReplacementsWire()
    replacing = _kinds(reader, "controllers", wire.controllers)
    not_replacing = _kinds(reader, "notReplacing", wire.not_replacing)
    for index, found in enumerate(wire.controllers):
        path = ("replacements", "controllers", index)
        key = (found.api_group, found.kind)
        if key in _KUBERNETES:
            reader.complain(path, f"{found.kind} is a controller of Kubernetes", _KUBERNETES[key])
        if key in not_replacing:
            reader.complain(path, f"{found.kind} is also in notReplacing", "keep one of the two")
    return ReplacementRules(jobs=wire.jobs, replacing=replacing, not_replacing=not_replacing)


def _kinds(reader: SectionReader, key: str, kinds: list[ControllerKindWire]) -> frozenset[GroupKind]:
    for index, found in enumerate(kinds):
        path = ("replacements", key, index)
        if "/" in found.api_group:
            group = found.api_group.partition("/")[0]
            reader.complain((*path, "apiGroup"), f"is {found.api_group!r}", f"leave the version out: {group}")
        if not found.kind:
            reader.complain(
                (*path, "kind"), "is empty", "write the kind as in an ownerReference, such as CloneSet"
            )
    return frozenset((found.api_group, found.kind) for found in kinds)
