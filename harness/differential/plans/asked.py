"""Moves that people ask for, one after the other, to the nodes that the controller chooses or allows while those before are under way.

Each of those is in any state from its choice to the end of its old pod: with or without a Reservation and a placeholder, which has none
of the rules and labels of the replacement.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Sequence
from typing import Final

import msgspec

from harness.differential.plans.case import Case
from harness.differential.plans.dumps import read
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.protection import protection_of
from rescheduler.model.decode.decoder import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.room_pod import pinned
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import Protections
from rescheduler.planning.plan import Move, PodRef
from rescheduler.planning.start_first_mode import refusal_in, unadopted_of
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.placeholder import placeholder_manifest
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.template import reservation_manifest, reservation_name

MOVES: Final = 6
_SETTINGS: Final = ReservationSettings()
_NAMED: Final = 0.5
"""Share of moves that name their node."""


class _State(enum.Enum):
    """Of a move under way."""

    CHOSEN = enum.auto()
    RESERVED = enum.auto()
    EVICTING = enum.auto()
    ENDING = enum.auto()


def asked_moves(case: Case, seed: int) -> list[Move]:
    """Some moves of the case that the controller would let begin, in their order."""
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    snapshot = read(case.objects, case.form)
    pods = [
        p for p in snapshot.pods.values() if p.node and not p.terminal and not p.deleting and p.controller
    ]
    rng.shuffle(pods)
    moves: list[Move] = []
    for pod in pods:
        placement = Placement(
            namespace=_SETTINGS.namespace,
            profile=case.profile,
            protection=protection_of(Protections(), case.profile),
        )
        placement.begin(Replacements(_under_way(snapshot, moves, rng)))
        mode = (
            rng.choice((MoveMode.RESERVE_FIRST, MoveMode.START_FIRST))
            if _starts_first(snapshot, pod)
            else MoveMode.RESERVE_FIRST
        )
        node = _node(placement, pod, mode, sorted(snapshot.nodes), rng) if placement.movable(pod).ok else ""
        if node:
            moves.append(_move(pod, node, mode))
        if len(moves) == MOVES:
            break
    return moves


def _starts_first(snapshot: Snapshot, pod: Pod) -> bool:
    replica_set = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
    above = replica_set.controller if replica_set is not None else None
    deployment = snapshot.workloads.get(above.uid) if above is not None else None
    return not refusal_in(snapshot, pod, replica_set, deployment)


def _node(placement: Placement, pod: Pod, mode: MoveMode, nodes: Sequence[str], rng: random.Random) -> str:
    starts_first = mode is MoveMode.START_FIRST
    if rng.random() >= _NAMED:
        return placement.for_migration(pod, starts_first=starts_first).node
    named = rng.choice(nodes)
    fits = placement.fits_beside(pod, named) if starts_first else placement.fits(pod, named, None)
    return named if named != pod.node and fits.ok else ""


def _move(pod: Pod, node: str, mode: MoveMode) -> Move:
    return Move(
        pod=PodRef.of(pod),
        controller=None,
        source=pod.node,
        target=node,
        policy="",
        reason="",
        message="",
        gain=0.0,
        disruption=0.0,
        mode=mode,
    )


def _under_way(snapshot: Snapshot, moves: Sequence[Move], rng: random.Random) -> Snapshot:
    """The cluster while the moves are under way, each in some state."""
    pods, replacements = dict(snapshot.pods), Replacements(snapshot)
    reservations: dict[str, Reservation] = {}
    migrations: dict[ObjectKey, PodMigration] = {}
    for number, move in enumerate(moves):
        state, pod = rng.choice(list(_State)), pods[ObjectKey(move.pod.namespace, move.pod.name)]
        migration = _migration(pod, move, state, number)
        if move.mode is MoveMode.START_FIRST and state is not _State.CHOSEN:
            new = unadopted_of(pod, replacements.coming(pod), snapshot)
            if new is None:
                raise LookupError(f"pod {pod.key} has no ReplicaSet")
            new = msgspec.structs.replace(pinned(new, move.target), node=move.target)
            pods[new.key] = new
            named = ObjectRef(new.namespace, new.name, new.uid)
            migration = msgspec.structs.replace(
                migration, status=msgspec.structs.replace(migration.status, replacement=named)
            )
        elif state is not _State.CHOSEN:
            room = _room(migration, pod, replacements.coming(pod), move.target)
            holder = _holder(room, move.target)
            reservations[room.name], pods[holder.key] = room, holder
        if state is _State.ENDING:
            pods[pod.key] = pod.with_state(deleting=True)
        migrations[migration.key] = migration
    return dataclasses.replace(
        snapshot, pods=pods, reservations=reservations, migrations=migrations, pod_log=None
    )


def _migration(pod: Pod, move: Move, state: _State, number: int) -> PodMigration:
    key, uid = ObjectKey(pod.namespace, f"asked-{number}"), f"asked-{number}"
    begins = state in (_State.CHOSEN, _State.RESERVED)
    status = MigrationStatus(
        phase=MigrationPhase.RESERVING if begins else MigrationPhase.EVICTING,
        node_name=move.target,
        source_node=pod.node,
        mode=move.mode,
        reservation_name=reservation_name(key, uid),
        started_at_s=1.0 + number,
        eviction_requested_at_s=100.0 + number if state is _State.ENDING else 0.0,
    )
    return PodMigration(
        name=key.name,
        namespace=key.namespace,
        uid=uid,
        pod_name=pod.name,
        pod_uid=pod.uid,
        target_node=move.target,
        status=status,
    )


def _room(migration: PodMigration, pod: Pod, replacement: Pod, node: str) -> Reservation:
    written = reservation_manifest(
        name=migration.status.reservation_name,
        migration=migration.key,
        migration_uid=migration.uid,
        pod=pod,
        template=replacement.spec,
        volumes=(),
        node=node,
        ttl_s=600.0,
        soft=False,
    )
    body = msgspec.json.decode(written)
    body["metadata"]["uid"] = f"room-of-{migration.uid}"
    found = Decoder().record(Kind.RESERVATION, msgspec.json.encode(body))
    if not isinstance(found, Reservation):
        raise TypeError(f"{body['metadata']['name']} is not read as a Reservation")
    status = ReservationStatus(phase=ReservationPhase.AVAILABLE, node_name=node)
    return msgspec.structs.replace(found, status=status)


def _holder(room: Reservation, node: str) -> Pod:
    body = msgspec.json.decode(placeholder_manifest(room, node, _SETTINGS))
    body["metadata"]["uid"] = f"holder-of-{room.uid}"
    body["spec"]["nodeName"], body["status"] = node, {"phase": "Running"}
    found = Decoder().record(Kind.POD, msgspec.json.encode(body))
    if not isinstance(found, Pod):
        raise TypeError(f"{body['metadata']['name']} is not read as a Pod")
    return found
