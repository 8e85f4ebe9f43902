"""``kubectl drain``, alone and with the guard, against ``rescheduler drain`` on the same generated clusters, on the real control plane.

    python -m bench.drain [--clusters 10] [--first SEED] [--limit 120]

Each cluster (``drained_clusters``: 7 to 9 nodes, 85 % of their CPU requested) is built once for each tool, with the same pods on the
same nodes. While the node is drained, in the clusters of even seeds, pods come that take the room they find, and run for 30 s. A pod
is Ready 2 s after it has started, and needs 1 s to end. Everything is counted from the events of a watch. A drain and what follows is watched
until the command has ended and all workloads are whole again, or until ``--limit``. Needs the binaries of ``make controlplane``.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from bench.drained_clusters import (
    NODE_CPU_MILLI,
    Cluster,
    Competitor,
    Figures,
    Sight,
    Workload,
    figures,
    generate,
)
from bench.stage import allowed, at_work, settled
from harness.controlplane.api import Json
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, is_ready, node_of
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.kubelet.objects import ANNOTATION_RUN_FOR
from rescheduler.model.counted import plural
from rescheduler.model.names import API_VERSION, LABEL_GUARD
from rescheduler.reports.table import table

KUBECTL, GUARDED, OURS = "kubectl drain", "kubectl drain, guarded", "rescheduler drain"
TOOLS: Final = (KUBECTL, GUARDED, OURS)
PODS: Final = KubeletSettings(start_s=0.2, ready_s=2.0, stop_s=1.0)
COMPETITORS_RUN_S: Final = 30
POLL_S: Final = 0.05
PROBE: Final = "probe-of-the-guard"
TOO_MANY: Final = 429
STOPS_LATE_S: Final = 15.0
"""After its own --timeout a command gets so long to end."""


@dataclass
class Watcher:
    """Follows the pods of a namespace and notes each event with the moment at which it came."""

    world: World
    sights: list[Sight] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    listed: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """List, then follow; a watch that ends goes on from the version that it came to."""
        path = self.world.path("pods")
        answer = self.world.api.get(path).expect()
        self.sights += [self._sight(pod) for pod in answer.items]
        self.listed.set()
        version = answer.version
        while not self.stop.is_set():
            for event in self.world.api.watch(path, seconds=2, resourceVersion=version):
                pod = event["object"]
                version = pod["metadata"]["resourceVersion"]
                self.sights.append(self._sight(pod, gone=event["type"] == "DELETED"))

    @staticmethod
    def _sight(pod: Json, *, gone: bool = False) -> Sight:
        metadata = pod["metadata"]
        return Sight(
            at_s=time.monotonic(),
            uid=metadata["uid"],
            app=metadata.get("labels", {}).get("app", ""),
            node=node_of(pod),
            ready=is_ready(pod) and not gone,
            gone=gone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One drain by one tool. ``code``: None if it was stopped. ``said``: the end of what it wrote."""

    figures: Figures
    code: int | None
    said: str


def build(world: World, cluster: Cluster, plane: ControlPlane) -> None:
    """The pods stand where the cluster says; kube-scheduler is away until they are bound."""
    for node in cluster.nodes:
        world.node(node, cpu=f"{NODE_CPU_MILLI}m")
    plane.kill_scheduler()
    for w in cluster.workloads:
        world.workload(w.kind, w.name, w.replicas, f"{w.cpu_milli}m", grace=30)
        if w.budget is not None:
            world.budget(w.name, w.name, **dict([w.budget]))
    for node, cpu_milli in cluster.ballast.items():
        world.pod(f"ballast-{node}", f"{cpu_milli}m", nodeName=f"{world.namespace}-{node}")
    for w in cluster.workloads:
        for pod, node in zip(created(world, w), w.nodes, strict=True):
            bind(world, pod, f"{world.namespace}-{node}")
    plane.start_scheduler()
    for w in cluster.workloads:
        world.wait_ready(w.name, w.replicas)
    settled(world)
    budgets = sum(w.budget is not None for w in cluster.workloads)
    world.wait(lambda: len(found := allowed(world)) == budgets and all(n > 0 for n in found))
    probe = world.pod("probe", "1m")
    world.wait_bound("probe")  # kube-scheduler is at work again
    world.delete_pod(probe, grace=0)
    world.wait_gone(probe)


