"""The placeholder: a pause pod that holds a room on one node, as a manifest (pure).

It has the requests and the node constraints of the pods that it stands for, and nothing else of them: no labels of the
workload, no claims, no pod affinity. It is always pinned to the node that our own rules chose: one that the scheduler
may place freely takes rooms that are being handed over (4 of 5 moves were lost). Its priority class preempts no pod.
It meets the Pod Security level restricted, except where host ports must be held.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from rescheduler.calls.call import Call, create
from rescheduler.model import names
from rescheduler.model.kinds import Kind
from rescheduler.model.records import HostPort, ObjectKey, Pod, PodSpec, Toleration, Workload
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import (
    QuantityError,
    Resources,
    encode_resources,
    parse_resources,
    placeholder_resources,
)
from rescheduler.model.room_of_move import digest
from rescheduler.model.selectors import NodeSelector, Operator, Requirement
from rescheduler.reservations.node_terms import all_of
from rescheduler.reservations.observed_reservation import soft_mode
from rescheduler.reservations.settings import ReservationSettings

Json = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME: Final = "metadata.name"
_USER: Final = 65_535
POD_SECURITY: Final[Json] = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final[Json] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The level restricted of Pod Security."""
_SLUG: Final = 40
_NAMES: Final = 4_096
"""How many names are remembered: each round asks for the same ones again."""
_MAX_LABEL: Final = 63
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_HAND_OVER_TOLERATION: Final[Json] = {
    "key": names.ANNOTATION_HANDOVER_TAINT,
    "operator": "Exists",
    "effect": "NoSchedule",
}


class Part(msgspec.Struct, frozen=True):
    """What one placeholder of a Reservation stands for: the whole room, or the rest of one that was split."""

    size: Resources | None = None
    """What it holds; None: what the template requests."""
    waits: bool = False
    """Created with a scheduling gate, to be nominated to a node whose room is not free yet."""
    suffix: str = ""
    """Part of its name, by which it differs from the placeholder that it replaces."""
    volumes: tuple[NodeSelector, ...] = ()
    """Node affinity of the volumes that the template's claims are bound to."""


WHOLE: Final = Part()


def create_placeholder(
    reservation: Reservation, node: str, settings: ReservationSettings, part: Part = WHOLE
) -> Call:
    """Make the placeholder pod, pinned to ``node``."""
    key = ObjectKey(settings.namespace, placeholder_name(reservation, part.suffix))
    body = placeholder_manifest(reservation, node, settings, part)
    return create("create_placeholder", Kind.POD, key, body, holds_on=node)


def placeholder_name(reservation: Reservation, suffix: str = "") -> str:
    """Always the same for one Reservation, so that creating it twice is refused by the API server.

    ``suffix``: makes the name of a rest's placeholder differ from the one that it replaces.
    """
    name = f"{slug(reservation.name, 'reservation')}-{digest(reservation.uid or reservation.name)}"
    return f"{name}-{suffix}" if suffix else name


def placeholder_labels(reservation: Reservation) -> dict[str, str]:
    """By which what holds its room is found."""
    found = label_value(reservation.name)
    return {names.LABEL_PLACEHOLDER: found, names.LABEL_CREATED_BY: names.CREATED_BY}


def owner_reference(owner: Reservation | Workload, *, controller: bool = True) -> Json:
    """By which a pod goes with its owner. ``controller``: it is what holds the room of that Reservation."""
    ours = (names.API_VERSION, "Reservation")
    version, kind = ours if isinstance(owner, Reservation) else (owner.api_version, owner.kind)
    return {
        "apiVersion": version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": False,
    }


def pause_spec(container: str, image: str, resources: Json, *, stays: bool = False) -> Json:
    """The spec of a pod that does nothing: a placeholder, which ``stays``, or one that asks, which no kubelet is to run."""
    return {
        "priorityClassName": names.PRIORITY_CLASS,
        "preemptionPolicy": "Never",
        "restartPolicy": "Always" if stays else "Never",
        "terminationGracePeriodSeconds": 1 if stays else 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [
            {
                "name": container,
                "image": image,
                "resources": resources,
                "securityContext": CONTAINER_SECURITY,
            }
        ],
    }


def pinned_node(pod: Pod) -> str:
    """The node that a placeholder is pinned to; "" if to none, or to several."""
    nodes = pinned_nodes(pod)
    return next(iter(nodes)) if len(nodes) == 1 else ""


