"""The Reservation that a move needs, as a manifest: room for the replacement of one pod on one node (pure).

The template says what the replacement will ask for: effective requests as those of one container, host
ports, node constraints, tolerations, and the node affinity of its volumes in place of the volumes. What a
placeholder cannot judge (spread, other pods' anti-affinity) is left out; it is checked before the eviction.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rescheduler.model import names
from rescheduler.model.decode.wire_form import encode, encode_toleration
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey, OwnerRef, Pod, PodSpec
from rescheduler.model.reservation import ControllerRef, ReservationOwner
from rescheduler.model.resources import encode_resources
from rescheduler.model.room_of_move import move_digest
from rescheduler.model.selectors import NodeSelector
from rescheduler.reservations.node_terms import all_of
from rescheduler.reservations.placeholder import port_entry, slug

Json = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@functools.lru_cache(maxsize=20_000)  # each round asks for those of all moves
def reservation_name(migration: ObjectKey, uid: str) -> str:
    """The name of the Reservation of a move: the same after a crash, another for a later move.

    It can be computed, so admission lets nobody but the controller take a name that ends so (``reservation-rules.yaml``).
    """
    return f"{slug(migration.name, 'move')}-{move_digest(migration, uid)}{names.MOVE_SUFFIX}"


def name_of_reservation(migration: PodMigration) -> str:
    """The Reservation that a move uses: the one that it names, else its own."""
    if migration.reservation_ref:
        return migration.reservation_ref
    return migration.status.reservation_name or reservation_name(migration.key, migration.uid)


def reservation_manifest(
    *,
    name: str,
    migration: ObjectKey,
    migration_uid: str,
    pod: Pod,
    template: PodSpec | None,
    volumes: Sequence[NodeSelector],
    node: str,
    ttl_s: float,
    soft: bool,
    pre_allocation: bool = False,
) -> bytes:
    """A Reservation for the pod's controller, as JSON.

    ``template``: what the controller would create now, None: like the pod itself. ``volumes``: node affinity of the
    pod's bound volumes. ``pod.controller`` must be there: only controlled pods are moved.
    """
    annotations = {
        names.ANNOTATION_MIGRATION: str(migration),
        names.ANNOTATION_MIGRATION_UID: migration_uid,
    }
    if soft:
        annotations[names.ANNOTATION_MODE] = "Soft"
    return msgspec.json.encode(
        {
            "apiVersion": names.API_VERSION,
            "kind": "Reservation",
            "metadata": {
                "name": name,
                "labels": {names.LABEL_CREATED_BY: names.CREATED_BY},
                "annotations": annotations,
            },
            "spec": {
                "template": template_of(pod.namespace, template or pod.spec, volumes, node),
                "owners": [encode(owner_of(pod.namespace, pod.controller))] if pod.controller else [],
                "ttl": f"{int(ttl_s)}s",
                "allocateOnce": True,
                **({"preAllocation": True} if pre_allocation else {}),
            },
        }
    )


def owner_of(namespace: str, ref: OwnerRef) -> ReservationOwner:
    """What the Reservation of a move is for: new pods of that controller."""
    return ReservationOwner(
        controller=ControllerRef(
            api_version=ref.api_version, kind=ref.kind, name=ref.name, uid=ref.uid, namespace=namespace
        )
    )


def template_of(namespace: str, pod: PodSpec, volumes: Sequence[NodeSelector], node: str) -> Json:
    """The template of a Reservation on this node for a pod of that spec. ``volumes``: node affinity of its bound volumes."""
    requests = pod.requests
    container: Json = {
        "name": "replacement",
        "image": "replacement",
        "resources": {"requests": encode_resources(requests)},
    }
    scalars = {name: str(amount) for name, amount in requests.scalars if amount}
    if scalars:
        container["resources"]["limits"] = scalars
    if pod.host_ports:
        container["ports"] = [port_entry(port) for port in pod.host_ports]
    spec: Json = {"nodeName": node, "containers": [container]}
    if pod.node_selector:
        spec["nodeSelector"] = dict(pod.node_selector)
    if pod.tolerations:
        spec["tolerations"] = [encode_toleration(t) for t in pod.tolerations]
    if pod.scheduler_name != "default-scheduler":
        spec["schedulerName"] = pod.scheduler_name
    selectors = [*((pod.node_affinity,) if pod.node_affinity is not None else ()), *volumes]
    terms = all_of(selectors)
    if terms is not None:
        spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    return {"metadata": {"namespace": namespace}, "spec": spec}