def guard(world: World) -> None:
    """The namespace opts in, and the API server has seen it: an eviction of a pod that is not of the trial has to wait."""
    labels = {"metadata": {"labels": {LABEL_GUARD: "enabled"}}}
    world.api.patch(f"/api/v1/namespaces/{world.namespace}", labels).expect()
    world.workload("Deployment", PROBE, 1, "1m")

    def waits() -> bool:
        (pod,) = world.wait_ready(PROBE, 1)
        return world.evict(pod).status == TOO_MANY

    world.wait(waits)
    world.api.delete(world.path("deployments", PROBE, group="apps/v1")).expect()
    world.wait(lambda: not world.pods(PROBE))
    moves = world.path("podmigrations", group=API_VERSION)
    ended = {"Succeeded", "Failed"}
    world.wait(lambda: {m.get("status", {}).get("phase") for m in world.api.get(moves).items} <= ended)
    for move in world.api.get(moves).expect().items:
        world.api.delete(f"{moves}/{move['metadata']['name']}").expect()
    settled(world)


def created(world: World, workload: Workload) -> list[Json]:
    """The pods of a workload by name, as soon as all are there."""
    pods = world.wait(lambda: found if len(found := world.pods(workload.name)) == workload.replicas else [])
    return sorted(pods, key=lambda pod: pod["metadata"]["name"])


def bind(world: World, pod: Json, node: str) -> None:
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    world.api.create(world.path("pods", name, "binding"), body).expect()


def command(tool: str, plane: ControlPlane, node: str, limit_s: int) -> list[str]:
    """What a person would type."""
    words = ["drain", node, "--timeout", f"{limit_s}s", "--kubeconfig", str(plane.kubeconfig)]
    if tool in (KUBECTL, GUARDED):
        return [plane.kubectl, *words]
    return [sys.executable, "-c", "from rescheduler.cli.main import main; main()", *words]


