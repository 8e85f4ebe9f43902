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
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import Protections
from rescheduler.planning.plan import Move, PodRef
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.placeholder import placeholder_manifest
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.template import reservation_manifest, reservation_name
from rescheduler.scheduling.configuration import parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile

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
    profile = Profile() if case.configuration is None else parse_scheduler_configuration(case.configuration)
    pods = [
        p for p in snapshot.pods.values() if p.node and not p.terminal and not p.deleting and p.controller
    ]
    rng.shuffle(pods)
    moves: list[Move] = []
    for pod in pods:
        placement = Placement(
            namespace=_SETTINGS.namespace, profile=profile, protection=protection_of(Protections(), profile)
        )
        placement.begin(Replacements(_under_way(snapshot, moves, rng)))
        node = _node(placement, pod, sorted(snapshot.nodes), rng) if placement.movable(pod).ok else ""
        if node:
            moves.append(_move(pod, node))
        if len(moves) == MOVES:
            break
    return moves


def _node(placement: Placement, pod: Pod, nodes: Sequence[str], rng: random.Random) -> str:
    if rng.random() >= _NAMED:
        return placement.for_migration(pod).node
    named = rng.choice(nodes)
    return named if placement.fits(pod, named, None).ok else ""


def _move(pod: Pod, node: str) -> Move:
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
        mode=MoveMode.RESERVE_FIRST,
    )


def _under_way(snapshot: Snapshot, moves: Sequence[Move], rng: random.Random) -> Snapshot:
    """The cluster while the moves are under way, each in some state."""
    pods, replacements = dict(snapshot.pods), Replacements(snapshot)
    reservations: dict[str, Reservation] = {}
    migrations: dict[ObjectKey, PodMigration] = {}
    for number, move in enumerate(moves):
        state, pod = rng.choice(list(_State)), pods[ObjectKey(move.pod.namespace, move.pod.name)]
        migration = _migration(pod, move, state, number)
        migrations[migration.key] = migration
        if state is not _State.CHOSEN:
            room = _room(migration, pod, replacements.coming(pod), move.target)
            holder = _holder(room, move.target)
            reservations[room.name], pods[holder.key] = room, holder
        if state is _State.ENDING:
            pods[pod.key] = pod.with_state(deleting=True)
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
