"""Whether the API server would take a pod of a Reservation's template: the trial pod, and what is told to the author (pure).

A placeholder has the template's requests and constraints and nothing else of it, so a name that is misspelt would be held as
nothing: ``request`` for ``requests``, ``gpu`` for ``nvidia.com/gpu``. The API server's own validation finds all of it. The pod
is created in a dry run in the namespace of placeholders, where this program may create pods; only what validation says
counts, because admission there says nothing about the namespace of the owners.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rescheduler.calls.call import Call, OnError, Verb
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.placeholder import template_of
from rescheduler.reservations.settings import ReservationSettings

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
