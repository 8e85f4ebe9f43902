"""The objects as the API server has them, indexed: pods, nodes, Reservations, moves, budgets, gate keys.

Also the last writer of each object: the program, people (the script), or the cluster's own components.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import (
    Obj,
    annotations_of,
    condition,
    controller_of,
    deleting,
    key,
    spec,
    status,
    terminal,
    uid,
)
from rescheduler.model.names import (
    ANNOTATION_HANDOVER_TAINT,
    ANNOTATION_MIGRATION,
    DEFAULT_NAMESPACE,
    GATE,
    GATE_CONFIG_MAP,
)
from rescheduler.model.resources import milli


class Writer(enum.StrEnum):
    """Whose write it was."""

    PROGRAM = "program"
    PEOPLE = "people"
    CLUSTER = "cluster"


_OVER: Final = ("Succeeded", "Failed")
_BY_UID: Final = ("Pod", "PodMigration")


@dataclass(slots=True)
class Seen:
    """Objects by uid (nodes and Reservations by name). ``ender``: the writer that first ended a pod."""

    pods: dict[str, Obj] = field(default_factory=dict)
    nodes: dict[str, Obj] = field(default_factory=dict)
    rooms: dict[str, Obj] = field(default_factory=dict)
    moves: dict[str, Obj] = field(default_factory=dict)
    gone_moves: dict[str, Obj] = field(default_factory=dict)
    budgets: dict[str, Obj] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    ender: dict[str, Writer] = field(default_factory=dict)
    writer: dict[str, Writer] = field(default_factory=dict)
    born_s: dict[str, float] = field(default_factory=dict)
    """When each object was first seen, by uid: what it says of its creation is what the API server's clock showed."""
    changed_at_s: dict[str, float] = field(default_factory=dict)
    """When each object was written last, by uid."""
    newest: dict[tuple[str, str], str] = field(default_factory=dict)
    """Uid of the newest object of that kind and name."""
    last_holder: dict[str, str] = field(default_factory=dict)
    """Uid of the newest placeholder, by uid of its Reservation."""
    bad_at_s: dict[str, float] = field(default_factory=dict)
    """When a node was last seen to be unusable, created or deleted."""

    def apply(self, change: ObjectChange, who: Writer, now_s: float) -> Obj | None:
        """Apply a change. Returns the object as it was before."""
        obj, gone = change.object, change.type == "DELETED"
        kind, name, known = obj["kind"], key(obj).name, uid(obj)
        self.writer[known] = who
        self.born_s.setdefault(known, now_s)
        self.changed_at_s[known] = now_s
        self.newest[kind, name] = known
        if kind == "ConfigMap" and name == GATE_CONFIG_MAP:
            self.live = {} if gone else obj.get("data") or {}
        table = self._tables.get(kind)
        if table is None:
            return None
        place = known if kind in _BY_UID else name
        old = table.pop(place, None)
        if not gone:
            table[place] = obj
        if kind == "Pod" and old is None and obj["metadata"]["namespace"] == DEFAULT_NAMESPACE:
            self.last_holder[(controller_of(obj) or {}).get("uid", "")] = known
        if kind == "Pod" and (gone or deleting(obj) or terminal(obj)):
            self.ender.setdefault(known, who)
        elif kind == "PodMigration" and gone:
            self.gone_moves[known] = obj
        elif kind == "Node" and (gone or not usable(obj) or old is None or not usable(old)):
            self.bad_at_s[name] = now_s
        return old

    @property
    def _tables(self) -> dict[str, dict[str, Obj]]:
        return {
            "Pod": self.pods,
            "Node": self.nodes,
            "Reservation": self.rooms,
            "PodMigration": self.moves,
            "PodDisruptionBudget": self.budgets,
        }

    def move_of(self, room: Obj) -> Obj | None:
        """The move that created the Reservation, while it is in flight."""
        name = annotations_of(room).get(ANNOTATION_MIGRATION, "")
        found = (m for m in self.moves.values() if "/".join(key(m)) == name and not over(m))
        return next(found, None)

    def holders(self, room: Obj) -> list[Obj]:
        """Placeholders of a Reservation that the scheduler counts, terminating ones included."""
        wanted = uid(room)
        return [
            p
            for p in self.pods.values()
            if p["metadata"]["namespace"] == DEFAULT_NAMESPACE
            and (controller_of(p) or {}).get("uid") == wanted
            and not terminal(p)
        ]

    def owners(self, room: Obj) -> list[Obj]:
        """The pods of ``currentOwners`` that exist."""
        found = (self.pods.get(o.get("uid", "")) for o in status(room).get("currentOwners") or ())
        return [p for p in found if p is not None]


def over(obj: Obj) -> bool:
    """True for a finished Reservation or PodMigration."""
    return status(obj).get("phase") in _OVER


def app_of(move: Obj) -> str:
    """The workload of the pod that is moved: names of workloads have no dash."""
    name: str = spec(move)["podRef"]["name"]
    return name.split("-", maxsplit=1)[0]


def phase(obj: Obj) -> str:
    """``status.phase``; Pending before there is one."""
    found: str = status(obj).get("phase") or "Pending"
    return found


def node_of(pod: Obj) -> str:
    """The node that the pod is bound to; "" if none."""
    found: str = spec(pod).get("nodeName") or ""
    return found


def nominated_to(pod: Obj) -> str:
    """The node that the pod is nominated to; "" if none."""
    found: str = status(pod).get("nominatedNodeName") or ""
    return found


def gated(pod: Obj) -> bool:
    """True if the program's gate holds the pod."""
    return any(g["name"] == GATE for g in spec(pod).get("schedulingGates") or ())


def cpu_of(pod: Obj) -> int:
    """Milli-CPU that its containers ask for."""
    return sum(milli(c["resources"]["requests"]["cpu"]) for c in spec(pod)["containers"])


def priority_of(pod: Obj) -> int:
    """Its priority."""
    found: int = spec(pod).get("priority") or 0
    return found


def evicted(pod: Obj) -> bool:
    """True if the eviction subresource has marked it."""
    mark = condition(pod, "DisruptionTarget")
    return mark is not None and mark.get("reason") == "EvictionByEvictionAPI"


def usable(node: Obj) -> bool:
    """True if the scheduler could bind a pod there, as far as the node itself is concerned."""
    return is_up(node) and not spec(node).get("unschedulable") and not deleting(node)


def shut(node: Obj) -> bool:
    """True if the hand-over taint is on the node."""
    return any(t["key"] == ANNOTATION_HANDOVER_TAINT for t in spec(node).get("taints") or ())


def is_up(node: Obj) -> bool:
    """True if it is Ready."""
    return (condition(node, "Ready") or {}).get("status") == "True"
