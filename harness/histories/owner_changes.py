"""What owners and admission do to a workload while its pods are moved: template, budget, replicas, policies.

Each change hits a workload with a move in flight, at one of four moments: before the Reservation, once it is Available,
between the intent and the eviction, between the eviction and the replacement. All draws come from a stream of their own, so
that histories without these changes stay as they are.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Mapping
from typing import Any, Final

from harness import documents
from harness.histories import admission
from harness.histories.admission import TAINT
from harness.histories.clusters import ClusterPlan, Workload
from harness.histories.disturbances import GATE_BINDING, GATE_POLICY, Disturbance
from harness.histories.script import Milestone, Script
from harness.histories.template_changes import (
    FOREIGN_GATE,
    Owned,
    TemplateChanges,
    toleration,
    update_strategy,
)
from harness.histories.user_requests import Asks
from kube_sandbox.controllers.unstructured import BUDGET, NODE, POD, Obj, deleting, key, spec
from kube_sandbox.sandbox import Sandbox

_MOMENTS: Final = (Milestone.MOVE, Milestone.AVAILABLE, Milestone.INTENT, Milestone.EVICTED)
_LATER_S: Final = (0.0, 0.0, 0.1, 0.4, 2.0)
"""How long after the moment the change is made."""
_TOLERANT: Final = 0.6
"""Share of the workloads that tolerate the taint from the beginning."""
_TAINTED: Final = 0.3
"""Share of the nodes with the taint."""
_MOST_MOVES: Final = 3
_MOVES_UNTIL_S: Final = 6.0
_MOST_CHANGES: Final = 6


def with_owners(plan: ClusterPlan, rng: random.Random) -> ClusterPlan:
    """The cluster with tolerations in some templates and update strategies of StatefulSets."""
    return dataclasses.replace(plan, workloads=tuple(_varied(w, rng) for w in plan.workloads))


def _varied(workload: Workload, rng: random.Random) -> Workload:
    body = copy.deepcopy(workload.body)
    if rng.random() < _TOLERANT:
        body["spec"]["template"]["spec"]["tolerations"] = [toleration()]
    if workload.kind == "StatefulSet":
        body["spec"]["updateStrategy"] = update_strategy(rng, workload.replicas)
    return dataclasses.replace(workload, body=body)


class OwnerChanges:
    """Changes of owners and of admission, by name (``all``); ``undo`` puts templates, budgets and admission back."""

    def __init__(
        self, cluster: Sandbox, rng: random.Random, *, plan: ClusterPlan, script: Script, asks: Asks
    ) -> None:
        self._cluster, self._api, self._rng = cluster, cluster.api, rng
        self._plan, self._script, self._asks = plan, script, asks
        self._owned = Owned(cluster.api, rng, plan=plan, script=script, asks=asks)

    def write_script(self) -> None:
        """Draw more moves, taints, the changes and their moments."""
        rng, changes = self._rng, self.all
        for node in self._api.list(NODE):
            if rng.random() < _TAINTED:
                taint = {"key": TAINT, "value": "yes", "effect": "NoSchedule"}
                self._api.patch(node, {"spec": {"taints": [taint]}})
        for _ in range(rng.randint(1, _MOST_MOVES)):
            at_s = self._cluster.clock() + rng.uniform(0.0, _MOVES_UNTIL_S)
            self._script.at(at_s, "a move is asked for", self._asks.move)
        for name in rng.choices(list(changes), k=rng.randint(1, _MOST_CHANGES)):
            moment, later_s = rng.choice(_MOMENTS), rng.choice(_LATER_S)
            self._script.after(rng.randint(1, 3), moment, name, changes[name], later_s=later_s)

    @property
    def all(self) -> Mapping[str, Disturbance]:
        """Each of them."""
        return {
            **TemplateChanges(self._owned).all,
            "owner: budget created or tightened": self._tighten_budget,
            "owner: budget deleted": self._delete_budget,
            "owner: second budget": self._second_budget,
            "owner: scaled up": lambda: self._resize(+1),
            "owner: scaled down": lambda: self._resize(-1),
            "owner: scaled to 0": lambda: self._resize(-100),
            "admission: sidecar": lambda: self._admit(admission.sidecar(self._rng.choice((100, 500)))),
            "admission: more": lambda: self._admit(admission.larger_requests(self._rng.choice((750, 2000)))),
            "admission: toleration": lambda: self._admit(admission.toleration()),
            "admission: zone": lambda: self._admit(admission.node_selector(self._owned.zone())),
            "admission ends": self._admit_as_before,
        }

    def undo(self) -> None:
        """Owners return to their first templates, other programs remove their gates, admission and second budgets end."""
        self._admit_as_before()
        for budget in self._api.list(BUDGET):
            self._api.delete(budget)
        for budget in self._plan.budgets:
            self._api.create(budget)
        for workload in self._plan.workloads:
            found = self._owned.found(workload)
            if found is not None:
                first = workload.body["spec"]["template"]
                wanted: Obj = {"template": _replacing(spec(found)["template"], first)}
                self._owned.patch(
                    workload, wanted | ({"paused": None} if workload.kind == "Deployment" else {})
                )
        for pod in self._api.list(POD):
            gates = spec(pod).get("schedulingGates") or ()
            left = [g for g in gates if g["name"] != FOREIGN_GATE]
            if len(left) < len(gates) and not deleting(pod):
                self._api.patch(pod, {"spec": {"schedulingGates": left or None}})

    # Budgets and replicas

    def _tighten_budget(self) -> None:
        workload = self._owned.hit()
        if workload is None:
            return
        limits = self._rng.choice(({"maxUnavailable": 0}, {"minAvailable": "100%"}, {"maxUnavailable": 1}))
        found = self._api.get(BUDGET, "default", workload.name)
        if found is None:
            self._create_budget(workload.name, workload, limits)
        else:
            cleared = {"maxUnavailable": None, "minAvailable": None}
            self._api.patch(found, {"spec": {**cleared, **limits}})

    def _delete_budget(self) -> None:
        found = self._api.list(BUDGET)
        if found:
            budget = self._rng.choice(found)
            self._script.hits.add(f"budget {key(budget).name}")
            self._api.delete(budget)

    def _second_budget(self) -> None:
        workload = self._owned.hit()
        if workload is not None:
            self._create_budget(f"{workload.name}-second", workload, {"maxUnavailable": 1})

    def _create_budget(self, name: str, workload: Workload, limits: Obj) -> None:
        self._api.create(documents.budget(name, workload.name, namespace="default", **limits))

    def _resize(self, by: int) -> None:
        workload = self._owned.hit()
        if workload is not None:
            self._asks.resize(workload, self._asks.sizes[workload.name] + by)

    # Admission

    def _admit(self, expression: str) -> None:
        self._admit_as_before()
        for obj in admission.policy(expression):
            self._api.create(obj)

    def _admit_as_before(self) -> None:
        for kind in (GATE_BINDING, GATE_POLICY):
            found = self._api.get(kind, "", admission.NAME)
            if found is not None:
                self._api.delete(found)


def _replacing(old: Any, new: Any) -> Any:
    """The merge patch that makes ``old`` equal to ``new``."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return copy.deepcopy(new)
    return {
        **{name: None for name in old if name not in new},
        **{n: _replacing(old.get(n), v) for n, v in new.items()},
    }
