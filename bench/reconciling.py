"""What moves under way cost the controller: one reconciliation of all of them while thousands of events stream in.

``python -m bench.reconciling [NODES ...]`` (default 500 1000 5000; 30 pods each). Twenty moves are in flight, a quarter in each
phase; between two reconciliations forty pods change, as at 2,000 events and 50 reconciliations per second. No call is
sent, they are only counted, so the figures are those of looking and deciding. Seconds are CPU seconds.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from bench.planning import NOW_S, make_cluster
from rescheduler.calls.call import AnyCall
from rescheduler.controller.effects import NO_EFFECT, Effect
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.own_config_maps import OwnMirrors
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.recording import MoveRecorder
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.protection import protection_of
from rescheduler.kube.config_maps import StoredConfigMap
from rescheduler.model import names
from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import Pod
from rescheduler.model.reservation import (
    ControllerRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.selectors import LabelSet
from rescheduler.planning.limits import Protections
from rescheduler.reservations.template import reservation_name
from rescheduler.scheduling.framework import Profile

MOVES = 20
EVENTS_BETWEEN = 40
RECONCILIATIONS = 60
NAMESPACE = "rescheduler"
PHASES = (
    MigrationPhase.PENDING,
    MigrationPhase.RESERVING,
    MigrationPhase.EVICTING,
    MigrationPhase.HANDING_OVER,
)


@dataclass
class Counting:
    """A sender and a switch that do nothing."""

    calls: int = 0

    def send(self, call: AnyCall) -> Effect:
        del call
        self.calls += 1
        return NO_EFFECT

    def read(self) -> StoredConfigMap:
        return StoredConfigMap()

    def write(
        self, stored: StoredConfigMap, add: dict[str, str], remove: tuple[str, ...], valid_until_s: float
    ) -> StoredConfigMap:
        del add, remove, valid_until_s
        return stored


def move_of(pod: Pod, phase: MigrationPhase, target: str) -> tuple[PodMigration, Reservation | None]:
    """One move in ``phase``, and its Reservation where it has one by then."""
    started = phase is not MigrationPhase.PENDING
    evicted = phase is MigrationPhase.HANDING_OVER
    migration = PodMigration(
        namespace=pod.namespace,
        name=f"{pod.name}-move",
        uid=f"{pod.uid}-move",
        created_at_s=NOW_S - 5,
        pod_name=pod.name,
        pod_uid=pod.uid,
        target_node=target,
        status=MigrationStatus(
            phase=phase,
            source_node=pod.node,
            node_name=target if started else "",
            started_at_s=NOW_S - 4,
            eviction_requested_at_s=NOW_S - 2 if evicted else 0.0,
            evicted_at_s=NOW_S - 2 if evicted else 0.0,
        ),
    )
    if not started or pod.controller is None:
        return migration, None
    name = reservation_name(migration.key, migration.uid)
    owner = ControllerRef(kind=pod.controller.kind, uid=pod.controller.uid, namespace=pod.namespace)
    available = phase is not MigrationPhase.RESERVING
    room = Reservation(
        name=name,
        uid=f"{name}-uid",
        created_at_s=NOW_S - 4,
        annotations=LabelSet({names.ANNOTATION_MIGRATION: str(migration.key)}),
        template=pod.spec,
        template_labels=pod.labels,
        template_namespace=pod.namespace,
        template_node=target,
        owners=(ReservationOwner(controller=owner),),
        ttl_s=300.0,
        status=ReservationStatus(
            phase=ReservationPhase.AVAILABLE if available else ReservationPhase.PENDING,
            node_name=target if available else "",
        ),
    )
    return migration, room


def filled(nodes: int) -> ClusterState:
    """A cluster of records with moves in flight."""
    cluster = make_cluster(nodes)
    state = ClusterState()
    state.add(Kind.NODE, cluster.nodes.values())
    state.add(Kind.POD, cluster.pods.values())
    state.add(Kind.REPLICA_SET, cluster.workloads.values())
    targets = list(cluster.nodes)
    every = len(cluster.pods) // MOVES
    chosen = itertools.islice(cluster.pods.values(), 0, None, every)
    for number, pod in enumerate(itertools.islice(chosen, MOVES)):
        migration, room = move_of(pod, PHASES[number % len(PHASES)], targets[number])
        state.apply(Kind.POD_MIGRATION, migration)
        if room is not None:
            state.apply(Kind.RESERVATION, room)
    return state


def changes(state: ClusterState) -> Iterator[Pod]:
    """Status updates of pods, for ever."""
    keys = list(state.snapshot(NOW_S).pods)
    for number in itertools.count(1):
        pod = state.get(Kind.POD, keys[number * 7919 % len(keys)])
        if isinstance(pod, Pod):
            yield msgspec.structs.replace(pod, resource_version=str(1_000_000 + number))


def measure(nodes: int) -> dict[str, float]:
    """Milliseconds of one round, of the snapshot before it, and of the first round."""
    state = filled(nodes)
    counting = Counting()
    placement = Placement(namespace=NAMESPACE, protection=protection_of(Protections(), Profile()))
    reconciler = Reconciler(
        sender=counting,
        stored=OwnMirrors(
            gate=Mirror(switch=counting, lenient=True),
            hints=Mirror(switch=counting),
            recorder=MoveRecorder(mirror=Mirror(switch=counting)),
        ),
        placement=placement,
    )
    gc.collect()
    gc.freeze()
    stream = changes(state)
    start = time.process_time()
    reconciler.reconcile(state.snapshot(NOW_S), NOW_S)
    first_s = time.process_time() - start
    copies_s, reconciled_s = [], []
    for number in range(1, RECONCILIATIONS + 1):
        for pod in itertools.islice(stream, EVENTS_BETWEEN):
            state.apply(Kind.POD, pod)
        at_s = NOW_S + number * 0.02
        start = time.process_time()
        snapshot = state.snapshot(at_s)
        between = time.process_time()
        reconciler.reconcile(snapshot, at_s)
        reconciled_s.append(time.process_time() - between)
        copies_s.append(between - start)
    return {
        "pods": state.counts()[Kind.POD],
        "first_reconciliation_ms": first_s * 1e3,
        "snapshot_ms": sorted(copies_s)[RECONCILIATIONS // 2] * 1e3,
        "reconciliation_ms": sorted(reconciled_s)[RECONCILIATIONS // 2] * 1e3,
        "calls": counting.calls,
    }


def main() -> None:
    """Print one line per size."""
    for nodes in [int(a) for a in sys.argv[1:]] or [500, 1000, 5000]:
        print(json.dumps({"nodes": nodes, **{k: round(v, 2) for k, v in measure(nodes).items()}}))


if __name__ == "__main__":
    main()
