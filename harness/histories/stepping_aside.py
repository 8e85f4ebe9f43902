"""Room that running pods make by stepping aside: for pending pods, Reservations with ``makeRoom``, windows and head-rooms.

In one of four histories policy PendingPods is at work, small pods of one Deployment leave a little room on each node, and then pods and
Reservations come that fit nowhere, though there is room enough in all. Some of them go again. All draws come from a stream of their own,
so that histories without them stay as they were. Nothing else is asked for in them.

Checked at every intent to evict, unless something rough has happened: the Reservation for which the pod steps aside keeps its node,
or the hand-over taint does while the nomination is withdrawn for another hand-over there.
"""

from __future__ import annotations

from typing import Final

from harness import documents
from harness.histories.clusters import lone_pod
from harness.histories.observed_cluster import node_of, nominated_to, phase, shut
from harness.histories.theme import Stage, Theme
from harness.histories.user_requests import MOVE, ROOM
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import (
    POD,
    Obj,
    annotations_of,
    deleting,
    key,
    labels,
    status,
)
from rescheduler.model.names import ANNOTATION_MAKES_ROOM

POLICY: Final = b"""\
interval: 2s
policies:
- name: PendingPods
  after: 1s
"""
_UNTIL_S: Final = 1.0
_APP: Final = "wide"
_SMALL: Final = "small"
_SMALL_MILLI: Final = 500
_LEFT_MILLI: Final = 900
"""What is left free of each node, at least."""


class SteppingAside(Theme):
    """Makes what fits nowhere. ``faults``: messages about evictions."""

    stream, share = "stepping aside", 0.25

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._begun: set[str] = set()

    def write_script(self) -> None:
        """Draw when they come, and which go again."""
        self._api.subscribe(self._hear)
        rng, began_s = self._rng, self._rng.uniform(0.0, _UNTIL_S)
        self._in(began_s, "small pods leave little room on each node", self._fill)
        comes = (
            ("a pod comes that needs others to step aside", self._come),
            ("room is to be made", self._ask),
        )
        for _ in range(rng.randint(2, 4)):
            self._in(began_s + rng.uniform(0.5, 3.0), *rng.choice(comes))
        if rng.random() < 0.4:  # noqa: PLR2004 - a share
            self._in(began_s + rng.uniform(2.0, 8.0), "who needs others to step aside goes", self._go)

    def _fill(self) -> None:
        """With small pods of one Deployment, so that there is room enough in all, and not on one node."""
        replicas = sum(max(0, (rest - _LEFT_MILLI) // _SMALL_MILLI) for rest in self._free_milli().values())
        pod = self._spec(_SMALL_MILLI)
        self._api.create(documents.workload("Deployment", _SMALL, replicas, pod, namespace="default"))

    def _come(self) -> None:
        pod = lone_pod(self._name(_APP), cpu_milli=0, label=_APP)
        self._api.create({**pod, "spec": self._spec(self._wide_milli())})

    def _ask(self) -> None:
        pod = self._spec(self._wide_milli())
        owner = {"labelSelector": {"matchLabels": {"app": _APP}}, "object": {"namespace": "default"}}
        self._api.create(documents.reservation(self._name(_APP), pod, [owner], makeRoom=True, ttl="60s"))

    def _go(self) -> None:
        found = [p for p in self._api.list(POD) if labels(p).get("app") == _APP and not deleting(p)]
        found += [r for r in self._api.list(ROOM) if key(r).name.startswith(_APP)]
        if found:
            chosen = self._rng.choice(found)
            self._script.hits.add(chosen["metadata"]["uid"])
            self._api.delete(chosen)

    def _wide_milli(self) -> int:
        """So much that one or two of the small pods must leave a node."""
        return max(self._free_milli().values()) + self._rng.choice((_SMALL_MILLI, 2 * _SMALL_MILLI))

    def _spec(self, cpu_milli: int) -> Obj:
        found: Obj = self._pod("x", cpu_milli)["spec"]
        return found

    # What is checked

    def _hear(self, change: ObjectChange) -> None:
        """The intent to evict is written only once the node is kept."""
        move = change.object
        mark = annotations_of(move).get(ANNOTATION_MAKES_ROOM, "")
        seen = self._checker.seen
        if move["kind"] != MOVE.kind or not mark or self._script.hits:
            return
        known = key(move).name
        if not status(move).get("evictionRequestedAt") or known in self._begun:
            return
        self._begun.add(known)
        room = seen.rooms.get(mark.partition("/")[0])
        holders = seen.holders(room) if room is not None else []
        closed = room is not None and shut(seen.nodes.get(status(room).get("nodeName", ""), {}))
        kept = any(node_of(pod) or nominated_to(pod) or closed for pod in holders)
        if room is None or phase(room) not in ("Waiting", "Available") or not kept:
            self.faults.append(f"{known} is to evict, and Reservation {mark} does not keep its node")
