"""Programs of others that empty a node, with the guard and without, on the clusters of ``bench.drain``.

    python -m bench.strangers [--clusters 5] [--first SEED] [--limit 90]

descheduler v0.36.0 (RemovePodsViolatingNodeTaints, a cycle each 35 s, for a taint NoSchedule that comes) and the imitated eviction loop of
cluster-autoscaler (taint, all pods at once). Of each pod that left it is read from watches whether its Reservation was Available before.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Final

import click

from bench.drain import PODS, arrive, build, guard, whole
from bench.drained_clusters import Cluster, generate
from bench.stage import at_work
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, node_of
from harness.strangers.cluster_autoscaler import ClusterAutoscaler
from harness.strangers.departures import Departures, Figures
from harness.strangers.descheduler import Descheduler
from rescheduler.reports.table import table

PROGRAMS: Final = ("descheduler", "cluster-autoscaler, imitated")
TAINTS: Final = {"RemovePodsViolatingNodeTaints": ("deschedule", {})}
CYCLE_S: Final = 35
POLL_S: Final = 0.2


def taint(world: World, node: str) -> None:
    """Pods do not bear it, and descheduler is told to look for such."""
    path = f"/api/v1/nodes/{node}"
    taints = world.api.get(path).expect().body["spec"]["taints"]
    more = {"key": "maintenance", "effect": "NoSchedule"}
    world.api.patch(path, {"spec": {"taints": [*taints, more]}}).expect()


@contextmanager
def scaling_down(world: World, node: str, limit_s: int) -> Iterator[None]:
    """The imitated autoscaler at work on the node; it ends in its own time."""
    scaler = ClusterAutoscaler(world, max_pod_eviction_s=limit_s - 40)
    thread = threading.Thread(target=lambda: scaler.scale_down(node, decided=True))
    thread.start()
    yield
    thread.join()


def tried(program: str, plane: ControlPlane, world: World, cluster: Cluster, limit_s: int) -> Figures:
    """One program on a cluster that stands, until the node is empty and all is whole again, or until the limit."""
    node = f"{world.namespace}-{cluster.drained}"
    departures = Departures(world)
    begun_s = time.monotonic()
    coming = sorted(cluster.competitors, key=lambda competitor: competitor.after_s)
    if program == PROGRAMS[0]:
        taint(world, node)
        at_it: AbstractContextManager[object] = Descheduler(plane, world, TAINTS, interval_s=CYCLE_S)
    else:
        at_it = scaling_down(world, node, limit_s)
    with at_it:
        while time.monotonic() < begun_s + limit_s:
            while coming and time.monotonic() >= begun_s + coming[0].after_s:
                arrive(world, coming.pop(0))
            apps = [pod for pod in world.pods() if "app" in pod["metadata"].get("labels", {})]
            if not coming and whole(world, cluster) and node not in {node_of(pod) for pod in apps}:
                break
            time.sleep(POLL_S)
    left = departures.end()
    for one in left if any(one.requested_by for one in left) else ():
        if not one.room_first or not one.landed:
            print(f"  {one}", flush=True)
    return departures.figures(left)


@click.command()
@click.option("--clusters", default=5, show_default=True)
@click.option("--first", default=1, show_default=True, help="Seed of the first cluster.")
@click.option("--limit", default=90, show_default=True, help="Seconds of each trial.")
def main(clusters: int, first: int, limit: int) -> None:
    """The same node emptied by each program, with the guard and without."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the control plane ends with it
    found: dict[tuple[str, bool], list[Figures]] = {}
    with ControlPlane() as plane, at_work(plane, plane.api(), gate="guard", pods=PODS):
        for seed in range(first, first + clusters):
            for program in PROGRAMS:
                for guarded in (False, True):
                    with World(plane.api(), "strangers") as world:
                        cluster = generate(seed)
                        build(world, cluster, plane)
                        if guarded:
                            guard(world)
                        figures = tried(program, plane, world, cluster, limit)
                    found.setdefault((program, guarded), []).append(figures)
                    print(
                        f"seed {seed}: {program}, {'guarded' if guarded else 'alone'}: {figures}", flush=True
                    )
    header = ("", "evictions", "room first", "landed", "pending s", "left pending")
    rows = [
        (
            f"{program}{', guarded' if guarded else ''}",
            *(f"{sum(asdict(one)[name] for one in some):.0f}" for name in asdict(some[0])),
        )
        for (program, guarded), some in found.items()
    ]
    print("\n".join(table(header, rows)), flush=True)


if __name__ == "__main__":
    main()
