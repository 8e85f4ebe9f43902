"""Volcano's story in virtual time: jobs fill a cluster, and each day some pods have to start at once, with a window and without.

On the sandbox, with the controller that ``rescheduler run`` assembles. Jobs of 1 CPU take 99 % of the cluster, run 2 to 30 hours and never leave it free: others
always wait. Each day at two o'clock pods of 2 CPU come. Printed: how many of them started within 30 s of their creation, after how long, and how many jobs did not run
to their end.

    python -m bench.windows [--days 7] [--nodes 50] [--pods 10] [--ago 3h] [--seed 1]
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import click
import structlog

from harness import documents
from harness.histories.program import QUIET, Program, ProgramOptions
from kube_sandbox.controllers.unstructured import POD, GroupKind, spec, status
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.kubelet.objects import ANNOTATION_RUN_FOR
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.controller.ports import LoopTimings
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.installation import install
from rescheduler.model.names import MAXIMUM_RUNTIME

Labels = Mapping[str, str]
NONE: Labels = {}
HOUR_S = 3600.0
START_HOUR = 2
WITHIN_S = 30
WINDOW = GroupKind("rescheduler.dev", "ReservationWindow")
QUEUE = 10
"""Jobs that always wait for room."""
JOBS_OF_A_NODE = 10


@dataclass
class Day:
    """What became of the pods of one day."""

    gathered: str
    """Rooms that were held at the start."""
    started_s: list[int] = field(default_factory=list)
    """Seconds from creation to binding of those that started in time."""


@dataclass
class Figures:
    """What became of all."""

    days: list[Day] = field(default_factory=list)
    jobs: int = 0
    """Jobs that ended."""
    lost: int = 0
    """Jobs that did not run to their end: preempted, evicted or killed."""
    used: list[float] = field(default_factory=list)
    """Share of the CPU that is used, looked at each hour."""
    leftovers: int = 0
    """Reservations and placeholders that hold something an hour after the last window."""


class Story:
    """One cluster; ``window``: whether there is one; ``ago``: how long before its start room is gathered."""

    def __init__(self, *, nodes: int, pods: int, seed: int, window: bool, ago: str = "3h") -> None:
        self._rng = random.Random(seed)
        self._pods, self._nodes, self._window, self._ago = pods, nodes, window, ago
        self._cluster = Sandbox(kubelet=KubeletSettings(start_s=0.2, ready_s=0.3, stop_s=0.3), seed=seed)
        install(self._cluster.transport)
        for number in range(nodes):
            self._cluster.add_node(SandboxNode(name=f"n{number}", cpu="10100m", pods=40))
        self._api = self._cluster.api
        self._jobs: dict[str, float] = {}
        self._number = 0
        timings, lease = (
            LoopTimings(turn_s=15.0, stale_s=1e9),
            LeaseTiming(duration_s=600.0, renew_s=500.0, retry_s=120.0),
        )
        self._cluster.add(
            Program(
                self._cluster,
                random.Random(seed),
                ProgramOptions(document=QUIET + b"interval: 6h\n", timings=timings, lease=lease),
            )
        )
        self.figures = Figures()

    def run(self, days: int) -> Figures:
        """All days."""
        for _ in range(self._nodes * JOBS_OF_A_NODE):
            self._job(self._rng.uniform(0.1, 30) * HOUR_S)
        self._cluster.advance(60)
        if self._window:
            self._api.create(self._window_object())
        for _ in range(days):
            self._until(START_HOUR)
            self._day()
        self._until(START_HOUR + 2)
        self.figures.leftovers = sum(
            status(room).get("phase") not in ("Succeeded", "Failed")
            for room in self._api.list(GroupKind("rescheduler.dev", "Reservation"))
        )
        return self.figures

    def _until(self, hour: int) -> None:
        now = dt.datetime.fromtimestamp(self._cluster.clock(), dt.UTC)
        at = now.replace(hour=hour, minute=0, second=0, microsecond=0)
        ends_s = (at if at > now else at + dt.timedelta(days=1)).timestamp()
        while (left_s := ends_s - self._cluster.clock()) > 0:
            self._cluster.advance(min(300.0, left_s))
            self._tend()

    def _tend(self) -> None:
        """Ended jobs are taken away, as by a TTL; new ones take their places in the queue."""
        waiting, used, there = 0, 0.0, set()
        for pod in self._api.list(POD):
            name = pod["metadata"]["name"]
            if name.startswith("job-"):
                there.add(name)
                if status(pod).get("phase") == "Succeeded":
                    self.figures.jobs += 1
                    del self._jobs[name]
                    self._api.delete(pod, grace_s=0)
                elif not spec(pod).get("nodeName"):
                    waiting += 1
                else:
                    used += 1
            elif name.startswith("urgent-") and status(pod).get("phase") == "Succeeded":
                self._api.delete(pod, grace_s=0)
        for name in set(self._jobs) - there:
            self.figures.lost += 1
            del self._jobs[name]
        self.figures.used.append(used / (self._nodes * 10.1))
        for _ in range(QUEUE - waiting):
            self._job(self._rng.uniform(2, 30) * HOUR_S)

    def _day(self) -> None:
        found = self._api.get(WINDOW, "", "nightly")
        day = Day(gathered=(status(found) if found else {}).get("rooms", "-"))
        names = [f"urgent-{len(self.figures.days)}-{number}" for number in range(self._pods)]
        for name in names:
            self._pod(name, "2", 1800.0, labels={"app": "urgent"})
        waiting = set(names)
        for second in range(1, WITHIN_S + 1):
            self._cluster.advance(1.0)
            for name in sorted(waiting):
                pod = self._api.get(POD, "default", name)
                if pod is not None and spec(pod).get("nodeName"):
                    day.started_s.append(second)
                    waiting.discard(name)
        self.figures.days.append(day)
        for name in waiting:  # each day is a story of its own
            pod = self._api.get(POD, "default", name)
            if pod is not None:
                self._api.delete(pod, grace_s=0)

    def _job(self, run_s: float) -> None:
        self._number += 1
        name = f"job-{self._number}"
        self._jobs[name] = run_s
        # Three of five declare how long they run, a little more than it will be.
        notes = {MAXIMUM_RUNTIME: f"{int(run_s * 1.05)}s"} if self._rng.random() < 0.6 else {}
        self._pod(name, "1", run_s, notes=notes)

    def _pod(self, name: str, cpu: str, run_s: float, *, notes: Labels = NONE, labels: Labels = NONE) -> None:
        meta = {"name": name, "namespace": "default", "labels": dict(labels)}
        meta["annotations"] = {ANNOTATION_RUN_FOR: str(run_s), **notes}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {"restartPolicy": "Never", "containers": [container]}
        self._api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})

    def _window_object(self) -> dict:
        body = {
            "cron": f"0 {START_HOUR} * * *",
            "duration": "1h",
            "startReserveAgo": self._ago,
            "podNumToReserve": self._pods,
            "template": {"spec": documents.pod_spec("2")},
            "owners": [
                {"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "urgent"}}}
            ],
        }
        return documents.own("ReservationWindow", "nightly", body)


@click.command()
@click.option("--days", default=7, show_default=True)
@click.option("--nodes", default=50, show_default=True)
@click.option("--pods", default=10, show_default=True)
@click.option(
    "--ago", default="3h", show_default=True, help="How long before its start the window is gathered for."
)
@click.option("--seed", default=1, show_default=True)
def main(days: int, nodes: int, pods: int, ago: str, seed: int) -> None:
    """Print what became of the pods, day by day."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"seed {seed}: {nodes} nodes of 10.1 CPU, jobs of 1 CPU, {pods} pods of 2 CPU a day")
    for window in (True, False):
        began_s = time.process_time()
        found = Story(nodes=nodes, pods=pods, seed=seed, window=window, ago=ago).run(days)
        started = [second for day in found.days for second in day.started_s]
        slowest = f", the slowest after {max(started)} s" if started else ""
        print(
            f"{'with' if window else 'without'} a window: {len(started)} of {days * pods} started within {WITHIN_S} s{slowest}; "
            f"held at the start: {', '.join(day.gathered for day in found.days)}; jobs ended: {found.jobs}, not to their end: {found.lost}; "
            f"CPU used by jobs: {100 * statistics.mean(found.used):.1f} %; left over: {found.leftovers}; "
            f"{time.process_time() - began_s:.0f} s of CPU"
        )


if __name__ == "__main__":
    main()
