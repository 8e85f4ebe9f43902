"""The whole controller on a random cluster in virtual time: how many pods it moves in each hour, and whether any comes back.

The sandbox has an API server, a scheduler, kubelets and the controllers of workloads; the controller is the one that ``run``
assembles. Nothing disturbs the cluster, so the moves must end. Pods stand where ``clusters`` puts them, whatever their rules say.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from harness.histories.clusters import priority_classes
from harness.histories.program import Program, ProgramOptions
from harness.histories.user_requests import MOVE
from harness.rest.clusters import random_objects
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import Obj, group_kind, meta, spec, status
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.kinds import Kind

HOUR_S: Final = 3600.0
MOST_HOURS: Final = 24
"""The cool-down of workloads spreads what is to be moved of one over hours: as long as there are moves it goes on, up to here."""
_BEGIN_S: Final = 10.0
"""Until all pods run."""


@dataclass(slots=True)
class Landings:
    """Hears of the moves that succeed. A replacement has left the nodes that the pods before it left."""

    began_s: float
    now_s: Callable[[], float]
    by_hour: Counter[int] = field(default_factory=Counter)
    returns: list[str] = field(default_factory=list)
    after_others: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _left: dict[str, dict[str, int]] = field(default_factory=dict)
    """By uid of a pod: the nodes that it left, each with the number of landings until then."""
    _seen: set[str] = field(default_factory=set)

    def hear(self, change: ObjectChange) -> None:
        """A write of anybody."""
        found = change.object
        if group_kind(found) != MOVE or meta(found)["uid"] in self._seen:
            return
        state = status(found)
        if state.get("phase") == "Failed":
            self._seen.add(meta(found)["uid"])
            self.failed.append(f"{meta(found)['name']}: {state.get('reason')}")
        if state.get("phase") == "Succeeded":
            self._seen.add(meta(found)["uid"])
            self._landed(found, state)

    def _landed(self, found: Obj, state: Obj) -> None:
        number = sum(self.by_hour.values())
        self.by_hour[int((self.now_s() - self.began_s) // HOUR_S)] += 1
        left = {**self._left.get(spec(found)["podRef"]["uid"], {}), state["sourceNode"]: number}
        self._left[state["replacement"]["uid"]] = left
        target = state["nodeName"]
        if target in left:
            # Where nothing else moved since it left that node, nothing is better than it was.
            course = self.after_others if number - left[target] > 1 else self.returns
            course.append(f"move {number} {meta(found)['name']} returns to {target}: {spec(found)['reason']}")


@dataclass(frozen=True, slots=True)
class ControllerCourse:
    """What the controller did."""

    moves: tuple[int, ...]
    """That landed, by hour."""
    returns: tuple[str, ...]
    """Pods that came back to a node that they, or those that they replace, had left, with no other move between; in words."""
    returns_after_others: tuple[str, ...]
    """The same after other moves."""
    failed: tuple[str, ...]
    """Moves that did not succeed, with their reason."""
    damaged: tuple[str, ...]
    """Objects in a state that there must not be."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not happen, in words."""
        late = (f"moves by hour {self.moves}",) if self.moves[-1] else ()
        return (*late, *self.returns, *self.damaged)


def controller_course(seed: int, document: bytes, *, hours: int) -> ControllerCourse:
    """Run the controller with this configuration for at least so many hours of virtual time, and then until one without a move."""
    chance = random.Random(seed)  # noqa: S311 -- no secret, and the same course for the same seed
    cluster = Sandbox(
        seed=seed, interleave=True, kubelet=KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
    )
    install(cluster.transport)
    for each in priority_classes():
        cluster.api.create(each)
    _create(cluster, random_objects(seed, stateful=False))
    cluster.advance(_BEGIN_S)
    landings = Landings(cluster.clock(), cluster.clock)
    cluster.api.subscribe(landings.hear)
    program = Program(cluster, chance, ProgramOptions(document=document))
    cluster.add(program)
    ran = 0
    while ran < hours or (landings.by_hour[ran - 1] and ran < MOST_HOURS):
        cluster.advance(HOUR_S)
        ran += 1
    return ControllerCourse(
        tuple(landings.by_hour[hour] for hour in range(ran)),
        tuple(landings.returns),
        tuple(landings.after_others),
        tuple(landings.failed),
        tuple(program.events.damaged),
    )


def _create(cluster: Sandbox, builders: list[Any]) -> None:
    uids: dict[str, str] = {}
    for builder in builders:
        body = builder.manifest()
        meta_ = body["metadata"]
        for key in ("uid", "resourceVersion", "creationTimestamp", "generation"):
            meta_.pop(key, None)
        state = body.pop("status", {})
        if body["kind"] == Kind.NODE.value:
            _create_node(cluster, body, state)
            continue
        for owner in meta_.get("ownerReferences", ()):
            owner["uid"] = uids[owner["name"]]
        created = cluster.api.create(body)
        uids[meta_["name"]] = meta(created)["uid"]


def _create_node(cluster: Sandbox, body: Obj, state: Obj) -> None:
    taints = [(t["key"], t.get("value", ""), t["effect"]) for t in spec(body).get("taints", ())]
    node = SandboxNode(
        name=meta(body)["name"],
        cpu=state["allocatable"]["cpu"],
        labels=meta(body).get("labels", {}),
        taints=taints,
    )
    cluster.add_node(node)
    if spec(body).get("unschedulable"):
        created = next(
            o for o in cluster.api.everything() if o["kind"] == "Node" and meta(o)["name"] == node.name
        )
        cluster.api.patch(created, {"spec": {"unschedulable": True}})
