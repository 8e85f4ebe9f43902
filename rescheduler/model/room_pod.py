"""The pod that a Reservation is for, before there is one: what rules judge and count in its place. Pure.

Its name and uid are the Reservation's with a ``+``, which no object of an API server has in either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from rescheduler.model.records import Pod, PodSpec, PodVolume, PriorityClass, VolumeKind
from rescheduler.model.reservation import Reservation
from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

_MARK: Final = "+"
_NO_PRIORITY: Final = -(2**31)


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
        held=template.requests,
    )
    return with_names_of_room(pod, reservation)


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
    found: set[str] = set()
    for owner in reservation.owners:
        named = {ref.namespace for ref in (owner.object, owner.controller) if ref is not None}
        found |= named - {""} or {""}
    return frozenset(found)


def home_of(reservation: Reservation) -> str:
    """The one namespace that all its owners are confined to; "" if they name several, or one names none."""
    found = namespaces_of(reservation)
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
