"""What one tenant's waiting PodMigrations cost everybody: rounds with thousands of them beside twenty moves under way.

``python -m bench.waiting_moves [WAITING ...] [--nodes 500]`` (default 0 5000). They are of one namespace, wait for a target that has no
room, and are as old as those under way. Seconds are CPU seconds of one round; no call is sent. After a round the loop rests for
four times as long, so a round is what a pod of another namespace is held for.
"""

from __future__ import annotations

import gc
import itertools
import json
import time

import click
import msgspec

from bench.planning import NOW_S
from bench.reconciling import EVENTS_BETWEEN, NAMESPACE, Counting, changes, filled, move_of
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.recording import MoveRecorder
from rescheduler.coordination.placement import Placement, protection_of
from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.planning.limits import Protections
from rescheduler.scheduling.framework import Profile

ROUNDS = 40
TENANT = "tenant"


def add_waiting(state: ClusterState, count: int) -> None:
    """So many pods of the tenant, each with a PodMigration to a node on which nothing fits."""
    snapshot = state.snapshot(NOW_S)
    node = next(iter(snapshot.nodes.values()))
    full = msgspec.structs.replace(node, name="full", uid="full", unschedulable=True)
    state.apply(Kind.NODE, full)
    ordinary = (pod for pod in snapshot.pods.values() if pod.controller is not None)
    for number, pod in enumerate(itertools.islice(itertools.cycle(list(ordinary)), count)):
        name = f"idle-{number}"
        mine = msgspec.structs.replace(pod, namespace=TENANT, name=name, uid=name)
        state.apply(Kind.POD, mine)
        move, _ = move_of(mine, MigrationPhase.PENDING, "full")
        state.apply(Kind.POD_MIGRATION, msgspec.structs.replace(move, status=MigrationStatus()))


def measure(nodes: int, waiting: int) -> dict[str, float]:
    """Milliseconds of the first round, of the median one and of the longest one after it."""
    state, counting = filled(nodes), Counting()
    add_waiting(state, waiting)
    reconciler = Reconciler(
        executor=counting,
        gate=Mirror(switch=counting, lenient=True),
        hints=Mirror(switch=counting),
        recorder=MoveRecorder(mirror=Mirror(switch=counting)),
        placement=Placement(namespace=NAMESPACE, protection=protection_of(Protections(), Profile())),
    )
    gc.collect()
    gc.freeze()
    stream, taken_s = changes(state), []
    for number in range(ROUNDS + 1):
        for pod in itertools.islice(stream, EVENTS_BETWEEN) if number else ():
            state.apply(Kind.POD, pod)
        at_s = NOW_S + number * 0.5
        snapshot = state.snapshot(at_s)
        begun_s = time.process_time()
        reconciler.reconcile(snapshot, at_s)
        taken_s.append(time.process_time() - begun_s)
        if sum(taken_s) > 120.0:
            break
    first_s, later_s = taken_s[0], sorted(taken_s[1:])
    return {
        "first_round_ms": first_s * 1e3,
        "median_round_ms": later_s[len(later_s) // 2] * 1e3 if later_s else first_s * 1e3,
        "longest_round_ms": max(taken_s) * 1e3,
        "calls": counting.calls,
    }


@click.command()
@click.argument("waiting", type=int, nargs=-1)
@click.option("--nodes", default=500, show_default=True)
def main(waiting: tuple[int, ...], nodes: int) -> None:
    """Print one line per number of waiting moves."""
    for count in waiting or (0, 5000):
        figures = {key: round(value, 1) for key, value in measure(nodes, count).items()}
        print(json.dumps({"nodes": nodes, "waiting": count, **figures}), flush=True)


if __name__ == "__main__":
    main()
