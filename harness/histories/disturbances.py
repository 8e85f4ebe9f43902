"""The disturbances of a history, by name: gentle ones, which must break no invariant, and rough ones.

Gentle: refused calls, lost answers, late watches, crashes, a scheduler that is away, many pods of the same or of lower
priority. Rough: what makes it impossible to keep a promise (nodes that fail, objects that users delete, many pods of
higher priority, rollouts); the objects that a rough disturbance hits are recorded in ``Script.hits``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from harness.histories.clusters import ClusterPlan, lone_pod
from harness.histories.observed_cluster import usable
from harness.histories.program import Program
from harness.histories.script import Script
from harness.histories.user_requests import KINDS, MOVE, ROOM, Asks
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    GroupKind,
    Obj,
    deleting,
    key,
    labels,
    spec,
    status,
    uid,
)
from kube_sandbox.installing import install
from kube_sandbox.nodes import ready_condition
from kube_sandbox.sandbox import Outage, Sandbox
from rescheduler.kube.gate import POLICY_NAME
from rescheduler.model.kinds import Kind
from rescheduler.model.names import HISTORY_CONFIG_MAP, LABEL_PLACEHOLDER

MAP: Final = GroupKind("", "ConfigMap")
GATE_POLICY: Final = GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicy")
GATE_BINDING: Final = GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding")
CROWD: Final = "crowd"
_IN_LINE: Final = (12, 24)
"""The least and the most pods of a queue: more than fit into the free room of most clusters."""

_STALLING: Final = (Kind.POD, Kind.POD, Kind.NODE, Kind.RESERVATION, Kind.POD_MIGRATION, Kind.REPLICA_SET)
_LEAST_AWAY_S: Final = 1.0
_MOST_AWAY_S: Final = (3.0, 8.0, 20.0)
_ONLY_US: Final = 0.2
"""Share of the outages in which only the program is cut off from the API server."""
_FORGETS: Final = 0.7
"""Share of the outages after which watches cannot continue and must list again."""

Disturbance = Callable[[], None]


class Disturbances:
    """All disturbances that are not requests of users. ``gentle`` and ``rough`` return them by name."""

    def __init__(
        self,
        cluster: Sandbox,
        rng: random.Random,
        *,
        plan: ClusterPlan,
        script: Script,
        asks: Asks,
        program: Program,
    ) -> None:
        self._cluster, self._api, self._rng = cluster, cluster.api, rng
        self._plan, self._script, self._asks, self._program = plan, script, asks, program
        self._serial = 0

    @property
    def gentle(self) -> Mapping[str, Disturbance]:
        """Disturbances that must break no invariant."""
        return {
            "crowd of the same priority": lambda: self._crowd(self._plan.priority_class, self._some()),
            "crowd of lower priority": lambda: self._crowd("low", self._some()),
            "scheduler restarted": self._cluster.restart_scheduler,
            "scheduler away": self._scheduler_away,
            "controller killed between calls": self._program.kill,
            "watch stalls": self._watch_stalls,
            "refusals and lost answers": self._trouble,
            "API server away": self._api_server_away,
        }

    @property
    def rough(self) -> Mapping[str, Disturbance]:
        """Disturbances that may excuse a broken invariant of the objects that they hit."""
        return {
            "crowd of higher priority": self._crowd_of_higher_priority,
            "node cordoned": self._cordon,
            "node not ready": self._node_not_ready,
            "node deleted": self._node_deleted,
            "rollout": self._rollout,
            "scaled up": self._asks.scale(+1),
            "scaled down": self._asks.scale(-1),
            "owner deleted": self._owner_deleted,
            "reservation deleted": lambda: self._delete_one(ROOM),
            "move deleted": lambda: self._delete_one(MOVE),
            "move paused or resumed": self._pause_or_resume,
            "placeholder deleted": self._placeholder_deleted,
            "pod deleted": self._pod_deleted,
            "gate ConfigMap deleted": self._gate_map_deleted,
            "gate policy removed": self._gate_policy_removed,
            "history ConfigMap deleted": self._history_map_deleted,
        }

    def contend(self) -> None:
        """Rough: pods of higher priority that preempt no pod, and stay pending for whatever becomes free."""
        self._script.hits.add("higher priority")
        self._crowd("patient", self._rng.randint(*_IN_LINE))

    def contend_gently(self) -> None:
        """Gentle: pods of the same priority, so many that some stay pending for whatever becomes free."""
        cpus = sum(int(machine.cpu) for machine in self._plan.machines)
        self._crowd(self._plan.priority_class, cpus * 3 // 4 + self._some())

    def calm_down(self) -> None:
        """End all faults, repair the nodes and delete the crowds; what users deleted stays deleted."""
        self._script.clear()
        self._program.be_kind()
        if self._cluster.scheduler_down:
            self._cluster.restart_scheduler()
        if "gate" in self._script.hits:
            install(self._cluster.transport)
        for machine in self._plan.machines:
            node = self._api.get(NODE, "", machine.name)
            if node is None:
                self._cluster.add_node(machine)
                continue
            if not usable(node):
                self._api.patch(node, {"spec": {"unschedulable": None}})
                self._set_ready(machine.name, "True")
        for pod in self._api.list(POD):
            if labels(pod).get("app") == CROWD and not deleting(pod):
                self._api.delete(pod)

    # Gentle

    def _some(self) -> int:
        return self._rng.randint(2, 8)

    def _crowd(self, priority_class: str, pods: int) -> None:
        """Create ``pods`` pods that compete for free room."""
        for _ in range(pods):
            self._serial += 1
            cpu_milli = self._rng.choice((500, 500, 1000))
            self._api.create(
                lone_pod(
                    f"crowd-{self._serial}", cpu_milli=cpu_milli, priority_class=priority_class, label=CROWD
                )
            )

    def _scheduler_away(self) -> None:
        self._cluster.stop_scheduler()
        self._later(self._rng.choice((0.3, 2.0, 6.0)), "scheduler back", self._cluster.restart_scheduler)

    def _watch_stalls(self) -> None:
        kind = self._rng.choice(_STALLING)
        self._program.caches.stall(kind, self._cluster.clock() + self._rng.choice((0.2, 1.0, 3.0, 8.0)))

    def _trouble(self) -> None:
        line = self._program.line
        line.trouble = self._rng.choice((0.1, 0.3, 0.6))

        def over() -> None:
            line.trouble = 0.0

        self._later(self._rng.choice((0.5, 3.0, 8.0)), "answers again", over)

    def _api_server_away(self) -> None:
        began_s = self._cluster.clock()
        until_s = began_s + self._rng.uniform(_LEAST_AWAY_S, self._rng.choice(_MOST_AWAY_S))
        forgotten = self._rng.random() < _FORGETS
        self._program.lose_api_server(until_s, forgotten=forgotten)
        if self._rng.random() < _ONLY_US:
            return
        self._script.rest(until_s)
        self._cluster.lose_api_server(Outage.draw(self._rng, began_s, until_s))

    # Rough

    def _crowd_of_higher_priority(self) -> None:
        self._script.hits.add("higher priority")
        self._crowd("high", self._some())

    def _cordon(self) -> None:
        name = self._some_node()
        self._hit_node(name)
        self._patch_node(name, {"spec": {"unschedulable": True}})
        self._later(
            self._rng.choice((1.0, 5.0, 100.0)),
            "node uncordoned",
            lambda: self._patch_node(name, {"spec": {"unschedulable": None}}),
        )

    def _node_not_ready(self) -> None:
        name = self._some_node()
        self._hit_node(name)
        self._set_ready(name, self._rng.choice(("False", "Unknown")))
        self._later(
            self._rng.choice((1.0, 5.0, 100.0)), "node ready again", lambda: self._set_ready(name, "True")
        )

    def _node_deleted(self) -> None:
        name = self._some_node()
        self._hit_node(name)
        node = self._api.get(NODE, "", name)
        if node is not None:
            self._api.delete(node)

    def _rollout(self) -> None:
        workload = self._rng.choice(self._plan.workloads)
        found = self._api.get(KINDS[workload.kind], "default", workload.name)
        if found is None:
            return
        self._script.hits.add(f"workload {workload.name}")
        self._serial += 1
        notes = {"version": str(self._serial)}
        self._api.patch(found, {"spec": {"template": {"metadata": {"annotations": notes}}}})

    def _owner_deleted(self) -> None:
        workload = self._rng.choice(self._plan.workloads)
        found = self._api.get(KINDS[workload.kind], "default", workload.name)
        if found is not None:
            self._asks.forget(workload)
            self._api.delete(found)

    def _delete_one(self, kind: GroupKind) -> None:
        found = [o for o in self._api.list(kind) if status(o).get("phase") not in ("Succeeded", "Failed")]
        if found:
            self._delete(self._rng.choice(found))

    def _pause_or_resume(self) -> None:
        found = [o for o in self._api.list(MOVE) if status(o).get("phase") not in ("Succeeded", "Failed")]
        if found:
            move = self._rng.choice(found)
            self._api.patch(move, {"spec": {"paused": not spec(move).get("paused", False)}})

    def _placeholder_deleted(self) -> None:
        found = [p for p in self._api.list(POD) if LABEL_PLACEHOLDER in labels(p) and not deleting(p)]
        if found:
            self._delete(self._rng.choice(found))

    def _pod_deleted(self) -> None:
        found = [p for p in self._api.list(POD) if LABEL_PLACEHOLDER not in labels(p) and not deleting(p)]
        if found:
            self._delete(self._rng.choice(found))

    def _gate_map_deleted(self) -> None:
        found = self._api.get(MAP, "rescheduler", "gate-keys")
        if found is not None:
            self._script.hits.add("gate")
            self._api.delete(found)

    def _history_map_deleted(self) -> None:
        found = self._api.get(MAP, "rescheduler", HISTORY_CONFIG_MAP)
        if found is not None:
            self._script.hits.add("history")
            self._api.delete(found)

    def _gate_policy_removed(self) -> None:
        found = self._api.get(self._rng.choice((GATE_POLICY, GATE_BINDING)), "", POLICY_NAME)
        if found is not None:
            self._script.hits.add("gate")
            self._api.delete(found)
            self._later(
                self._rng.choice((1.0, 20.0)), "gate policy back", lambda: install(self._cluster.transport)
            )

    # Common

    def _delete(self, obj: Obj) -> None:
        self._script.hits.add(uid(obj))
        self._api.delete(obj)

    def _hit_node(self, name: str) -> None:
        self._script.hits.add(f"node {name}")

    def _some_node(self) -> str:
        return self._rng.choice([key(n).name for n in self._api.list(NODE)] or ["n1"])

    def _patch_node(self, name: str, change: Obj) -> None:
        node = self._api.get(NODE, "", name)
        if node is not None:
            self._api.patch(node, change)

    def _set_ready(self, name: str, value: str) -> None:
        node = self._api.get(NODE, "", name)
        if node is not None:
            self._api.patch(node, {"status": {"conditions": [ready_condition(value)]}}, subresource="status")

    def _later(self, after_s: float, name: str, do: Disturbance) -> None:
        self._script.at(self._cluster.clock() + after_s, name, do)
