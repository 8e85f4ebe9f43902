"""The ResourceQuota of a namespace, as far as it limits pods by their requests and number.

A quota with scopes counts only where an ordinary pod is certainly in them; what limits and other objects may sum up to is not
read.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rescheduler.model.records import ObjectKey


class QuotaLimit(NamedTuple):
    """One resource, by the name that pods request it by, or ``pods``: CPU in milli, all others in their base unit."""

    resource: str
    most: int
    used: int


class ResourceQuota(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A ResourceQuota."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    limits: tuple[QuotaLimit, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)
