"""PodGroups -> records. Volcano and scheduler-plugins write the number of members in the same place."""

from __future__ import annotations

from typing import Any

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_types import MetaWire, ObjectWire
from rescheduler.model.names import MAXIMUM_RUNTIME
from rescheduler.model.pod_group import PodGroupRecord, members_of_text


class PodGroupWire(ObjectWire):
    """A PodGroup. What is in its spec is another program's: what cannot be read is taken as not said."""

    spec: Any = None


def pod_group(wire: PodGroupWire, meta: MetaWire, shared: SharedParts) -> PodGroupRecord:
    """The record of a PodGroup."""
    del shared
    least = wire.spec.get("minMember") if isinstance(wire.spec, dict) else None
    return PodGroupRecord(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        maximum_runtime=(meta.annotations or {}).get(MAXIMUM_RUNTIME) or "",
        min_member=members_of_text(str(least)) if type(least) is int else 0,
    )
