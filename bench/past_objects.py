"""What a controller leaves in a cluster in which it is at work: PodMigrations, Reservations, its Lease and its history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rescheduler.model.decode.wire_form import JsonObject, encode, manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.names import CONFIG_KEY, CONFIG_MAP, DEFAULT_NAMESPACE, HISTORY_CONFIG_MAP, LEASE_NAME
from rescheduler.model.past_moves import PastMove, encode_past_move
from rescheduler.model.reservation import (
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.times import format_seconds
from rescheduler.planning.beginning import MOST_ENTRIES

UNDER_WAY: Final = 20
"""One move of so many has not ended."""
_NAMESPACES: Final = 50
_POLICIES: Final = Path(__file__).parents[1] / "policies" / "balanced.yaml"
"""What its controller goes by."""


def moves_and_rooms(number: int, nodes: int) -> Iterator[tuple[Kind, bytes]]:
    """So many moves as JSON, each with its Reservation."""
    for index in range(number):
        namespace, pod = f"team-{index % _NAMESPACES}", f"app-{index}-7d9c5b8f6d-x{index:05d}"
        move = PodMigration(
            namespace=namespace,
            name=f"{pod}-1a2b3c4d",
            pod_name=pod,
            pod_uid=_uid(index),
            target_node=f"node-{index % nodes:05d}",
            reason="node is overloaded",
            policy="LowNodeUtilization",
        )
        yield Kind.POD_MIGRATION, _stored(manifest(move), index, encode(_status(index, nodes)))
        yield Kind.RESERVATION, _room(index, f"{namespace}.{pod}.move", namespace, nodes)


def objects_of_the_controller(moves: int) -> dict[str, bytes]:
    """Its Lease, its configuration and its history, by their paths; none without moves, as where it has never led."""
    if not moves:
        return {}
    now = time.time()
    renewed = f"{format_seconds(now + 3600.0)[:-1]}.000000Z"
    lease = {"spec": {"holderIdentity": "bench", "renewTime": renewed, "acquireTime": renewed}}
    past = PastMove(
        namespace="team-1",
        pod_uid=_uid(0),
        workload_uid=_uid(1),
        begun_s=now - 3600.0,
        ended_s=now - 3590.0,
        failed=False,
    )
    data = {_uid(10_000_000 + index): encode_past_move(past) for index in range(MOST_ENTRIES)}
    home = f"namespaces/{DEFAULT_NAMESPACE}"
    return {
        f"/apis/coordination.k8s.io/v1/{home}/leases/{LEASE_NAME}": msgspec.json.encode(lease),
        f"/api/v1/{home}/configmaps/{HISTORY_CONFIG_MAP}": _config_map(HISTORY_CONFIG_MAP, data),
        f"/api/v1/{home}/configmaps/{CONFIG_MAP}": _config_map(
            CONFIG_MAP, {CONFIG_KEY: _POLICIES.read_text("utf-8")}
        ),
    }


def _config_map(name: str, data: dict[str, str]) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name, "namespace": DEFAULT_NAMESPACE}, "data": data})


def _status(index: int, nodes: int) -> MigrationStatus:
    ended = bool(index % UNDER_WAY)
    began_s = time.time() - 600.0 + index % 500
    return MigrationStatus(
        phase=MigrationPhase.SUCCEEDED if ended else MigrationPhase.RESERVING,
        observed_generation=1,
        reason="Landed" if ended else "WaitingForRoom",
        message="the replacement is ready in its room" if ended else "room is being reserved",
        reservation_name="room",
        source_node=f"node-{(index + 7) % nodes:05d}",
        node_name=f"node-{index % nodes:05d}",
        started_at_s=began_s,
        finished_at_s=began_s + 40.0 if ended else 0.0,
    )


def _room(index: int, name: str, namespace: str, nodes: int) -> bytes:
    """A room that a move has used, or waits for."""
    pod = ObjectRef(namespace=namespace, uid=_uid(index))
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    template = msgspec.json.encode({"spec": {"containers": [container]}})
    size = Resources(cpu_milli=500, memory_bytes=1 << 30)
    used = bool(index % UNDER_WAY)
    status = ReservationStatus(
        phase=ReservationPhase.SUCCEEDED if used else ReservationPhase.AVAILABLE,
        observed_generation=1,
        node_name=f"node-{index % nodes:05d}",
        allocatable=size,
        allocated=size if used else NO_RESOURCES,
        current_owners=(pod,) if used else (),
    )
    owners = (ReservationOwner(object=pod),)
    room = Reservation(name=name, template_raw=template, owners=owners, ttl_s=600.0)
    return _stored(manifest(room), 1_000_000 + index, encode(status))


def _stored(body: JsonObject, number: int, status: JsonObject) -> bytes:
    """As an API server answers it."""
    body["metadata"] |= {
        "uid": _uid(number),
        "resourceVersion": str(5000 + number),
        "generation": 1,
        "creationTimestamp": format_seconds(time.time() - 600.0),
    }
    return msgspec.json.encode({**body, "status": status})


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"
