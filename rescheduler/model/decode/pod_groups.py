"""Volcano's PodGroup -> record."""

from __future__ import annotations

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_types import MetaWire, ObjectWire
from rescheduler.model.names import MAXIMUM_RUNTIME
from rescheduler.model.pod_group import VolcanoPodGroup


def pod_group(wire: ObjectWire, meta: MetaWire, shared: SharedParts) -> VolcanoPodGroup:
    """The record of a PodGroup."""
    del wire, shared
    return VolcanoPodGroup(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        maximum_runtime=(meta.annotations or {}).get(MAXIMUM_RUNTIME) or "",
    )
