"""The scenario of the demonstration, made through the API in the order in which it happens in life.

1. Four nodes in two zones run all workloads and are nearly full.
2. Five nodes join, three of them in a new zone: the old nodes stay overloaded, and ``web`` is spread 3/3/0.
3. One node is tainted for maintenance while pods run on it.
4. A node loses the label ``disk=ssd`` that ``payments`` requires.
5. An inventory correction puts both ``kafka`` pods into one rack, against their anti-affinity.
6. Short-lived ``crawler`` jobs come and go all the time and take whatever room is free, also on the two small
   nodes (tainted for those who ask for them) that are the only places ``payments`` may move to: without a
   reservation its room would be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rescheduler.model.names import ANNOTATION_EVICT
from rescheduler.sim.controllers.api import Api
from rescheduler.sim.controllers.wire import NODE, POD, Key, Obj, key, labels, meta, ready, spec
from rescheduler.sim.demo.workloads import RACK, SSD_ONLY, all_workloads, crawler
from rescheduler.sim.machines import MachineSpec, node_object

NAMESPACE = "shop"
PATIENCE_S = 60.0

OLD_NODES = (
    MachineSpec(name="a1", zone="zone-a", labels={RACK: "r1", "disk": "ssd"}),
    MachineSpec(name="a2", zone="zone-a", labels={RACK: "r1"}),
    MachineSpec(name="b1", zone="zone-b", labels={RACK: "r2", "disk": "ssd"}),
    MachineSpec(name="b2", zone="zone-b", labels={RACK: "r2"}),
)
NEW_NODES = (
    MachineSpec(name="a3", zone="zone-a", cpu="1", labels={RACK: "r3", "disk": "ssd"}, taints=(SSD_ONLY,)),
    MachineSpec(name="b3", zone="zone-b", labels={RACK: "r3"}),
    MachineSpec(name="c1", zone="zone-c", cpu="1", labels={RACK: "r4", "disk": "ssd"}, taints=(SSD_ONLY,)),
    MachineSpec(name="c2", zone="zone-c", labels={RACK: "r4"}),
    MachineSpec(name="c3", zone="zone-c", labels={RACK: "r5"}),
)


class Stage(Protocol):
    """The cluster that the scenario is played on: an API, and a way to wait for it."""

    @property
    def api(self) -> Api:
        """Reads and writes."""
        ...

    def wait_for(self, predicate: Callable[[], bool], limit_s: float) -> float:
        """Let time pass until the predicate holds; raises if it does not."""
        ...


def build(cluster: Stage) -> None:
    """Play the scenario up to the moment when tidying can begin."""
    api = cluster.api
    for machine in OLD_NODES:
        api.create(node_object(machine))
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    wanted = 0
    for obj in all_workloads(NAMESPACE):
        api.create(obj)
        wanted += int(spec(obj).get("replicas") or 0)
    cluster.wait_for(lambda: _running(api) == wanted, PATIENCE_S)
    for machine in NEW_NODES:
        api.create(node_object(machine))
    _taint_for_maintenance(api, "b1")
    _relabel(api, "a1", {"disk": "hdd"})
    _correct_racks(api)
    api.create(crawler(NAMESPACE, {ANNOTATION_EVICT: "false"}))


def _running(api: Api) -> int:
    return sum(ready(p) for p in api.list(POD) if key(p).namespace == NAMESPACE)


def _taint_for_maintenance(api: Api, node: str) -> None:
    found = _node(api, node)
    taint = {"key": "maintenance", "value": "planned", "effect": "NoSchedule"}
    api.patch(found, {"spec": {"taints": [*(spec(found).get("taints") or []), taint]}})


def _relabel(api: Api, node: str, changed: dict[str, str]) -> None:
    api.patch(_node(api, node), {"metadata": {"labels": changed}})


def _correct_racks(api: Api) -> None:
    """The node of kafka-1 turns out to stand in the rack of kafka-0's node."""
    racks = {meta(n)["name"]: labels(n).get(RACK, "") for n in api.list(NODE)}
    homes = {key(p): str(spec(p).get("nodeName") or "") for p in api.list(POD)}
    first, second = homes[Key(NAMESPACE, "kafka-0")], homes[Key(NAMESPACE, "kafka-1")]
    _relabel(api, second, {RACK: racks[first]})


def _node(api: Api, name: str) -> Obj:
    found = api.get(NODE, "", name)
    if found is None:
        raise LookupError(f"the scenario's node {name} is gone")
    return found
