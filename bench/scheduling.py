"""Cost of the scheduling rules: building the state, following a change, filtering and scoring one pod.

``python bench/scheduling.py [NODES ...]`` prints one line per size (30 pods per node), and the cluster in
which nothing fits anywhere.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from collections.abc import Callable, Sequence

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
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, NodeSelectorTerm, Operator, Requirement
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.state import SchedulingState

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
PODS_PER_NODE = 30


def node(index: int, cpu_milli: int) -> Node:
    labels = {HOST: f"n{index}", ZONE: f"z{index % 3}", "pool": str(index % 7)}
    return Node(
        name=f"n{index}",
        labels=LabelSet(labels),
        allocatable=Resources(cpu_milli=cpu_milli, memory_bytes=128 << 30, pods=110),
        taints=(Taint("dedicated"),) if index % 20 == 0 else (),
    )


def spec(app: str, number: int) -> PodSpec:
    selector = LabelSelector((Requirement("app", Operator.IN, (app,)),))
    cpu, memory = (100, 200, 500)[number % 3], (1 << 28) * (1 + number % 4)
    term = NodeSelectorTerm((Requirement("pool", Operator.IN, (str(number % 7),)),))
    key = HOST if number % 4 else ZONE
    return PodSpec(
        requests=Resources(cpu_milli=cpu, memory_bytes=memory),
        score_cpu_milli=cpu,
        score_memory_bytes=memory,
        pod_anti_affinity=(PodAffinityTerm(selector, key),) if number % 2 == 0 else (),
        spread=(SpreadConstraint(2, ZONE, hard=number % 6 == 1, selector=selector),)
        if number % 3 == 1
        else (),
        node_affinity_preferred=(PreferredNodeTerm(10, term),) if number % 2 else (),
    )


def cluster(nodes: int, *, cpu_milli: int = 32_000) -> Snapshot:
    rng = random.Random(nodes)
    pods: dict[ObjectKey, Pod] = {}
    apps = nodes * PODS_PER_NODE // 15
    parts = [(spec(f"a{i}", i), LabelSet({"app": f"a{i}"}), f"team{i % 50}") for i in range(apps)]
    owners = [OwnerRef("apps/v1", "ReplicaSet", f"a{i}", f"u{i}") for i in range(apps)]
    for count in range(nodes * PODS_PER_NODE):
        app = count % apps
        shared, labels, namespace = parts[app]
        key = ObjectKey(namespace, f"p{count}")
        pods[key] = Pod(
            namespace=namespace,
            name=key.name,
            uid=key.name,
            node=f"n{(count * 7919 + rng.randrange(nodes)) % nodes}",
            spec=shared,
            labels=labels,
            controller=owners[app],
            held=shared.requests,
            held_score_cpu_milli=shared.score_cpu_milli,
            held_score_memory_bytes=shared.score_memory_bytes,
            phase=PodPhase.RUNNING,
        )
    made = {f"n{i}": node(i, cpu_milli) for i in range(nodes)}
    return Snapshot(taken_at_s=0.0, nodes=made, pods=pods)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def moves(state: SchedulingState, pods: Sequence[Pod]) -> dict[str, float]:
    """Microseconds per step of moving each pod to its best node, one after the other."""
    spent = {"remove": 0.0, "filter": 0.0, "score": 0.0, "place": 0.0}
    for pod in pods:
        marks = [time.perf_counter()]
        state.remove(pod)
        marks.append(time.perf_counter())
        result = state.filter(pod)
        marks.append(time.perf_counter())
        points = state.score(pod, result.feasible)
        marks.append(time.perf_counter())
        if result.any():
            state.place(pod, state.node_names[int((points.total * result.feasible).argmax())])
        marks.append(time.perf_counter())
        for name, start, end in zip(spent, marks, marks[1:], strict=False):
            spent[name] += end - start
    return {name: seconds / len(pods) * 1e6 for name, seconds in spent.items()}


def measure(nodes: int) -> None:
    snapshot = cluster(nodes)
    states: list[SchedulingState] = []
    build = timed(lambda: states.append(SchedulingState(snapshot)))
    state = states[0]
    pods = dict(snapshot.pods)
    for key in list(pods)[:100]:
        del pods[key]
    sync = timed(lambda: state.sync(dataclasses.replace(snapshot, pods=pods)))
    chosen = random.Random(1).sample(list(pods.values()), min(2000, len(pods)))
    cold, warm = moves(state, chosen), {}
    undo = timed(lambda: state.rollback(0))
    warm = moves(state, chosen)
    state.rollback(0)
    explain = timed(lambda: state.explain(chosen[0]))
    print(
        f"{nodes:6d} nodes {len(pods):7d} pods: build {build * 1e3:7.1f} ms, sync 100 gone {sync * 1e3:6.1f} ms, "
        f"rollback of {len(chosen)} moves {undo * 1e3:6.1f} ms, explain {explain * 1e3:6.1f} ms"
    )
    for label, figures in (("first", cold), ("again", warm)):
        words = ", ".join(f"{name} {micros:6.1f} us" for name, micros in figures.items())
        print(f"       {label} time per pod: {words}")


def full(nodes: int) -> None:
    """Every pod is asked where else it could go, and nothing fits."""
    snapshot = cluster(nodes, cpu_milli=1)
    state = SchedulingState(snapshot)
    kinds = {(pod.spec, pod.labels): pod for pod in snapshot.pods.values()}

    def ask_all() -> None:
        for pod in kinds.values():
            if state.filter(pod).any():
                raise SystemExit("something fits")

    seconds = timed(ask_all)
    print(
        f"full cluster of {nodes} nodes, {len(snapshot.pods)} pods, {len(kinds)} classes: {seconds * 1e3:.1f} ms"
    )


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [500, 1000, 5000]
    for nodes in sizes:
        measure(nodes)
    full(300)


if __name__ == "__main__":
    main()
