"""Moves that begin after others, as a decision creates them, and the promise about them.

In one of three histories a chain of two or three moves is asked for in the controller's name: the first pod leaves its node,
the next one takes its place. All draws come from a stream of their own, so that histories without chains stay as they were.

Checked at every write: a move begins only once every move that it names has succeeded.
"""

from __future__ import annotations

from typing import Final

from harness import documents
from harness.histories.theme import Stage, Theme
from harness.histories.user_requests import MOVE
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import NODE, POD, Obj, deleting, key, labels, spec, status, uid
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY

_UNTIL_S: Final = 5.0
_UNBEGUN: Final = ("", "Pending", "Failed")


class Chains(Theme):
    """Asks for chains, and watches them. ``faults``: messages about moves that began too early."""

    stream, share = "chains", 0.35

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._apps = frozenset(workload.name for workload in stage.plan.workloads)
        self._succeeded: set[str] = set()
        self._api.subscribe(self._hear)

    def write_script(self) -> None:
        """Draw when there is a chain."""
        self._in(self._rng.uniform(0.0, _UNTIL_S), "a chain of moves is planned", self._chain)

    def _chain(self) -> None:
        """The first pod goes anywhere; each of the next ones to the node that the one before it leaves."""
        pods = [p for p in self._api.list(POD) if labels(p).get("app") in self._apps]
        standing = [p for p in pods if spec(p).get("nodeName") and not deleting(p)]
        self._rng.shuffle(standing)
        target = self._rng.choice([key(node).name for node in self._api.list(NODE)] or ["n1"])
        after: list[str] = []
        for pod in standing[: self._rng.choice((2, 2, 3))]:
            name = self._create(pod, target, after)
            after, target = [f"default/{name}"], spec(pod)["nodeName"]

    def _create(self, pod: Obj, target: str, after: list[str]) -> str:
        name = self._name("planned")
        wish: Obj = {"ttl": "60s", "policy": "NodeAffinity", **({"after": after} if after else {})}
        meta = {"labels": {LABEL_CREATED_BY: CREATED_BY}}
        self._api.create(
            documents.migration(
                name, key(pod).name, target, uid=uid(pod), namespace="default", meta=meta, **wish
            )
        )
        return name

    def _hear(self, change: ObjectChange) -> None:
        move = change.object
        if move["kind"] != MOVE.kind:
            return
        phase, name = status(move).get("phase", ""), f"default/{key(move).name}"
        if phase == "Succeeded":
            self._succeeded.add(name)
        if phase not in _UNBEGUN:
            early = [other for other in spec(move).get("after", ()) if other not in self._succeeded]
            if early:
                self.faults.append(f"move {name} is {phase}, and {', '.join(early)} has not succeeded")
