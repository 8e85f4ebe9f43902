"""What is known of Reservations before they are created: whether their owners can match a pod, and who would step aside for them.

What can never match is refused. What does not exist now may come later, so that is a warning only. Reading only.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from rescheduler.cli.clients import NamedCluster, listed
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.live_controller import live_controller, read_for
from rescheduler.cli.output import warn
from rescheduler.configuration.document import Configuration
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import kinds_served
from rescheduler.kube.errors import ApiError, ForbiddenError, NotFoundError
from rescheduler.model.bounds import LONGEST_NAME
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import Node
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import SCHEDULED, UNSCHEDULABLE
from rescheduler.model.selectors import DOMAIN_SYNTAX
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import plan
from rescheduler.policies.pending_pods import PendingPods
from rescheduler.reports.table import amount
from rescheduler.scheduling.state import SchedulingState
from rescheduler.suggestions import did_you_mean
from rescheduler.visible import visible_line

_LATER: Final = "; for a node that is still to come write the Reservation to a file: -f"
NO_POLICY: Final = "policy PendingPods is not configured: nobody would step aside"
Json = Mapping[str, Any]

NODE_BOUND: Final = {
    "DaemonSet": "each pod of a DaemonSet has a node of its own, so it uses no Reservation",
    "Node": "static pods are bound to their node before they exist, so they use no Reservation",
}
_READ_BY_NAME: Final = {
    kind.value: RESOURCES[kind]
    for kind in (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.JOB, Kind.REPLICATION_CONTROLLER)
}


def need_room_maker(cluster: NamedCluster, api: KubeApi) -> None:
    """Refuses ``--make-room`` where the controller moves no pods for it; makeRoom would only wait for its timeout.

    Raises:
        CommandError: the configuration of the controller has no such policy.
        ApiError, TransportError: the cluster or the configuration of the controller cannot be read.
    """
    read = live_controller(cluster, api).read
    if not read.warning and not any(
        isinstance(one, PendingPods) for one in read.configuration.build_policies()
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
    snapshot = read_for(cluster, configuration).snapshot
    return "".join(f"{visible_line(line)}\n" for line in foretold(snapshot, configuration, wanted))


def foretold(
    snapshot: Snapshot, configuration: Configuration, wanted: Mapping[str, Reservation]
) -> list[str]:
    """What a decision would do for these Reservations, which do not exist yet, once they have waited for long enough."""
    policies = [one for one in configuration.build_policies() if isinstance(one, PendingPods)]
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
    aside = ", ".join(f"{pod.namespace}/{pod.name} (to {targets.get(pod, '?')})" for pod in room.moves)
    return f"{name}: on node/{room.node}, once these have stepped aside: {aside or 'those that leave for others'}"


def object_name(option: str, text: str) -> str:
    """The name of an object that is to be created. Raises CommandError: the API server would refuse it."""
    if len(text) > LONGEST_NAME or not re.fullmatch(DOMAIN_SYNTAX, text):
        raise CommandError(
            f"{option}: {text!r} is no name: lower case letters, digits, '-' and '.'", EXIT_USAGE
        )
    return text


def check_owners(api: KubeApi, bodies: Sequence[Json]) -> None:
    """Refuses owners that match no pod ever, and warns about what does not exist now.

    Raises:
        CommandError: the kind of a controller has no pods that could use a Reservation, or is not served.
        ApiError, TransportError: the API server does not say what it serves.
    """
    told: set[str] = set()
    for body in bodies:
        for owner in (body.get("spec") or {}).get("owners") or ():
            for warning in _warnings(api, owner):
                if warning not in told:
                    warn(warning)
                told.add(warning)


def check_nodes(api: KubeApi, rooms: Iterable[Reservation]) -> None:
    """Refuses what no node of this cluster can hold, however empty it is. Who may not read nodes is not told.

    Raises CommandError, ApiError, TransportError.
    """
    try:
        nodes = {node.name: node for node in listed(api, Kind.NODE, Node)}
    except ForbiddenError:
        return
    for node, wanted in (
        {(room.template_node, room.template.requests) for room in rooms if room.template} if nodes else ()
    ):
        if node and node not in nodes:
            raise CommandError(f"there is no node/{node}{did_you_mean(node, nodes)}", EXIT_USAGE)
        have = [nodes[node].allocatable] if node else [one.allocatable for one in nodes.values()]
        known = {name for one in have for name, value in one.items() if value}
        where = f"node/{node}" if node else "no node"
        for name, value in wanted.items():
            most = max(one.amount(name) for one in have)
            if value and not most:
                none = f"{where} has no {name}" if node else f"no node has any {name}"
                raise CommandError(f"{none}{did_you_mean(name, known)}{_LATER}", EXIT_USAGE)
            if value > most:
                has = (
                    f"{where} has {amount(name, most)}"
                    if node
                    else f"the largest node has {amount(name, most)}"
                )
                raise CommandError(f"{name} {amount(name, value)}: {has}{_LATER}", EXIT_USAGE)


def _warnings(api: KubeApi, owner: Json) -> Iterator[str]:
    controller = owner.get("controller") or {}
    kind = controller.get("kind") or ""
    if kind in NODE_BOUND:
        raise CommandError(f"owner {_named(controller)}: {NODE_BOUND[kind]}", EXIT_USAGE)
    if kind and kind not in _READ_BY_NAME and kind not in (served := kinds_served(api)):
        known = served | set(_READ_BY_NAME)
        raise CommandError(
            f"owner {_named(controller)}: this cluster serves no kind {kind}{did_you_mean(kind, known)}",
            EXIT_USAGE,
        )
    namespaces = {controller.get("namespace"), (owner.get("object") or {}).get("namespace")}
    missing = [name for name in sorted(filter(None, namespaces)) if _lacks(api, f"/api/v1/namespaces/{name}")]
    yield from (f"namespace {name} does not exist now, so no pod matches yet" for name in missing)
    name, namespace = controller.get("name"), controller.get("namespace")
    if kind in _READ_BY_NAME and name and namespace and namespace not in missing:
        path = _READ_BY_NAME[kind].object_path(namespace, name)
        if _lacks(api, path):
            yield f"{kind.lower()}/{name} does not exist in namespace {namespace} now, so no pod matches yet"


def _lacks(api: KubeApi, path: str) -> bool:
    """True if the API server says so. Who may not read it gets no warning."""
    try:
        api.get(path)
    except NotFoundError:
        return True
    except ApiError:
        return False
    return False


def _named(controller: Json) -> str:
    return f"{str(controller.get('kind') or 'controller').lower()}/{controller.get('name') or controller.get('uid') or '?'}"
