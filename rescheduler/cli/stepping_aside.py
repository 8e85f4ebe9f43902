"""Who would step aside for Reservations with ``makeRoom`` if they were created now. Nothing is changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.live_controller import live_controller
from rescheduler.cli.snapshot_input import read_input
from rescheduler.configuration.document import Configuration
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.own_objects import Condition
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import SCHEDULED, UNSCHEDULABLE
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Plan, PodRef
from rescheduler.planning.planner import plan
from rescheduler.policies.making_room import RoomMakingPolicy
from rescheduler.scheduling.state import SchedulingState
from rescheduler.visible import visible_line

NO_POLICY: Final = "policy PendingPods is not configured: nobody would step aside"


def need_room_maker(cluster: NamedCluster, api: KubeApi) -> None:
    """Refuses ``--make-room`` where the controller moves no pods for it; makeRoom would only wait for its timeout.

    Raises:
        CommandError: the configuration of the controller has no such policy.
        ApiError, TransportError: the cluster or the configuration of the controller cannot be read.
    """
    read = live_controller(cluster, api).read
    if not read.warning and not any(
        isinstance(one, RoomMakingPolicy) for one in read.configuration.build_policies()
    ):
        raise CommandError(
            f'makeRoom: {NO_POLICY} ({read.source}). Add "- name: PendingPods" to its policies, or leave out --make-room',
            EXIT_USAGE,
        )


def who_steps_aside(cluster: NamedCluster, api: KubeApi, stored: Sequence[bytes]) -> str:
    """A line for each of them. ``stored``: as the API server would store them.

    Raises:
        ApiError, TransportError: the cluster or the configuration of the controller cannot be read.
    """
    configuration = live_controller(cluster, api).told_configuration()
    decoder = Decoder()
    rooms = [decoder.record(Kind.RESERVATION, body) for body in stored]
    wanted = {room.name: room for room in rooms if isinstance(room, Reservation) and room.make_room}
    snapshot = read_input(cluster, rules=configuration.replacements).snapshot
    return "".join(f"{visible_line(line)}\n" for line in foretold(snapshot, configuration, wanted))


def foretold(
    snapshot: Snapshot, configuration: Configuration, wanted: Mapping[str, Reservation]
) -> list[str]:
    """What a decision would do for these Reservations, which do not exist yet, once they have waited for long enough."""
    policies = [one for one in configuration.build_policies() if isinstance(one, RoomMakingPolicy)]
    if not policies:
        return [NO_POLICY]
    waiting = {name: _refused(room) for name, room in wanted.items()}
    seen = dataclasses.replace(snapshot, reservations={**snapshot.reservations, **waiting})
    inputs = configuration.inputs(unlimited=True)
    found = plan(seen, policies, inputs, SchedulingState(seen, configuration.profile))
    return [_line(name, found) for name in wanted]


def _refused(room: Reservation) -> Reservation:
    """As one that has waited for as long as any policy wants."""
    long_ago = Condition(
        SCHEDULED,
        "False",
        UNSCHEDULABLE,
        "no node has room for it",
        last_transition_time="1970-01-01T00:00:01Z",
    )
    status = msgspec.structs.replace(room.status, conditions=(long_ago,))
    return msgspec.structs.replace(room, uid=room.uid or f"new-{room.name}", status=status)


def _line(name: str, found: Plan) -> str:
    room = next((room for room in found.rooms if room.reservation == name), None)
    if room is None:
        return f"{name}: fits, nobody would step aside"
    if not room.node:
        return f"{name}: fits nowhere: {room.message}"
    targets = {move.pod: move.target for move in found.moves}
    aside = ", ".join(f"{_name(pod)} (to {targets.get(pod, '?')})" for pod in room.moves)
    return f"{name}: on node {room.node}, once these have stepped aside: {aside or 'those that leave for others'}"


def _name(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"
