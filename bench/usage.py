"""What measured usage costs: CPU and bytes per pod of a reading, of its window, and of a decision by it.

``python bench/usage.py --pods 150000`` makes an answer of metrics.k8s.io with two containers each, reads it as the controller does,
fills the window, and lets LowNodeUtilization decide about a cluster of 30 pods a node. Run it alone on a quiet machine; CPU is ``thread_time``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rescheduler.coordination.usage_window import UsageWindow
from rescheduler.kube.client import KubeApi
from rescheduler.kube.metrics_api import pod_usage
from rescheduler.kube.transport import Request, Response
from rescheduler.model.kinds import Kind
from rescheduler.model.measured import NodeUsage
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp
from rescheduler.model.usage import MeasuredUsage, Readings, usage_key
from rescheduler.model.usage_settings import UsageSettings
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b

PODS_PER_NODE = 30
SAMPLES = 10
T = TypeVar("T")


class Answers:
    """A transport that gives one body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def send(self, _request: Request) -> Response:
        """The body."""
        return Response(200, self._body, {"content-type": "application/json"})


def timed(what: str, pods: int, work: Callable[[], T]) -> T:
    """Print what the work costs."""
    began = time.thread_time()
    found = work()
    spent = time.thread_time() - began
    print(f"{what:<44}{spent * 1000:9.0f} ms {spent / pods * 1e6:8.2f} µs per pod")
    return found


def answer(pods: int, rng: random.Random) -> bytes:
    """PodMetricsList as metrics-server writes it."""
    items = [
        {
            "metadata": {
                "name": f"web-{i}",
                "namespace": "default",
                "labels": {"app": "web", "pod-template-hash": "7c9d8b"},
            },
            "timestamp": format_timestamp(b.NOW_S + i % 15),
            "window": "15.2s",
            "containers": [
                {
                    "name": name,
                    "usage": {"cpu": f"{rng.randrange(10**8)}n", "memory": f"{rng.randrange(10**6)}Ki"},
                }
                for name in ("main", "sidecar")
            ],
        }
        for i in range(pods)
    ]
    return json.dumps({"kind": "PodMetricsList", "items": items}).encode()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=150_000)
    pods = parser.parse_args().pods
    rng = random.Random(1)
    body = answer(pods, rng)
    print(f"{pods:,} pods, {len(body) / 1e6:.0f} MB of PodMetrics")
    api = KubeApi(Answers(body))  # type: ignore[arg-type]
    found = timed("reading PodMetrics (on a thread of the pool)", pods, lambda: pod_usage(api))
    keys = [ObjectKey("default", f"web-{i}") for i in range(pods)]
    for hours in (1 / 12, 24):
        window = UsageWindow(settings=UsageSettings(window_s=hours * 3600))
        for number in range(SAMPLES):
            later = dataclasses.replace(found, at_s=found.at_s + 30.0 * number)
            window.add([NodeUsage("n0", 1, 1, b.NOW_S + 30.0 * number)], later)
        for words, later_s in (("one sample more", 290.0), ("one sample more, and the day", 400.0)):
            later = dataclasses.replace(found, at_s=found.at_s + later_s)
            node = NodeUsage("n0", 1, 1, b.NOW_S + later_s)
            timed(f"{words}, window of {hours:g} h", pods, lambda w=window, f=later, n=node: w.add([n], f))
        print(f"{'':<44}{window.bytes_per_pod:9.0f} bytes per pod")
        usage = window.pods
        if usage is not None:
            timed("the statistic of each", pods, lambda u=usage: u.column(keys, "cpu"))
    decide(pods, rng)


def crowd(nodes: int) -> Snapshot:
    """Workloads of 30 pods, on nodes next to one another. One pod of each is built, for a builder takes 2 ms; all others are its copies."""
    owners = [b.replicaset(f"app-{i}").replicas(PODS_PER_NODE) for i in range(nodes)]
    built = b.state(owner.pod(f"like-{i}").on("n0").cpu("200m") for i, owner in enumerate(owners))
    like = {pod.name: pod for pod in built.snapshot(b.NOW_S).pods.values()}
    state = b.state([*(b.node(f"n{i}").cpu("16") for i in range(nodes)), *owners])
    state.add(
        Kind.POD,
        [
            msgspec.structs.replace(
                like[f"like-{i // PODS_PER_NODE}"], name=f"web-{i}", uid=f"uid-{i}", node=f"n{i % nodes}"
            )
            for i in range(nodes * PODS_PER_NODE)
        ],
    )
    return state.snapshot(b.NOW_S)


def sampled(used: list[tuple[int, float]], nodes: int, at_s: float, rng: random.Random) -> MeasuredUsage:
    """What pods, by number, and their nodes use; 10 % off."""
    loads = dict.fromkeys(range(nodes), 0.0)
    for i, milli in used:
        loads[i % nodes] += milli
    found = Readings.of(
        (usage_key("default", f"web-{i}"), at_s, milli * rng.uniform(0.9, 1.1), 1e6) for i, milli in used
    )
    return MeasuredUsage(
        [NodeUsage(f"n{n}", round(milli), 1 << 30, at_s) for n, milli in loads.items()], found
    )


def decide(pods: int, rng: random.Random) -> None:
    """One decision with 1 % of the nodes too full by usage, and none by requests."""
    nodes = pods // PODS_PER_NODE
    cluster = crowd(nodes)
    window = UsageWindow()
    used = [
        (i, 900.0 if (i % nodes) % 100 == 0 and i < pods // 3 else 100.0)
        for i in range(nodes * PODS_PER_NODE)
    ]
    for hour in range(24, 0, -1):
        window.recall(sampled(used, nodes, cluster.taken_at_s - 3600 * hour, rng))
    for number in range(SAMPLES):
        look = sampled(used, nodes, cluster.taken_at_s - 300 + 30 * number, rng)
        window.add(look.nodes, look.pods)
    found = dataclasses.replace(
        cluster,
        usage={one.node: one for one in window.known},
        pod_usage=window.pods,
        node_samples=window.samples,
    )
    state = SchedulingState(found)
    kind = REGISTRY["LowNodeUtilization"]
    targets = {"thresholds": {"cpu": 30.0}, "target_thresholds": {"cpu": 50.0}}
    for usage in ("requests", "actual", "actual"):
        policy = kind.build(kind.args(usage=usage, **targets))
        inputs = PlanningInputs(aggressiveness=1.0)
        made = timed(f"a decision by {usage}", pods, lambda p=policy, i=inputs: plan(found, [p], i, state))
        print(f"{'':<44}{len(made.moves):9} moves")


if __name__ == "__main__":
    main()