def drain(tool: str, plane: ControlPlane, world: World, cluster: Cluster, limit_s: int) -> Outcome:
    """Let the tool drain the node of a cluster that stands, and watch."""
    node = f"{world.namespace}-{cluster.drained}"
    watcher = Watcher(world)
    thread = threading.Thread(target=watcher.run, daemon=True)
    thread.start()
    watcher.listed.wait(30)
    time.sleep(0.5)
    with tempfile.TemporaryFile("w+") as output:
        begun_s = time.monotonic()
        process = subprocess.Popen(
            command(tool, plane, node, limit_s), stdout=output, stderr=subprocess.STDOUT
        )
        coming = sorted(cluster.competitors, key=lambda c: c.after_s)
        while time.monotonic() < begun_s + limit_s:
            while coming and time.monotonic() >= begun_s + coming[0].after_s:
                arrive(world, coming.pop(0))
            if process.poll() is not None and not coming and whole(world, cluster):
                break
            time.sleep(POLL_S)
        ended_s = time.monotonic()
        try:
            code = process.wait(STOPS_LATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        output.seek(0)
        said = output.read()
    watcher.stop.set()
    thread.join(10)
    return Outcome(
        figures=figures(watcher.sights, cluster.workloads, node, begun_s, ended_s),
        code=code,
        said=said.replace(f"{world.namespace}-", "").replace(f"{world.namespace}/", ""),
    )


def arrive(world: World, competitor: Competitor) -> None:
    """A pod that runs for a while and ends."""
    world.pod(
        competitor.name,
        f"{competitor.cpu_milli}m",
        annotations={ANNOTATION_RUN_FOR: str(COMPETITORS_RUN_S)},
        restartPolicy="Never",
    )


def whole(world: World, cluster: Cluster) -> bool:
    """All pods that the workloads want are Ready, and no old one is left."""
    pods = [p for p in world.pods() if "app" in p["metadata"].get("labels", {})]
    return len(pods) == sum(w.replicas for w in cluster.workloads) and all(map(is_ready, pods))


def show(cluster: Cluster, found: dict[str, Outcome]) -> None:
    """The table of one cluster."""
    capacity = NODE_CPU_MILLI * len(cluster.nodes)
    moving = sum(w.nodes.count(cluster.drained) for w in cluster.workloads)
    print(
        f"\nseed {cluster.seed}: {len(cluster.nodes)} nodes, {100 * cluster.requested_milli / capacity:.0f} % requested, "
        f"{moving} pods on the drained node, {len(cluster.competitors)} competitors"
    )
    apps = [w for w in cluster.workloads if cluster.drained in w.nodes]
    for w in apps:
        budget = f"{w.budget[0]} {w.budget[1]}" if w.budget else "no budget"
        print(
            f"  {w.name}: {w.kind}, {w.nodes.count(cluster.drained)} of {w.replicas} on the node, {w.cpu_milli}m, {budget}"
        )
    header = ("", "pending s", "not Ready s", "empty s", *(f"{w.name} of {w.replicas}" for w in apps), "exit")
    rows = [
        (
            tool,
            f"{f.pending_s:.1f}",
            f"{f.missing_s:.1f}",
            f"{f.empty_s:.1f}" if f.empty_s < math.inf else f"never, {f.left_on_node} left",
            *(str(f.least_ready[w.name]) for w in apps),
            f"{found[tool].code}" + (f", {plural(f.left_unbound, 'pod')} pending" if f.left_unbound else ""),
        )
        for tool in TOOLS
        for f in (found[tool].figures,)
    ]
    print("\n".join(table(header, rows)))
    for tool in TOOLS:
        if found[tool].code:
            print(f"  {tool} said at the end:")
            print("\n".join(f"    {line}" for line in found[tool].said.splitlines()[-4:]), flush=True)


def sums(played: Sequence[tuple[Cluster, dict[str, Outcome]]], limit_s: int) -> None:
    """The sums over clusters."""
    rows = []
    for tool in TOOLS:
        of_tool = [(cluster, found[tool].figures) for cluster, found in played]
        touched = [f.least_ready[w.name] for c, f in of_tool for w in c.workloads if c.drained in w.nodes]
        rows.append(
            (
                sum(f.pending_s for _, f in of_tool),
                sum(f.missing_s for _, f in of_tool),
                sum(min(f.empty_s, limit_s) for _, f in of_tool),
                float(sum(touched)),
                float(sum(f.empty_s < math.inf for _, f in of_tool)),
            )
        )
    header = ("", "pending s", "not Ready s", "empty s", "least Ready", "nodes emptied")
    shown = [(tool, *(f"{value:.1f}" for value in row)) for tool, row in zip(TOOLS, rows, strict=True)]
    print("\n".join(table(header, shown)), flush=True)


@click.command()
@click.option("--clusters", default=10, show_default=True)
@click.option("--first", default=1, show_default=True, help="Seed of the first cluster.")
@click.option("--limit", default=120, show_default=True, help="Seconds of each drain.")
def main(clusters: int, first: int, limit: int) -> None:
    """The same node drained by each tool, on one cluster after the other."""
    played: list[tuple[Cluster, dict[str, Outcome]]] = []
    with ControlPlane() as plane:
        api = plane.api()
        print(f"load before {os.getloadavg()[0]:.1f}", flush=True)
        with at_work(plane, api, gate="guard", pods=PODS):
            for seed in range(first, first + clusters):
                cluster, found = generate(seed), {}
                for tool in TOOLS if seed % 4 < 2 else TOOLS[::-1]:
                    with World(api, "drained") as world:
                        build(world, cluster, plane)
                        if tool == GUARDED:
                            guard(world)
                        found[tool] = drain(tool, plane, world, cluster, limit)
                show(cluster, found)
                played.append((cluster, found))
        print(f"\nload after {os.getloadavg()[0]:.1f}")
    for words, some in (
        ("all clusters", played),
        ("without competitors", [one for one in played if not one[0].competitors]),
        ("with competitors", [one for one in played if one[0].competitors]),
    ):
        if some:
            print(f"\n{words}: {len(some)}")
            sums(some, limit)


if __name__ == "__main__":
    main()
