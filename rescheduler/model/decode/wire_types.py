"""Partial msgspec Structs for the JSON that all Kubernetes objects share: metadata, selectors, resource lists.

Only fields that a record needs are declared; msgspec skips the rest. Every collection may be null,
because Go servers write null for an empty one. ``Raw`` fields are parts that many objects share: they
are decoded once per distinct content.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import msgspec
from msgspec import Raw

from rescheduler.model.resources import Amount

Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]
"""A metav1.Time: a zone is required."""

ResourceList = dict[str, Amount | None]
ABSENT = Raw(b"")
"""Default of a Raw field: the key is missing. msgspec omits the field when it encodes."""

DAMAGE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Errors that a damaged object raises while it is decoded: wrong types, senseless values, nesting too deep."""


class Wire(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """Base of all wire Structs: field names in camelCase; a missing field has its default."""


class OwnerReferenceWire(Wire):
    """metav1.OwnerReference."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class MetaWire(Wire):
    """metav1.ObjectMeta."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Raw = ABSENT
    annotations: dict[str, str | None] | None = None
    owner_references: Raw = ABSENT
    managed_fields: Raw = ABSENT
    finalizers: list[str] | None = None

    @property
    def noted(self) -> dict[str, str]:
        """Its annotations; one without a text has an empty one."""
        return {key: text or "" for key, text in (self.annotations or {}).items()}


class ObjectWire(Wire):
    """Any object with metadata."""

    metadata: MetaWire | None = None


class IdentityWire(Wire):
    """The part of the metadata that is still decoded of a damaged object."""

    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class UnreadableWire(Wire):
    """A damaged object, of which only the name is read."""

    kind: str | None = None
    metadata: IdentityWire | None = None


class ListMetaWire(Wire):
    """metav1.ListMeta."""

    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class RequirementWire(Wire):
    """A requirement of a label selector or of a node selector term."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelectorWire(Wire):
    """metav1.LabelSelector."""

    match_labels: dict[str, str | None] | None = None
    match_expressions: list[RequirementWire] | None = None


class NodeSelectorTermWire(Wire):
    """v1.NodeSelectorTerm."""

    match_expressions: list[RequirementWire] | None = None
    match_fields: list[RequirementWire] | None = None


class NodeSelectorWire(Wire):
    """v1.NodeSelector."""

    node_selector_terms: list[NodeSelectorTermWire] | None = None


class ConditionWire(Wire):
    """A condition of any object."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class ResourcesWire(Wire):
    """v1.ResourceRequirements."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None
