"""Pods that are pending before their room is there: they wait first, and then room is reserved for them.

In one of three histories other pods fill the cluster, one to three pods come that fit nowhere, a Reservation for them is made on one
node, and the pod that fills that node leaves. All draws come from a stream of their own, so that histories without them stay as
they were. Checked by ``rooms``: what holds the room is a placeholder, or the taint that only the claimants tolerate.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from harness import documents
from harness.histories.clusters import ClusterPlan, lone_pod
from harness.histories.observed_cluster import cpu_of, node_of
from harness.histories.script import Script
from kube_sandbox.controllers.unstructured import POD, Obj, deleting, key, terminal
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.names import HOSTNAME

_SHARE: Final = 0.35
_UNTIL_S: Final = 3.0
_LEAST_CPU_MILLI: Final = 500


class PendingOwners:
    """Makes the pods, and later their Reservation."""

    def __init__(self, cluster: Sandbox, seed: int, plan: ClusterPlan, script: Script) -> None:
        self._api, self._clock, self._plan, self._script = cluster.api, cluster.clock, plan, script
        self._rng = random.Random(f"pending {seed}")  # noqa: S311 - reproducible
        self._node, self._guests, self._parts = "", "", 1

    def write_script(self) -> None:
        """Draw whether there are such pods, and when."""
        if self._rng.random() < _SHARE:
            self._in(self._rng.uniform(0.0, _UNTIL_S), "other pods fill the cluster", self._fill)

    def _fill(self) -> None:
        """A pod without a controller takes all CPU that is left on each node."""
        used: dict[str, int] = {}
        for pod in self._api.list(POD):
            if node_of(pod) and not terminal(pod):
                used[node_of(pod)] = used.get(node_of(pod), 0) + cpu_of(pod)
        free = {m.name: int(m.cpu) * 1000 - used.get(m.name, 0) for m in self._plan.machines}
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
        template = lone_pod(
            "template", cpu_milli=size * self._parts, priority_class=self._plan.priority_class
        )
        there = {} if self._rng.random() < 0.3 else {"nodeName": self._node}  # noqa: PLR2004 - a share
        pod = {**template["spec"], **there}
        wish: Obj = {"allocateOnce": not several, "preAllocation": True, "ttl": "60s"}
        self._api.create(documents.reservation("for-pending", pod, [owner], **wish))
        self._in(self._rng.uniform(0.5, 3.0), "the pod that fills their node leaves", self._leave)

    def _leave(self) -> None:
        for pod in self._api.list(POD):
            if key(pod).name == f"filler-{self._node}" and not deleting(pod):
                self._api.delete(pod)

    def _pod(self, name: str, cpu_milli: int, label: str) -> Obj:
        return lone_pod(name, cpu_milli=cpu_milli, priority_class=self._plan.priority_class, label=label)

    def _in(self, after_s: float, name: str, do: Callable[[], None]) -> None:
        self._script.at(self._clock() + after_s, name, do)
