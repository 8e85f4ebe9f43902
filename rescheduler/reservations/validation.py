"""What a Reservation must be before anything is done for it: refusals as values, with words for its author.

The admission rules of the CRD refuse the same; this is the second line, for objects that came in before
them or through another API server.

Whether the API server would take a pod of the template is asked by a dry-run creation. A placeholder has the template's requests and
constraints and nothing else of it, so a name that is misspelt (``request``, ``gpu`` for ``nvidia.com/gpu``) would be held as nothing.
The pod is created in the namespace of placeholders, where this program may create pods; only what validation says counts, because
admission there says nothing about the namespace of the owners.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.calls.call import Call, OnError, Verb
from rescheduler.model.decode.template_fault import template_fault
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.gate_keys import MOST_KEYS, can_be_found, keys_needed
from rescheduler.reservations.observed_reservation import soft_mode
from rescheduler.reservations.owners import empty_owner
from rescheduler.reservations.placeholder import template_of
from rescheduler.reservations.reservation_lifecycle import ReservationEvent
from rescheduler.reservations.settings import ReservationSettings


class Refused(NamedTuple):
    """Why a Reservation cannot be served: INVALID (its author can mend it) or NOT_SUPPORTED."""

    event: ReservationEvent
    message: str


def refusal(reservation: Reservation, template_refused: str | None = "") -> Refused | None:
    """The first reason to refuse ``reservation``, or None. ``template_refused``: the API server's words, if it was asked."""
    if reservation.template is None:
        return _invalid(template_fault(reservation.template_raw))
    owners = _owners_refusal(reservation)
    if owners is not None:
        return owners
    if reservation.ttl_s is not None and reservation.expires_at_s is not None:
        return _invalid("spec.ttl and spec.expires exclude each other (give one)")
    if reservation.ttl_s is not None and reservation.ttl_s < 0:
        return _invalid("spec.ttl is negative")
    if template_refused:
        return _invalid(f"spec.template: the API server takes no such pod: {template_refused}")
    return _unsupported_part(reservation)


def _unsupported_part(reservation: Reservation) -> Refused | None:
    ahead = reservation.pre_allocation or reservation.make_room
    if soft_mode(reservation) and (ahead or not reservation.allocate_once):
        return _unsupported("a soft Reservation serves one pod, with room that is free now")
    if not reservation.allocate_once and reservation.template is not None:
        if not any(amount > 0 for _, amount in reservation.template.requests.items()):
            return _invalid("spec.template requests nothing: several pods cannot share a room of no size")
        if reservation.template.host_ports:
            return _unsupported("several pods cannot use the same host ports of one node")
    if reservation.template is not None and reservation.template.resource_claims:
        return _unsupported("spec.template uses resourceClaims: devices cannot be held by a placeholder")
    return None


def _owners_refusal(reservation: Reservation) -> Refused | None:
    if not reservation.owners:
        return _invalid("spec.owners is empty: no pod could use the room")
    needed = keys_needed(reservation.owners)
    if needed > MOST_KEYS:
        return _invalid(
            f"spec.owners needs {needed} keys for the gate to find their pods, and {MOST_KEYS} are the most: "
            "name controllers or a label that they share, or make several Reservations"
        )
    for index, owner in enumerate(reservation.owners):
        if empty_owner(owner):
            return _invalid(
                f"spec.owners[{index}] names no pod: it needs object, controller or labelSelector"
            )
        if owner.label_selector is not None and owner.label_selector.invalid:
            return _invalid(f"spec.owners[{index}].labelSelector: {owner.label_selector.invalid}")
        if not can_be_found(owner):
            return _invalid(
                f"spec.owners[{index}] says nothing by which a new pod can be found: "
                "a labelSelector needs matchLabels, In or Exists, an object needs a name"
            )
    return None


def _invalid(message: str) -> Refused:
    return Refused(ReservationEvent.INVALID, message)


def _unsupported(message: str) -> Refused:
    return Refused(ReservationEvent.NOT_SUPPORTED, message)


Json = dict[str, Any]

_OF_OTHER_OBJECTS: Final = (
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "runtimeClassName",
    "schedulingGates",
    "serviceAccount",
    "serviceAccountName",
)
"""Fields that admission compares with other objects, or of its own, before the pod is validated."""
_CONTAINERS: Final = ("containers", "initContainers")
_DEFAULTED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources that a LimitRange of the namespace of placeholders may limit to less than the template requests."""


def try_template(reservation: Reservation, settings: ReservationSettings) -> Call:
    """Create a pod of the template in a dry run, to see whether the API server takes it."""
    return Call(
        does="try_template",
        verb=Verb.CREATE,
        kind=Kind.POD,
        key=ObjectKey(settings.namespace, "template-"),
        body=trial_pod(reservation),
        dry_run=True,
        on_error=OnError.RETURN_INVALID,
        seen=reservation,
    )


def trial_pod(reservation: Reservation) -> bytes:
    """The pod as JSON, to be created in a dry run."""
    template = template_of(reservation)
    metadata = template.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    kept = {field: known[field] for field in ("labels", "annotations") if known.get(field)}
    spec = template.get("spec")
    fields = spec if isinstance(spec, dict) else {}
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "template-", **kept},
            "spec": {
                **{
                    field: [_limited(one) for one in value]
                    if field in _CONTAINERS and isinstance(value, list)
                    else value
                    for field, value in fields.items()
                    if field not in _OF_OTHER_OBJECTS
                },
                "automountServiceAccountToken": False,
            },
        }
    )


def _limited(container: Any) -> Any:
    """The container with a limit for each request that has none, so that no LimitRange gives it another one."""
    match container:
        case {"resources": {"requests": dict() as requests} as resources}:
            limits = resources.get("limits") or {}
        case _:
            return container
    if not isinstance(limits, dict):
        return container  # its own fault is told
    equal = {name: requests[name] for name in _DEFAULTED if name in requests}
    return {**container, "resources": {**resources, "limits": {**equal, **limits}}}