def pinned_nodes(pod: Pod) -> frozenset[str]:
    """The nodes that its required node affinity names; empty if one of the terms, which are ORed, names none."""
    affinity = pod.spec.node_affinity
    found: set[str] = set()
    for term in affinity.terms if affinity else ():
        if term.invalid:
            continue
        named = [
            set(field.values)
            for field in term.fields
            if field.key == _NODE_NAME and field.operator is Operator.IN
        ]
        if not named:
            return frozenset()
        found |= set.intersection(*named)
    return frozenset(found)


def requests_of_part(reservation: Reservation, holder: Pod) -> Resources | None:
    """What was asked for that placeholder; None: it is of an earlier version, which did not note down what a part is."""
    if noted := holder.annotations.get(names.ANNOTATION_PART):
        try:
            return parse_resources(msgspec.json.decode(noted, type=dict[str, str]))
        except (msgspec.MsgspecError, QuantityError):
            return None
    whole = holder.name == placeholder_name(reservation)
    return reservation.template.requests if whole and reservation.template is not None else None


def hand_over_tolerated(toleration: Toleration) -> bool:
    """True for the toleration that parts and gated placeholders have of their own."""
    return toleration == Toleration(**_HAND_OVER_TOLERATION)


def placeholder_manifest(
    reservation: Reservation, node: str, settings: ReservationSettings, part: Part = WHOLE
) -> bytes:
    """The pod as JSON, ready to be created in ``settings.namespace``."""
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": _metadata(reservation, settings, part),
            "spec": _spec(reservation, node, settings, part),
        }
    )


def _metadata(reservation: Reservation, settings: ReservationSettings, part: Part) -> Json:
    return {
        "name": placeholder_name(reservation, part.suffix),
        "namespace": settings.namespace,
        "labels": placeholder_labels(reservation),
        "annotations": {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true", **_noted(part)},
        "ownerReferences": [owner_reference(reservation)],
    }


def _noted(part: Part) -> dict[str, str]:
    """The size of a part is computed anew in each step, so what was asked for is kept on the placeholder itself."""
    if part.size is None:
        return {}
    return {names.ANNOTATION_PART: msgspec.json.encode(encode_resources(part.size)).decode()}


def _spec(reservation: Reservation, node: str, settings: ReservationSettings, part: Part) -> Json:
    template = _template_spec(reservation)
    scheduling = reservation.template or PodSpec()
    requests = scheduling.requests if part.size is None else part.size
    own = (scheduling.node_affinity,) if scheduling.node_affinity is not None else ()
    pin = Requirement(_NODE_NAME, Operator.IN, (node,))
    spec = pause_spec("placeholder", settings.pause_image, placeholder_resources(requests), stays=True)
    spec["affinity"] = {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": all_of([*own, *part.volumes], pin)}}
    }
    if soft_mode(reservation):
        spec["priorityClassName"] = names.PRIORITY_CLASS_SOFT
    if scheduling.host_ports:
        spec["containers"][0]["ports"] = [port_entry(port) for port in scheduling.host_ports]
    for field in ("nodeSelector", "tolerations", "schedulerName"):
        if template.get(field):
            spec[field] = template[field]
    if part.waits:
        spec["schedulingGates"] = [{"name": names.GATE_ROOM}]
    if (
        part.size is not None or part.waits
    ):  # it may be admitted while the node is tainted, and our own taint must not keep it out
        spec["tolerations"] = [*spec.get("tolerations", ()), _HAND_OVER_TOLERATION]
    return spec


def port_entry(port: HostPort) -> Json:
    """A container port that takes ``port`` on its node."""
    entry: Json = {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol}
    if port.ip not in ("", "0.0.0.0"):  # noqa: S104  a name for any address, nothing is bound here
        entry["hostIP"] = port.ip
    return entry


def template_of(reservation: Reservation) -> Json:
    """The template as it was written; empty if it is none."""
    template = msgspec.json.decode(reservation.template_raw or b"{}")
    return template if isinstance(template, dict) else {}


def _template_spec(reservation: Reservation) -> Json:
    spec = template_of(reservation).get("spec")
    return spec if isinstance(spec, dict) else {}


# Names made of other names: short, legal everywhere in Kubernetes, and always the same for the same thing


@lru_cache(_NAMES)
def slug(name: str, fallback: str) -> str:
    """``name`` as the beginning of an object name: at most 40 characters of a DNS label; never empty."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:_SLUG].strip("-") or fallback


def label_value(name: str) -> str:
    """``name`` as a label or taint value: cut with a digest where it is too long."""
    if len(name) <= _MAX_LABEL and _LABEL.fullmatch(name):
        return name
    return f"{slug(name, 'reservation')}-{digest(name)}"
