"""What should be switched on, computed again in each round: gate keys and hand-over taints. Pure.

Level-triggered: only the difference to what is stored is written. So whatever a crash left behind is removed by the same
code that removes it after a move. Nodes to avoid: ``key_stores``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.key_stores import GateStore, stored
from rescheduler.model import names
from rescheduler.model.controller_key import controller_key
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Node, ObjectKey, OwnerRef, Workload
from rescheduler.model.reservation import ControllerRef, Reservation, ReservationOwner, ReservationPhase
from rescheduler.model.room_of_move import controller_of_move, made_for
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.gate_keys import MOST_KEYS, home_of_owner, keys_of_owner, legal_keys
from rescheduler.reservations.handover import tainted, tolerates_taint
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.owners import controller_matches
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.split import nothing, rest_of
from rescheduler.reservations.template import name_of_reservation, owner_of

_BEGINNING = (MigrationPhase.PENDING, MigrationPhase.RESERVING)


def wants_gate(observed: ObservedReservation) -> bool:
    """True while new pods of the owners should be gated: there is room that no pod has claimed yet.

    For a move from the written intent to evict until the claim, and for a moment before the intent, from its beginning on, so that
    the gate settles meanwhile (``migrations.gate_in_force``). Otherwise it would only delay other pods.
    """
    reservation, migration = observed.reservation, observed.migration
    status = reservation.status
    if observed.soft or reservation.deleting:
        return False
    if status.current_owners and (reservation.allocate_once or nothing(rest_of(status))):
        return False
    phase = reservation.status.phase
    if not made_for(reservation):  # Koordinator's scheduler assigns the room itself, without a gate
        open_now = phase is ReservationPhase.AVAILABLE or _about_to_be_available(observed)
        return open_now and not observed.by_koordinator and not reservation.unreadable
    # Also while the Reservation is Waiting (its node is not usable): the evicted pod's replacement may come meanwhile.
    if migration is None or migration.finished:
        return False
    if not migration.status.eviction_requested_at_s:
        return observed.prepares_gate and phase not in FINISHED
    return phase in (ReservationPhase.AVAILABLE, ReservationPhase.WAITING)


def _about_to_be_available(observed: ObservedReservation) -> bool:
    """The gate key is written before the status is Available: a user who waits for that may create pods at once."""
    placeholder = observed.placeholder
    bound = placeholder is not None and bool(placeholder.node) and observed.node_usable
    return bound and observed.reservation.status.phase not in FINISHED


def coming_rooms(
    preparing: Mapping[ObjectKey, float], index: RoundIndex, now_s: float
) -> Iterable[ObservedReservation]:
    """The Reservations of moves that begin, before they exist, as far as gate keys depend on them.

    So the gate settles while the Reservation is created and its placeholder bound. ``preparing``: until when each move wants it.
    """
    for key, until_s in preparing.items():
        migration = index.view.migrations.get(key)
        if migration is None or until_s <= now_s or migration.status.phase not in _BEGINNING:
            continue
        name, owner = name_of_reservation(migration), controller_of_move(migration, index.snapshot)
        if owner is None or name in index.snapshot.reservations:
            continue
        room = Reservation(
            name=name,
            owners=(owner_of(migration.namespace, owner),),
            annotations=LabelSet({names.ANNOTATION_MIGRATION: str(key)}),
        )
        yield ObservedReservation(reservation=room, migration=migration, prepares_gate=not migration.deleting)


def gate_keys(rooms: Iterable[ObservedReservation], index: RoundIndex) -> GateStore:
    """What ``gate-keys`` should contain: controller, pod name or label -> Reservation name; and who finds no place there.

    At most ``MOST_KEYS`` of each Reservation, whatever its owners match.
    """
    return stored((o, tuple(_keys_of(o.reservation, index))) for o in rooms if wants_gate(o))


def _keys_of(reservation: Reservation, index: RoundIndex) -> Iterable[str]:
    """By name or label where an owner has one, and by the uids of the controllers that it names.

    A move into the room is proven by the uid, and a Deployment may have adopted a ReplicaSet of any name.
    """
    found = dict.fromkeys(
        key
        for owner in reservation.owners
        for keys in (keys_of_owner(owner), legal_keys(controllers_of(owner, index)))
        for key in keys
    )
    return itertools.islice(found, MOST_KEYS)


def controllers_of(owner: ReservationOwner, index: RoundIndex) -> tuple[str, ...]:
    """Keys of the controllers whose new pods could match ``owner``, the newest first; () if its pods are found without them.

    A uid that the owner names is used as it is, in the namespace that the owner names. For names and labels, the controllers
    of the cluster are searched. Gated pods that do not match after all are released at once.
    """
    controller, home = owner.controller, home_of_owner(owner)
    by_controller = controller is not None and controller != ControllerRef()
    if home is None or (keys_of_owner(owner) and not by_controller):
        return ()
    if controller is not None and controller.uid and controller.uid not in index.snapshot.workloads:
        return (controller_key(home, controller.uid),)
    return index.kept.workloads.remembered(
        owner,
        lambda: tuple(
            controller_key(workload.namespace, workload.uid)
            for workload in sorted(index.workloads_for(owner), key=lambda w: (-w.created_at_s, w.uid))
            if workload.kind not in ("Deployment", "DaemonSet") and _could_make(owner, workload, index)
        ),
    )


def _could_make(owner: ReservationOwner, workload: Workload, index: RoundIndex) -> bool:
    if owner.controller is not None and owner.controller != ControllerRef():
        own = OwnerRef(workload.api_version, workload.kind, workload.name, workload.uid)
        refs = index.snapshot.controllers_from(own)
        if not any(controller_matches(owner.controller, workload.namespace, ref) for ref in refs):
            return False
    if owner.label_selector is not None and not owner.label_selector.matches(workload.template_labels):
        return False
    if owner.object is not None:
        in_namespace = owner.object.namespace in ("", workload.namespace)
        named = not owner.object.name or owner.object.name.startswith(f"{workload.name}-")
        return in_namespace and named
    return owner.controller is not None or owner.label_selector is not None


class TaintSwitches(NamedTuple):
    """Nodes whose hand-over taint must be set or removed."""

    on: tuple[Node, ...]
    off: tuple[Node, ...]


def taint_switches(
    rooms: Iterable[ObservedReservation], shut: Iterable[Node], unseen: Callable[[str], bool]
) -> TaintSwitches:
    """``shut``: nodes that have the taint. ``unseen``: the cache does not show our last write for that Reservation.

    A node is not tainted while a released claimant that does not tolerate the taint is pending for it, nor while the cache
    may not show that release yet: the taint would keep the claimant out of its own room.
    """
    wanted: dict[str, tuple[Node, str]] = {}
    barred: set[str] = set()
    for observed in rooms:
        if observed.node is None or observed.reservation.status.phase in FINISHED:
            continue
        if observed.needs_taint:
            wanted[observed.node.name] = (observed.node, observed.reservation.name)
        name = observed.node.name
        if any(not holds_gate(pod) and not tolerates_taint(pod, name) for pod in observed.in_flight):
            barred.add(name)
    on = tuple(
        node
        for node, reservation in wanted.values()
        if not tainted(node) and node.name not in barred and not unseen(reservation)
    )
    return TaintSwitches(on, tuple(node for node in shut if node.name not in wanted))
