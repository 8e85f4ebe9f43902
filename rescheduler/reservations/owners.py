"""Which pods may use a Reservation: the fields of one owner are ANDed, owners are ORed (rows K20, K37-K40).

An owner without any field matches nothing. A controller reference counts for the pod's own controller
and for the controllers above it (a Deployment owns the pods of its ReplicaSets).
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.records import OwnerRef, Pod
from rescheduler.model.reservation import ControllerRef, ObjectRef, ReservationOwner


def any_owner_matches(
    owners: Iterable[ReservationOwner], pod: Pod, controllers: tuple[OwnerRef, ...]
) -> bool:
    """True if one owner matches. ``controllers``: the pod's controller first, then what controls that."""
    return any(owner_matches(owner, pod, controllers) for owner in owners)


def owner_matches(owner: ReservationOwner, pod: Pod, controllers: tuple[OwnerRef, ...]) -> bool:
    """True if every given field of ``owner`` holds for the pod, and at least one is given."""
    given = False
    if owner.object is not None and owner.object != ObjectRef():
        given = _names_pod(owner.object)  # a namespace alone only confines what stands beside it
        if not _object_matches(owner.object, pod):
            return False
    if owner.controller is not None and owner.controller != ControllerRef():
        given = True
        if not any(controller_matches(owner.controller, pod.namespace, ref) for ref in controllers):
            return False
    if owner.label_selector is not None and not owner.label_selector.empty:
        given = True
        if not owner.label_selector.matches(pod.labels):
            return False
    return given


def empty_owner(owner: ReservationOwner) -> bool:
    """True if it names no pod: such an owner is refused, for it would match nothing (or everything)."""
    return (
        (owner.object is None or not _names_pod(owner.object))
        and (owner.controller is None or owner.controller == ControllerRef())
        and (owner.label_selector is None or owner.label_selector.empty)
    )


def controller_matches(wanted: ControllerRef, namespace: str, ref: OwnerRef) -> bool:
    """True if every given field of ``wanted`` is that of the controller ``ref`` in ``namespace``."""
    return (
        wanted.namespace in ("", namespace)
        and wanted.uid in ("", ref.uid)
        and wanted.name in ("", ref.name)
        and wanted.kind in ("", ref.kind)
        and wanted.api_version in ("", ref.api_version)
    )


def _names_pod(wanted: ObjectRef) -> bool:
    return bool(wanted.name or wanted.uid)


def _object_matches(wanted: ObjectRef, pod: Pod) -> bool:
    return (
        wanted.namespace in ("", pod.namespace)
        and wanted.name in ("", pod.name)
        and wanted.uid in ("", pod.uid)
    )
