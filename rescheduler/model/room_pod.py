"""The pod that a Reservation is for, before there is one, and the room that running pods make by stepping aside. Pure.

Its name and uid are the Reservation's with a ``+``, which no object of an API server has in either.

The room that others make for a pending pod is a Reservation of its own, with annotations of the controller. A Reservation that people
make with ``makeRoom`` is the room itself; ``status.makingRoom`` says that others step aside for it. Admission lets only the controller
write those annotations and that status, and mark a PodMigration as planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from rescheduler.model.holding import holding
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import (
    ANNOTATION_MAKES_ROOM,
    ANNOTATION_PENDING_POD,
    ANNOTATION_PENDING_POD_MOVES,
)
from rescheduler.model.own_objects import Condition, condition, seconds_of
from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import ObjectKey, Pod, PodSpec, PriorityClass
from rescheduler.model.reservation import MakingRoom, Reservation, ReservationOwner, ReservationPhase
from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

_MARK: Final = "+"
_NO_PRIORITY: Final = -(2**31)
_PLACEHOLDER_PRIORITY: Final = 1_000_000_000


def pod_of_room(reservation: Reservation, priority: int) -> Pod:
    """A pending pod of the template, which there must be.

    Raises:
        ValueError: there is no template.
    """
    template = reservation.template
    if template is None:
        raise ValueError(f"Reservation {reservation.name} has no template")
    pod = Pod(
        namespace=namespace_of_pods(reservation),
        name="",
        uid="",
        spec=msgspec.structs.replace(template, priority=priority, volumes=_claims_there(template)),
        labels=reservation.template_labels,
        state=holding(template),
    )
    return with_names_of_room(pod, reservation)


def hypothetical_pod(reservation: Reservation) -> Pod:
    """The pod that a room is for, before there is one: pending, of a placeholder's priority; there must be a template."""
    return pod_of_room(reservation, _PLACEHOLDER_PRIORITY)


def keeps_its_distance(reservation: Reservation) -> bool:
    """True if its pods matter to the affinity or spread of others, or of each other. Its placeholder has none of their labels."""
    if reservation.template is None or reservation.status.phase in _OVER or not reservation.allocate_once:
        return False
    return bool(reservation.template_labels or reservation.template.pod_anti_affinity)


def with_names_of_room(pod: Pod, reservation: Reservation) -> Pod:
    """The pod, named as the one of that Reservation."""
    return msgspec.structs.replace(pod, name=f"{reservation.name}{_MARK}", uid=f"{reservation.uid}{_MARK}")


def room_of_pod(pod: Pod) -> str:
    """The Reservation that such a pod stands for; "" for every other pod."""
    return pod.name.removesuffix(_MARK) if pod.uid.endswith(_MARK) else ""


def priority_of_pods(template: PodSpec, classes: Mapping[str, PriorityClass]) -> int:
    """What admission would write into a pod of the template. A number that the template itself carries says nothing.

    The lowest of all if there is no such class, because no such pod can be created.
    """
    if template.priority_class:
        found = classes.get(template.priority_class)
        return found.value if found is not None else _NO_PRIORITY
    return next((one.value for one in classes.values() if one.default), 0)


def namespaces_of(reservation: Reservation) -> frozenset[str]:
    """Every namespace that one of its owners names, wherever it stands; "" if one names none."""
    return _namespaces(reservation.owners)


def _namespaces(owners: Iterable[ReservationOwner]) -> frozenset[str]:
    found: set[str] = set()
    for owner in owners:
        named = {ref.namespace for ref in (owner.object, owner.controller) if ref is not None}
        found |= named - {""} or {""}
    return frozenset(found)


def home_of(reservation: Reservation) -> str:
    """The one namespace that all its owners are confined to; "" if they name several, or one names none."""
    return home_of_owners(reservation.owners)


def home_of_owners(owners: Iterable[ReservationOwner]) -> str:
    """The same of owners that rooms will have."""
    found = _namespaces(owners)
    return next(iter(found)) if len(found) == 1 else ""


def namespace_of_pods(reservation: Reservation) -> str:
    """Where pods of the template are taken to be: claims and pod affinity are looked up there."""
    return reservation.template_namespace or home_of(reservation) or "default"


def pinned(pod: Pod, node: str) -> Pod:
    """The pod with a required affinity to ``node`` in each term of its node affinity."""
    demand = Requirement("metadata.name", Operator.IN, (node,))
    affinity = pod.spec.node_affinity
    terms = affinity.terms if affinity is not None else (NodeSelectorTerm(),)
    narrowed = tuple(msgspec.structs.replace(term, fields=(*term.fields, demand)) for term in terms)
    spec = msgspec.structs.replace(pod.spec, node_affinity=NodeSelector(narrowed))
    return msgspec.structs.replace(pod, spec=spec)


def _claims_there(template: PodSpec) -> tuple[PodVolume, ...]:
    """Claims of ephemeral volumes are made for a pod once it exists: nothing can be judged of them before."""
    return tuple(volume for volume in template.volumes if volume.kind is not VolumeKind.EPHEMERAL)


