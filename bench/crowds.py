"""What moves under way cost the controller: rounds of twenty of them, alone and beside a hundred thousand objects of one tenant.

``python -m bench.crowds [CROWD ...] [--objects 100000] [--nodes 500]`` (default: every crowd, each in a process of its own). A quarter of
the moves is in each phase; between two rounds forty pods change, as at 2,000 events and 50 rounds a second. The crowd's objects are decoded from JSON as a watch brings them, damaged ones included. Seconds are CPU seconds of the core thread; no call
is sent. Ends with 1 if a round takes longer than ``BAR_S``, or if a move of others is not looked at in it.
"""

from __future__ import annotations

import gc
import itertools
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import msgspec
import structlog

from bench.planning import NOW_S, make_cluster
from rescheduler.calls.call import AnyCall, Call
from rescheduler.controller.effects import NO_EFFECT, Effect
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.recording import MoveRecorder
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.protection import protection_of
from rescheduler.model import names
from rescheduler.model.cluster import ClusterState
from rescheduler.model.config_map import MISSING, ConfigMap
from rescheduler.model.decode import BadObject, Decoder
from rescheduler.model.decode.wire_form import manifest
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

BAR_S: Final = 5.0
"""For one round."""
ROUNDS: Final = 10
MOVES: Final = 20
EVENTS_BETWEEN: Final = 40
NAMESPACE: Final = "rescheduler"
PHASES: Final = (
    MigrationPhase.PENDING, MigrationPhase.RESERVING, MigrationPhase.EVICTING, MigrationPhase.HANDING_OVER,
)  # fmt: skip
NOBODY: Final = "nobody"
"""No crowd: the moves alone."""
TENANT: Final = "tenant"
TEMPLATE: Final = b'{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1m"}}}]}}'

Manifest = dict[str, Any]


def _reservation(number: int) -> Manifest:
    owner = ReservationOwner(controller=ControllerRef(namespace=TENANT, kind="ReplicaSet", uid=f"u{number}"))
    return _identified(manifest(Reservation(name=f"idle-{number}", template_raw=TEMPLATE, owners=(owner,))))


def _move(number: int) -> Manifest:
    move = PodMigration(namespace=TENANT, name=f"idle-{number}", pod_name=f"nobody-{number}")
    return _identified(manifest(move))


def _identified(manifest: Manifest) -> Manifest:
    meta = manifest["metadata"]
    meta |= {"uid": meta["name"], "resourceVersion": "1", "creationTimestamp": "2027-01-01T00:00:00Z"}
    return manifest


def _with(make: Callable[[int], Manifest], part: str, **fields: object) -> Callable[[int], Manifest]:
    def made(number: int) -> Manifest:
        manifest = make(number)
        return manifest | {part: {**manifest.get(part, {}), **fields}}

    return made


CROWDS: Final[dict[str, tuple[Kind, Callable[[int], Manifest]]]] = {
    "reservations": (Kind.RESERVATION, _reservation),
    "reservations-without-ttl": (Kind.RESERVATION, _with(_reservation, "spec", ttl="9999999999h")),
    "reservations-without-status": (Kind.RESERVATION, _with(_reservation, "status", conditions=7)),
    "moves": (Kind.POD_MIGRATION, _move),
    "moves-without-ttl": (Kind.POD_MIGRATION, _with(_move, "spec", ttl="9999999999h")),
    "moves-without-status": (Kind.POD_MIGRATION, _with(_move, "status", conditions=7)),
    "moves-that-ended": (Kind.POD_MIGRATION, _with(_move, "status", phase="Failed", observedGeneration=0)),
}
"""Name -> kind, and the object of a number. "Without": the field is there and cannot be read."""


def take_in(state: ClusterState, name: str, objects: int) -> float:
    """Decode and apply them; the seconds that it took."""
    if name == NOBODY:
        return 0.0
    kind, make = CROWDS[name]
    texts = [msgspec.json.encode(make(number)) for number in range(objects)]
    decoder, begun_s = Decoder(), time.process_time()
    for text in texts:
        found = decoder.attempt(kind, text)
        if isinstance(found, BadObject):
            found = decoder.stand_in(kind, text)
        state.apply(kind, found)
    return time.process_time() - begun_s


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
    """A cluster of records with moves under way."""
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


class Watched:
    """A sender and a switch that do nothing; notes which moves of others were acted for."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def send(self, call: AnyCall) -> Effect:
        if isinstance(call, Call) and call.kind is Kind.POD_MIGRATION and call.key.namespace != TENANT:
            self.seen.add(str(call.key))
        return NO_EFFECT

    def read(self) -> ConfigMap:
        return MISSING

    def write(
        self, stored: ConfigMap, add: dict[str, str], remove: tuple[str, ...], valid_until_s: float
    ) -> ConfigMap:
        del add, remove, valid_until_s
        return stored


def measure(name: str, nodes: int, objects: int) -> dict[str, float]:
    """Seconds: taking the objects in; rounds with their snapshots: the first, the median and the longest of later ones."""
    state, watched = filled(nodes), Watched()
    taken_in_s = take_in(state, name, objects)
    reconciler = Reconciler(
        sender=watched,
        gate=Mirror(switch=watched, lenient=True),
        hints=Mirror(switch=watched),
        recorder=MoveRecorder(mirror=Mirror(switch=watched)),
        placement=Placement(namespace=NAMESPACE, protection=protection_of(Protections(), Profile())),
    )
    gc.collect()
    gc.freeze()
    stream, rounds_s = changes(state), list[float]()
    for number in range(ROUNDS):
        for pod in itertools.islice(stream, EVENTS_BETWEEN):
            state.apply(Kind.POD, pod)
        at_s = NOW_S + number
        begun_s = time.process_time()
        reconciler.reconcile(state.snapshot(at_s), at_s)
        rounds_s.append(time.process_time() - begun_s)
    return {
        "take_in_s": taken_in_s,
        "first_round_s": rounds_s[0],
        "median_later_s": statistics.median(rounds_s[1:]),
        "longest_later_s": max(rounds_s[1:]),
        "moves_of_others_served": len(watched.seen),
    }


def _alone(name: str, nodes: int, objects: int) -> bool:
    """Measure one crowd in a process of its own; True if it is within the bars."""
    command = [sys.executable, "-m", "bench.crowds", name, "--nodes", str(nodes), "--objects", str(objects)]
    return subprocess.run(command, check=False).returncode == 0


@click.command()
@click.argument("crowds", type=click.Choice([NOBODY, *CROWDS]), nargs=-1)
@click.option("--objects", default=100_000, show_default=True)
@click.option("--nodes", default=500, show_default=True)
def main(crowds: tuple[str, ...], objects: int, nodes: int) -> None:
    """Print one line per crowd."""
    if len(crowds) != 1:
        kept = [
            _alone(name, nodes, objects) for name in crowds or (NOBODY, *CROWDS)
        ]  # all of them, also after a miss
        sys.exit(0 if all(kept) else 1)
    # What is logged costs, so it is written, to where nobody reads it.
    with open("/dev/null", "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=structlog.PrintLoggerFactory(nowhere),
        )
        figures = measure(crowds[0], nodes, objects)
    print(json.dumps({"crowd": crowds[0], "objects": objects} | {k: round(v, 4) for k, v in figures.items()}))
    slow = max(figures["first_round_s"], figures["longest_later_s"]) > BAR_S
    sys.exit(1 if slow or not figures["moves_of_others_served"] else 0)


if __name__ == "__main__":
    main()
