"""A recording: the objects of a small cluster when it is first looked at, and every later write, in JSON lines (pure).

The first line has all objects, each later one those that one moment changed. So each moment can be restored as it was. The
requests that the controller then sent are with it: what the rules of later versions must still admit.
Left out is what every version installs anew, and what no version reads again (``managedFields``, Events, the Lease).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Obj = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace, name."""

_KEPT: Final = frozenset({
    "ConfigMap", "ControllerRevision", "Deployment", "HeadRoom", "Namespace", "Node", "Pod",
    "PodDisruptionBudget", "PodMigration", "PriorityClass", "ReplicaSet", "Reservation", "ReservationWindow",
    "StatefulSet",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moment:
    """What was stored at one time."""

    at_s: float
    objects: Mapping[Key, Obj]
    sent: list[Obj] = field(default_factory=list)
    """Writes of the controller while the objects were so: ``method``, ``path``, ``query``, ``type`` and ``body`` of each."""

    def of_kind(self, kind: str) -> list[Obj]:
        """The objects of one kind."""
        return [obj for key, obj in self.objects.items() if key[0] == kind]


def kept(objects: Iterable[Obj]) -> dict[Key, Obj]:
    """The part of ``objects`` that a recording has, as copies."""
    found = {}
    for obj in objects:
        if obj["kind"] in _KEPT:
            metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
            copy: Obj = json.loads(json.dumps({**obj, "metadata": metadata}))
            found[_key(copy)] = copy
    return found


def encode(moments: Iterable[Moment]) -> Iterator[str]:
    """The lines of a recording; moments in which nothing changed have none."""
    before: Mapping[Key, Obj] | None = None
    for moment in moments:
        new = [obj for key, obj in moment.objects.items() if before is None or before.get(key) != obj]
        gone = [list(key) for key in before or () if key not in moment.objects]
        if new or gone or moment.sent:
            line: Obj = {"at": round(moment.at_s, 3), "stored": new}
            line |= {"deleted": gone} if gone else {}
            line |= {"sent": moment.sent} if moment.sent else {}
            yield json.dumps(line, separators=(",", ":"))
        before = moment.objects


def decode(lines: Iterable[str]) -> Iterator[Moment]:
    """The moments of a recording."""
    now: dict[Key, Obj] = {}
    for line in lines:
        read = json.loads(line)
        gone = {(kind, namespace, name) for kind, namespace, name in read.get("deleted", ())}
        now = {key: obj for key, obj in now.items() if key not in gone}
        now |= {_key(obj): obj for obj in read["stored"]}
        yield Moment(read["at"], now, read.get("sent", []))


def _key(obj: Obj) -> Key:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]