SCHEDULED: Final = "Scheduled"
READY: Final = "Ready"
UNSCHEDULABLE: Final = "Unschedulable"
WAITING_FOR_ROOM: Final = "WaitingForRoom"
_OVER: Final = frozenset({ReservationPhase.SUCCEEDED, ReservationPhase.FAILED})


def made_for_pod(reservation: Reservation) -> ObjectKey | None:
    """The pending pod whose room others make; None: it is another Reservation."""
    namespace, slash, name = (reservation.annotations.get(ANNOTATION_PENDING_POD) or "").partition("/")
    return ObjectKey(namespace, name) if slash else None


def decision_of(reservation: Reservation) -> MakingRoom | None:
    """Who steps aside for it; None: nobody is asked to.

    That of people needs nobody once resources are held. For a pending pod others go on, because a placeholder has not all of its rules. The first decision for a pending pod stands in the annotations with which its Reservation is created, every other one in the status.
    """
    status = reservation.status
    if status.making_room is not None:
        return status.making_room
    if made_for_pod(reservation) is None or status.phase in _OVER:
        return None
    text = reservation.annotations.get(ANNOTATION_PENDING_POD_MOVES) or ""
    moves = int(text) if text.isascii() and text.isdigit() and len(text) < 3 else 0  # noqa: PLR2004 - no more than 99
    return MakingRoom(
        node=reservation.template_node, moves=moves, attempt="", since_s=reservation.created_at_s
    )


def mark_of_moves(reservation: Reservation) -> str:
    """How the moves that make its room name it, "" if none do: of several decisions for one Reservation each has its own moves."""
    making = reservation.status.making_room
    if making is not None:
        return attempt_mark(reservation.name, making.attempt)
    return reservation.name if decision_of(reservation) is not None else ""


def attempt_mark(name: str, attempt: str) -> str:
    """``mark_of_moves`` of a Reservation while others step aside for it."""
    return f"{name}/{attempt}"


def mark_of(migration: PodMigration) -> str:
    """What its pod steps aside for; "" if it does for nothing."""
    return "" if migration.requested else migration.annotations.get(ANNOTATION_MAKES_ROOM) or ""


def waiting_pod(reservation: Reservation, pods: Mapping[ObjectKey, Pod]) -> Pod | None:
    """The pod that the room is made for, while it is the one that the Reservation is owned by and has no node."""
    key = made_for_pod(reservation)
    pod = pods.get(key) if key is not None else None
    owner = reservation.owners[0].object if reservation.owners else None
    if pod is None or pod.node or pod.deleting or owner is None or owner.uid != pod.uid:
        return None
    return pod


def moves_are_planned(reservation: Reservation) -> bool:
    """True while pods step aside for it by one decision; not while others are looked for because one of them stayed."""
    making = reservation.status.making_room
    return making is not None and making.moves > 0


def looks_for_others(reservation: Reservation) -> bool:
    """True while its node is kept, and others are looked for that could step aside for the rest of its room."""
    making = reservation.status.making_room
    return making is not None and not making.moves


def wants_room(reservation: Reservation) -> bool:
    """True if it fits nowhere now and running pods may step aside for it, which none does yet."""
    return (
        (reservation.make_room or (made_for_pod(reservation) is not None and looks_for_others(reservation)))
        and not moves_are_planned(reservation)
        and not reservation.status.current_owners
        and not reservation.deleting
        and not reservation.unreadable
        and reservation.template is not None
        and _refusal(reservation) is not None
    )


def pod_that_waits(reservation: Reservation, classes: Mapping[str, PriorityClass]) -> Pod:
    """The pod of the template, of its own priority and as refused for as long as the Reservation is; there must be a template."""
    template = reservation.template
    priority = priority_of_pods(template, classes) if template is not None else 0
    pod = pod_of_room(reservation, priority)
    told = _refusal(reservation)
    if reservation.template_node:
        pod = pinned(pod, reservation.template_node)
    return msgspec.structs.replace(pod, created_at_s=reservation.created_at_s).with_state(
        unschedulable_message=told.message or UNSCHEDULABLE if told is not None else "",
        unschedulable_since_s=seconds_of(told.last_transition_time) if told is not None else 0.0,
    )


def in_its_room(pod: Pod, reservation: Reservation) -> Pod:
    """A pending pod as the pod of its room, which is made on that node and nowhere else."""
    return pinned(with_names_of_room(pod, reservation), reservation.template_node)


def _refusal(reservation: Reservation) -> Condition | None:
    """The condition by which it waits for room; None: it does not, or for something else."""
    status = reservation.status
    if status.phase is ReservationPhase.PENDING:
        kind, reason = SCHEDULED, UNSCHEDULABLE
    elif status.phase is ReservationPhase.WAITING:
        kind, reason = READY, WAITING_FOR_ROOM
    else:
        return None
    found = condition(status.conditions, kind)
    return found if found is not None and found.status == "False" and found.reason == reason else None
