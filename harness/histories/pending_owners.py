"""Pods that are pending before their room is there: they wait first, and then room is reserved for them.

In one of three histories other pods fill the cluster, one to three pods come that fit nowhere, a Reservation for them is made on one
node, and the pod that fills that node leaves. All draws come from a stream of their own, so that histories without them stay as
they were. Checked by ``rooms``: what holds the room is a placeholder, or the taint that only the claimants tolerate.
"""

from __future__ import annotations

from typing import Final

from harness import documents
from harness.histories.theme import Stage, Theme
from kube_sandbox.controllers.unstructured import POD, Obj, deleting, key
from rescheduler.model.names import HOSTNAME

_UNTIL_S: Final = 3.0
_LEAST_CPU_MILLI: Final = 500


class PendingOwners(Theme):
    """Makes the pods, and later their Reservation."""

    stream, share = "pending", 0.35

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._node, self._guests, self._parts = "", "", 1

    def write_script(self) -> None:
        """Draw when there are such pods."""
        self._in(self._rng.uniform(0.0, _UNTIL_S), "other pods fill the cluster", self._fill)

    def _fill(self) -> None:
        """A pod without a controller takes all CPU that is left on each node."""
        free = self._free_milli()
        roomy = [name for name, cpu_milli in free.items() if cpu_milli >= _LEAST_CPU_MILLI]
        if not roomy:
            return
        for name in roomy:
            body = self._pod(f"filler-{name}", free[name], "crowd")
            body["spec"]["nodeSelector"] = {HOSTNAME: name}
            self._api.create(body)
        self._node = self._rng.choice(roomy)
        self._parts = min(self._rng.choice((1, 1, 2, 3)), free[self._node] // _LEAST_CPU_MILLI)
        size = free[self._node] // self._parts
        self._in(1.0, "pods come that fit nowhere", lambda: self._come(size))

    def _come(self, size: int) -> None:
        self._guests = "pending"
        for number in range(self._parts):
            self._api.create(self._pod(f"pending-{number}", size, self._guests))
        self._in(self._rng.uniform(0.5, 2.0), "room is reserved for them", lambda: self._reserve(size))

    def _reserve(self, size: int) -> None:
        several = self._parts > 1
        owner: Obj = {"object": {"namespace": "default", "name": "pending-0"}}
        if several or self._rng.random() < 0.5:  # noqa: PLR2004 - a share
            owner = {"labelSelector": {"matchLabels": {"app": self._guests}}}
        template = self._pod("template", size * self._parts)
        there = {} if self._rng.random() < 0.3 else {"nodeName": self._node}  # noqa: PLR2004 - a share
        pod = {**template["spec"], **there}
        wish: Obj = {"allocateOnce": not several, "preAllocation": True, "ttl": "60s"}
        self._api.create(documents.reservation("for-pending", pod, [owner], **wish))
        self._in(self._rng.uniform(0.5, 3.0), "the pod that fills their node leaves", self._leave)

    def _leave(self) -> None:
        for pod in self._api.list(POD):
            if key(pod).name == f"filler-{self._node}" and not deleting(pod):
                self._api.delete(pod)
