"""Level-triggered switches: what should be on is computed anew each round, the difference is written.

Gate keys in the ConfigMap ``live`` and hand-over taints on nodes. Whatever a crash left behind differs
from what should be, and so is removed by the same code that removes it after a move.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.controller.index import RoundIndex
from rescheduler.model.records import OwnerRef, Workload
from rescheduler.model.reservation import ControllerRef, ReservationOwner, ReservationPhase
from rescheduler.reservations.gate_keys import keys_of_owner
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.machine import made_for
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.owners import controller_matches
from rescheduler.reservations.sharing import nothing, rest_of


def wants_gate(observed: ObservedReservation) -> bool:
    """True while new pods of the owners should be held: there is room that nobody has claimed yet.

    For a move only from the written intent to evict until the claim: a gate without room to give away
    would only delay pods.
    """
    reservation, migration = observed.reservation, observed.migration
    status = reservation.status
    if observed.soft or reservation.deleting:
        return False
    if status.current_owners and (reservation.allocate_once or nothing(rest_of(status))):
        return False
    phase = reservation.status.phase
    if not made_for(observed):  # Koordinator's scheduler holds nobody up and deals the room out itself
        open_now = phase is ReservationPhase.AVAILABLE or _about_to_be_available(observed)
        return open_now and not observed.by_koordinator
    if migration is None or migration.finished or not migration.eviction_requested_at_s:
        return False
    return phase in (ReservationPhase.AVAILABLE, ReservationPhase.WAITING)


def _about_to_be_available(observed: ObservedReservation) -> bool:
    """The gate goes on before the status says Available: who waits for that may create pods at once."""
    placeholder = observed.placeholder
    bound = placeholder is not None and bool(placeholder.node) and observed.node_usable
    return bound and observed.reservation.status.phase not in FINISHED


def gate_keys(rooms: Iterable[ObservedReservation], index: RoundIndex) -> dict[str, str]:
    """Controller uid, pod name or label -> Reservation name that ``live`` should contain; by name, the first one wins."""
    keys: dict[str, str] = {}
    for observed in sorted(rooms, key=lambda o: o.reservation.name):
        if wants_gate(observed):
            for owner in observed.reservation.owners:
                for key in (*controllers_of(owner, index), *keys_of_owner(owner)):
                    keys.setdefault(key, observed.reservation.name)
    return keys


def controllers_of(owner: ReservationOwner, index: RoundIndex) -> tuple[str, ...]:
    """Uids of the controllers whose new pods could match ``owner``.

    A controller by uid is taken as it is. By name, by labels and by pod name the controllers in the
    cluster are searched; pods that are held and do not match are released at once.
    """
    controller = owner.controller
    if controller is not None and controller.uid and controller.uid not in index.snapshot.workloads:
        # A uid finds pods everywhere: the author's word for the namespace must not hold pods of another one.
        namespaces = {pod.namespace for pod in index.pods_of(controller.uid)}
        return (controller.uid,) if not controller.namespace or namespaces <= {controller.namespace} else ()
    return index.kept.workloads.remembered(
        owner,
        lambda: tuple(
            workload.uid
            for workload in index.workloads_for(owner)
            if workload.kind not in ("Deployment", "DaemonSet") and _could_make(owner, workload, index)
        ),
    )


def _could_make(owner: ReservationOwner, workload: Workload, index: RoundIndex) -> bool:
    if owner.controller is not None and owner.controller != ControllerRef():
        refs = _chain(workload, index)
        if not any(controller_matches(owner.controller, workload.namespace, ref) for ref in refs):
            return False
    if owner.label_selector is not None and not owner.label_selector.matches(workload.template_labels):
        return False
    if owner.object is not None:
        in_namespace = owner.object.namespace in ("", workload.namespace)
        named = not owner.object.name or owner.object.name.startswith(f"{workload.name}-")
        return in_namespace and named
    return owner.controller is not None or owner.label_selector is not None


def _chain(workload: Workload, index: RoundIndex) -> tuple[OwnerRef, ...]:
    own = OwnerRef(workload.api_version, workload.kind, workload.name, workload.uid)
    if workload.controller is None:
        return (own,)
    above = index.snapshot.workloads.get(workload.controller.uid)
    return (own, workload.controller, *(_chain(above, index)[1:] if above else ()))
