"""The scheduler's cluster cache: changes of wire objects in, records and Snapshots out.

Uses the same decoder and ClusterState as the program itself, so that the embedded scheduler judges exactly
what the program would read from a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rescheduler.model.cluster import ClusterState, key_of
from rescheduler.model.decode import Decoder, Record
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.snapshot import Snapshot
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import GroupKind, group_kind

_KINDS = {GroupKind(r.group, r.kind or str(kind)): kind for kind, r in RESOURCES.items()}


@dataclass(frozen=True, slots=True)
class Applied:
    """A change of a kind that scheduling looks at; None where the object was not, or is not there."""

    kind: Kind
    old: Record | None
    new: Record | None


class ClusterRecords:
    """Follows changes and gives Snapshots."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._encoder = msgspec.json.Encoder()
        self._state = ClusterState()

    def apply(self, change: Change) -> Applied | None:
        """Take one change in; None for kinds that do not matter here and for what is known already."""
        kind = _KINDS.get(group_kind(change.object))
        if kind is None:
            return None
        record = self._decoder.record(kind, self._encoder.encode(change.object))
        if change.type == "DELETED":
            done = self._state.delete(kind, key_of(record), getattr(record, "uid", ""))
        else:
            done = self._state.apply(kind, record)
        return None if done is None else Applied(kind, done.before, done.after)

    def snapshot(self, now_s: float) -> Snapshot:
        """Everything known now."""
        return self._state.snapshot(now_s)
