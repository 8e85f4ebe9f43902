"""What owners do to the template and the rollout of a workload while its pods are moved.

Requests, sidecars, tolerations, node selectors, labels, node names, scheduling gates, update strategies, pauses. Each change
hits a workload with a move in flight, if there is one.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any, Final

from harness.histories.admission import TAINT
from harness.histories.clusters import ClusterPlan, Workload
from harness.histories.disturbances import Disturbance
from harness.histories.observed_cluster import app_of, cpu_of, over
from harness.histories.script import Script
from harness.histories.user_requests import KINDS, MOVE, Asks
from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import NODE, POD, Obj, deleting, key, labels, spec, status
from rescheduler.model.names import ZONE
from rescheduler.model.resources import milli

FOREIGN_GATE: Final = "example.com/wait"
"""A scheduling gate of another program."""
_WITH_STRATEGY: Final = 0.5
"""Share of the changes of a StatefulSet's template that come with another update strategy."""
_WITH_PAUSE: Final = 0.3
"""Share of the changes of a Deployment's template that are paused."""


def toleration() -> Obj:
    """Of the taint that some nodes have."""
    return {"key": TAINT, "operator": "Exists"}


def update_strategy(rng: random.Random, replicas: int) -> Obj:
    """A random one of a StatefulSet."""
    kind = rng.choice(("OnDelete", "RollingUpdate", "RollingUpdate"))
    if kind == "OnDelete":
        return {"type": kind, "rollingUpdate": None}
    return {"type": kind, "rollingUpdate": {"partition": rng.randint(0, replicas)}}


class Owned:
    """The workloads of a history, for changes of their owners."""

    def __init__(
        self, api: Api, rng: random.Random, *, plan: ClusterPlan, script: Script, asks: Asks
    ) -> None:
        self.api, self.rng, self.plan, self.asks = api, rng, plan, asks
        self._script = script

    def hit(self, kind: str = "") -> Workload | None:
        """A workload (of that kind) with a move in flight, else any; recorded as hit. None: there is none."""
        there = [w for w in self.plan.workloads if kind in ("", w.kind) and self.found(w) is not None]
        moved = {app_of(m) for m in self.api.list(MOVE) if not over(m)}
        chosen = [w for w in there if w.name in moved] or there
        if not chosen:
            return None
        workload = self.rng.choice(chosen)
        self._script.hits.add(f"workload {workload.name}")
        return workload

    def found(self, workload: Workload) -> Obj | None:
        """The object, while it exists."""
        found = self.api.get(KINDS[workload.kind], "default", workload.name)
        return None if found is None or deleting(found) else found

    def patch(self, workload: Workload, wanted: Obj) -> None:
        """Merge into its spec."""
        found = self.found(workload)
        if found is not None:
            self.api.patch(found, {"spec": wanted})

    def zone(self) -> str:
        """A zone of the cluster."""
        return self.rng.choice(sorted({labels(n).get(ZONE, "") for n in self.api.list(NODE)} or {"z1"}))


class TemplateChanges:
    """Changes by name (``all``)."""

    def __init__(self, owned: Owned) -> None:
        self._owned, self._api, self._rng = owned, owned.api, owned.rng
        self._serial = 0

    @property
    def all(self) -> Mapping[str, Disturbance]:
        """Each of them."""
        gate = {"schedulingGates": [{"name": FOREIGN_GATE}]}
        return {
            "owner: template asks for more": self._grow,
            "owner: template gets a sidecar": self._add_sidecar,
            "owner: template loses its tolerations": lambda: self._template({"tolerations": None}),
            "owner: template tolerates the taint": lambda: self._template({"tolerations": [toleration()]}),
            "owner: template selects a zone": lambda: self._template(
                {"nodeSelector": {ZONE: self._owned.zone()}}
            ),
            "owner: template selects no zone": lambda: self._template({"nodeSelector": None}),
            "owner: template has other labels": self._relabel,
            "owner: template names a node": self._name_node,
            "owner: template gets a gate": lambda: self._template(gate),
            "owner: update strategy": self._change_strategy,
            "owner: rollout paused or resumed": self._pause,
        }

    def _template(self, change: dict[str, Any], **metadata: Any) -> None:
        workload = self._owned.hit()
        if workload is not None:
            self._merge(workload, change, **metadata)

    def _merge(self, workload: Workload, change: dict[str, Any], **metadata: Any) -> None:
        """Merge ``change`` into the spec of the template."""
        wanted: Obj = {"template": {"spec": change, "metadata": metadata}}
        if workload.kind == "StatefulSet" and self._rng.random() < _WITH_STRATEGY:
            wanted["updateStrategy"] = update_strategy(self._rng, self._owned.asks.sizes[workload.name])
        if workload.kind == "Deployment" and self._rng.random() < _WITH_PAUSE:
            wanted["paused"] = True
        self._owned.patch(workload, wanted)

    def _containers(self, workload: Workload) -> list[Obj]:
        found = self._owned.found(workload) or workload.body
        return copy.deepcopy(spec(spec(found)["template"])["containers"])

    def _grow(self) -> None:
        workload = self._owned.hit()
        if workload is None:
            return
        first, *others = self._containers(workload)
        requests = first["resources"]["requests"]
        requests["cpu"] = f"{milli(requests['cpu']) + self._rng.choice((100, 500, 1000))}m"
        self._merge(workload, {"containers": [first, *others]})

    def _add_sidecar(self) -> None:
        workload = self._owned.hit()
        if workload is None:
            return
        resources = {"requests": {"cpu": f"{self._rng.choice((100, 500))}m", "memory": "32Mi"}}
        side = {"name": f"side-{self._next()}", "image": "registry.example/side:1", "resources": resources}
        self._merge(workload, {"containers": [*self._containers(workload), side]})

    def _relabel(self) -> None:
        self._template({}, labels={"example.com/version": str(self._next())})

    def _name_node(self) -> None:
        """A node with room for all its pods: one that the kubelet refuses would be created again without an end."""
        workload = self._owned.hit()
        if workload is None:
            return
        needed = self._owned.asks.sizes[workload.name] * 2 * workload.cpu_milli
        roomy = [n for n in self._api.list(NODE) if self._free_milli(n) >= needed]
        if roomy:
            self._merge(workload, {"nodeName": key(self._rng.choice(roomy)).name})

    def _free_milli(self, node: Obj) -> int:
        there = [p for p in self._api.list(POD) if spec(p).get("nodeName") == key(node).name]
        return milli(status(node)["allocatable"]["cpu"]) - sum(map(cpu_of, there))

    def _change_strategy(self) -> None:
        workload = self._owned.hit("StatefulSet")
        if workload is not None:
            strategy = update_strategy(self._rng, workload.replicas)
            self._owned.patch(workload, {"updateStrategy": strategy})

    def _pause(self) -> None:
        workload = self._owned.hit("Deployment")
        found = self._owned.found(workload) if workload is not None else None
        if workload is not None and found is not None:
            self._owned.patch(workload, {"paused": not spec(found).get("paused", False)})

    def _next(self) -> int:
        self._serial += 1
        return self._serial
