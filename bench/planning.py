"""Clusters of records for benches, and decisions on them, measured as those of the controller: ``bench/run.py`` prints them.

"Cold" is a first decision, building the scheduling state included; "warm" is one after which 100 pods changed, with the state of
the decisions before. Snapshots know which pods changed, as those of the controller do. The collector is paused, and skipped pods
are counted by reason after the moves have begun, so the first figure is the time until the moves are known. Seconds are those of
the process (CPU), so that other work on the machine does not count. Reading and decoding are not part of the figures.
"""

from __future__ import annotations

import dataclasses
import gc
import random
import time

import msgspec

from rescheduler.model.holding import holding
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.records import (
    Node,
    ObjectKey,
    OwnerRef,
    Pod,
    PodAffinityTerm,
    PodPhase,
    PodSpec,
    PreferredNodeTerm,
    SpreadConstraint,
    Taint,
    Workload,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, NodeSelectorTerm, Operator, Requirement
from rescheduler.model.snapshot import ChangeLog, Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import decide
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

NOW_S = 1_800_000_000.0
PODS_PER_NODE = 30
REPLICAS = 30
GIB = 1 << 30


def make_nodes(count: int, cpu_milli: int) -> dict[str, Node]:
    found = {}
    for i in range(count):
        name = f"node-{i:05d}"
        labels = {HOSTNAME: name, ZONE: f"zone-{i % 3}", "disk": "ssd" if i % 4 == 0 else "hdd"}
        taints = (Taint("dedicated", "team"),) if i % 20 == 7 else ()
        found[name] = Node(
            name=name,
            uid=name,
            labels=LabelSet(labels),
            taints=taints,
            allocatable=Resources(
                cpu_milli=cpu_milli, memory_bytes=64 * GIB, pods=110, ephemeral_bytes=100 * GIB
            ),
        )
    return found


def make_spec(app: str, number: int, cpu_milli: int) -> PodSpec:
    own = LabelSelector((Requirement("app", Operator.IN, (app,)),))
    spread = (SpreadConstraint(5, ZONE, hard=True, selector=own),) if number % 3 == 0 else ()
    apart = (PodAffinityTerm(own, HOSTNAME),) if number % 2 == 0 else ()
    likes = NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),))
    preferred = (PreferredNodeTerm(10, likes),) if number % 2 == 1 else ()
    requests = Resources(cpu_milli=cpu_milli, memory_bytes=GIB // 4)
    return PodSpec(
        requests=requests,
        score_cpu_milli=cpu_milli,
        score_memory_bytes=GIB // 4,
        spread=spread,
        pod_anti_affinity=apart,
        node_affinity_preferred=preferred,
    )


def make_cluster(count: int, *, full: bool = False, seed: int = 1) -> Snapshot:
    """``full``: every node has less CPU free than any pod asks for."""
    rng = random.Random(seed)
    cpu = 100
    nodes = make_nodes(count, cpu * PODS_PER_NODE + (50 if full else 8_000))
    names = list(nodes)
    apps = count * PODS_PER_NODE // REPLICAS
    pods: dict[ObjectKey, Pod] = {}
    workloads: dict[str, Workload] = {}
    slots = [name for name in names for _ in range(PODS_PER_NODE)]
    rng.shuffle(slots)
    if not full:  # a tenth of the nodes is twice as full as it should be, another tenth empty
        empty, crowded = set(names[: count // 10]), names[count // 10 : count // 5]
        slots = [crowded[i % len(crowded)] if s in empty else s for i, s in enumerate(slots)]
    at = 0
    for number in range(apps):
        app = f"app-{number:05d}"
        namespace = f"ns-{number % max(1, count // 50):03d}"
        spec, labels = make_spec(app, number, cpu), LabelSet({"app": app})
        state = holding(spec, phase=PodPhase.RUNNING, ready=True)
        owner = OwnerRef("apps/v1", "ReplicaSet", app, app)
        workloads[app] = Workload(
            kind="ReplicaSet", namespace=namespace, name=app, uid=app, replicas=REPLICAS, template=spec,
            template_labels=labels,
        )  # fmt: skip
        for i in range(REPLICAS):
            pod = Pod(
                namespace=namespace, name=f"{app}-{i}", uid=f"{app}-{i}", node=slots[at], spec=spec, labels=labels,
                controller=owner, created_at_s=NOW_S - 1e6, state=state,
            )  # fmt: skip
            pods[pod.key] = pod
            at += 1
    return Snapshot(taken_at_s=NOW_S, nodes=nodes, pods=pods, workloads=workloads)


def policies(*names: str) -> list[Policy]:
    args = {"NodeAffinity": {"types": ("required", "preferred")}}
    return [REGISTRY[n].build(REGISTRY[n].args(**args.get(n, {}))) for n in (names or REGISTRY)]


def marked(snapshot: Snapshot) -> tuple[Snapshot, ChangeLog]:
    """The snapshot as the informers give it, and their log of changes."""
    log = ChangeLog()
    return dataclasses.replace(snapshot, pod_log=log.position(snapshot.pods)), log


def changed(snapshot: Snapshot, number: int, log: ChangeLog | None = None) -> Snapshot:
    pods = dict(snapshot.pods)
    for key in list(pods)[:number]:
        pods[key] = msgspec.structs.replace(pods[key], ready_since_s=NOW_S)
        if log is not None:
            log.append(key)
    return dataclasses.replace(snapshot, pods=pods, pod_log=None if log is None else log.position(pods))


@dataclasses.dataclass(frozen=True)
class Measured:
    """One decision: CPU seconds until its moves were known, and until the skipped pods were counted; both numbers."""

    known_s: float
    counted_s: float
    moves: int
    skipped: int


@dataclasses.dataclass
class Decider:
    """One controller: what it keeps between decisions."""

    policies: list[Policy]
    unlimited: bool = False
    state: SchedulingState | None = None

    def measured(self, snapshot: Snapshot) -> Measured:
        """Decide once."""
        gc.disable()  # as the controller does while it decides
        start = time.process_time()
        if self.state is None:
            self.state = SchedulingState(snapshot)
        inputs = PlanningInputs(unlimited=self.unlimited)
        made = decide(snapshot, self.policies, inputs, self.state)
        known_s = time.process_time() - start
        skipped = made.skipped.tally().reasons.total()
        counted_s = time.process_time() - start
        made.end()
        gc.enable()
        return Measured(known_s, counted_s, len(made.moving.moves), skipped)
