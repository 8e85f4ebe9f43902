"""Volcano's PodGroup, as far as it is read: how long its pods run at most. Types only."""

from __future__ import annotations

import msgspec

from rescheduler.model.records import ObjectKey


class VolcanoPodGroup(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup (scheduling.volcano.sh)."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    maximum_runtime: str = ""
    """The annotation as it was written; empty: there is none."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)
