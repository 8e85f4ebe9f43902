"""Cost of the scheduling rules: building the state, following a change, filtering and scoring one pod.

``python -m bench.scheduling [NODES ...]`` prints one line per size (30 pods per node), and the cluster in
which nothing fits anywhere.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from collections.abc import Callable, Sequence

from bench.planning import make_cluster
from rescheduler.model.records import Pod
from rescheduler.scheduling.state import SchedulingState


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
    snapshot = make_cluster(nodes)
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
    snapshot = make_cluster(nodes, full=True)
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
