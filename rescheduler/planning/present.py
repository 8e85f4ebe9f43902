"""What is under way already, applied to a trial: moves, nominated and pending pods, live Reservations.

All of them keep their room. Pending pods are expected where the stock scheduler would put them now, by
priority; those that fit nowhere hold nothing.
"""

from __future__ import annotations

import msgspec

from rescheduler.model.migration import MoveMode, PodMigration
from rescheduler.model.names import ANNOTATION_RESERVATION, GATE, LABEL_PLACEHOLDER
from rescheduler.model.records import ObjectKey, Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.room_of_move import room_of_move
from rescheduler.model.room_pod import (
    hypothetical_pod,
    in_its_room,
    keeps_its_distance,
    made_for_pod,
    moves_are_planned,
    pod_that_waits,
    waiting_pod,
    wants_room,
)
from rescheduler.planning.history import InFlight
from rescheduler.planning.single_pod import most_points
from rescheduler.planning.start_first_mode import unadopted_of
from rescheduler.planning.summary import waits
from rescheduler.planning.trial import Trial
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.classes import PodClass

_LIVE = (ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE)


def apply_present(
    trial: Trial, in_flight: tuple[InFlight, ...], replacements: Replacements, namespace: str
) -> None:
    """Apply moves under way, then nominated and pending pods, then Reservations without a placeholder.

    ``namespace``: that of placeholders. A pod that two PodMigrations move (people may ask twice) goes once; the other move only holds its room.
    """
    snapshot = trial.snapshot
    placeholders = _placeholders(trial, namespace)
    gone: set[str] = set()
    for move in in_flight:
        if move.pod.uid not in gone and _continue(trial, move, placeholders, replacements):
            gone.add(move.pod.uid)
    _take_made_rooms(trial, placeholders)
    rooms = _rooms_that_wait(trial, placeholders)
    known = {pod.uid for pod in rooms}
    loose = filter(waits, trial.state.unplaced.values())
    waiting = _hand_over(trial, [pod for pod in loose if pod.uid not in known], placeholders)
    _expect_owners(trial, placeholders)
    _expect_pending(trial, [*waiting, *rooms])
    for pod in rooms:
        if pod.key in trial.state.unplaced and pod.uid in trial.holders:
            trial.state.wait(trial.holders[pod.uid])
    for reservation in sorted(snapshot.reservations.values(), key=lambda r: r.name):
        _hold(trial, reservation, placeholders)


def _placeholders(trial: Trial, namespace: str) -> dict[str, Pod]:
    """Placeholder pods by the uid of their Reservation.

    What is elsewhere is none, whatever it says of itself: anybody may write a label and an owner reference. Rooms that
    Koordinator holds stand in no namespace.
    """
    bound = (
        pod
        for known in trial.state.cluster.classes
        if LABEL_PLACEHOLDER in known.labels
        for pod in known.pods
    )
    loose = (pod for pod in trial.state.unplaced.values() if LABEL_PLACEHOLDER in pod.labels)
    found = sorted((*bound, *loose), key=lambda p: p.key)
    return {p.controller.uid: p for p in found if p.controller is not None and p.namespace in (namespace, "")}


def _continue(trial: Trial, move: InFlight, placeholders: dict[str, Pod], replacements: Replacements) -> bool:
    """Put the replacement on its target; True if that was done."""
    pod, status = move.pod, move.migration.status
    target = status.node_name or move.migration.target_node
    standing = pod.node in trial.state.node_index and not pod.terminal
    if not standing or target not in trial.state.node_index or target == pod.node:
        return False
    replacement = replacements.of(pod).pod
    if replacement is None:
        return False  # the move will end; until then its placeholder holds the room
    if status.mode is MoveMode.START_FIRST and not _unadopted_gone(trial, move.migration):
        return False
    reservation = room_of_move(move.migration, trial.snapshot.reservations, status.reservation_name)
    if reservation is not None:
        _dismiss(trial, placeholders, reservation.uid)
    starts_first = status.mode is MoveMode.START_FIRST
    unadopted = unadopted_of(pod, replacement, trial.snapshot) if starts_first else None
    trial.move(pod, replacement, target, unadopted=unadopted)
    return True


def _unadopted_gone(trial: Trial, migration: PodMigration) -> bool:
    """The replacement that started first is taken as gone: the one that stays, with all its labels, takes its place.

    False if it has been adopted: then it counts as it is, and the old pod as the terminating pod that it is.
    """
    named = migration.status.replacement
    pods = trial.snapshot.pods
    unadopted = pods.get(ObjectKey(named.namespace, named.name)) if named is not None else None
    if unadopted is None:
        return True
    if unadopted.controller is not None:
        return False
    if not unadopted.terminal:
        trial.take_off(unadopted)
    return True


def _take_made_rooms(trial: Trial, placeholders: dict[str, Pod]) -> None:
    """Pods and Reservations for which others step aside stand where their room is made."""
    placed: set[str] = set()
    for reservation in sorted(trial.snapshot.reservations.values(), key=lambda r: r.name):
        pod, node = _whose_room_is_made(trial, reservation)
        live = reservation.status.phase in _LIVE and not reservation.deleting
        if pod is not None and live and pod.uid not in placed and node in trial.state.node_index:
            _dismiss(trial, placeholders, reservation.uid)
            trial.assume(pod, node)
            placed.add(pod.uid)


def _whose_room_is_made(trial: Trial, reservation: Reservation) -> tuple[Pod | None, str]:
    """The pod that will stand on the node; None if nobody steps aside for one now."""
    if made_for_pod(reservation) is not None:
        waits = None if wants_room(reservation) else waiting_pod(reservation, trial.snapshot.pods)
        return waits, reservation.template_node
    making = reservation.status.making_room
    if making is None or not moves_are_planned(reservation) or reservation.template is None:
        return None, ""
    return pod_that_waits(reservation, trial.snapshot.priority_classes), making.node


def _rooms_that_wait(trial: Trial, placeholders: dict[str, Pod]) -> list[Pod]:
    """The pods of rooms that want others to step aside: they wait in the trial like any pod that fits nowhere.

    A placeholder that is nominated keeps its node from other moves, and not from the pod of its own room (``Trial.holders``).
    """
    found: list[Pod] = []
    for reservation in sorted(trial.snapshot.reservations.values(), key=lambda r: r.name):
        waits = _that_waits(trial, reservation) if wants_room(reservation) else None
        if waits is None:
            continue
        holder = placeholders.get(reservation.uid)
        if holder is not None and not holder.node:
            trial.take_off(holder)
            if holder.nominated_node:
                trial.holders[waits.uid] = holder
        found.append(waits)
        trial.state.wait(waits)
    return found


def _that_waits(trial: Trial, reservation: Reservation) -> Pod | None:
    """A pending pod of which a part of the room is made waits for the rest of that room, and for no other."""
    if made_for_pod(reservation) is None:
        return pod_that_waits(reservation, trial.snapshot.priority_classes)
    pod = waiting_pod(reservation, trial.snapshot.pods)
    if pod is None or pod.key not in trial.state.unplaced:
        return None
    trial.take_off(pod)
    return in_its_room(pod, reservation)


def _hand_over(trial: Trial, pending: list[Pod], placeholders: dict[str, Pod]) -> list[Pod]:
    """Claimants and gated replacements take the room of their Reservation; gives the pods that wait without a gate."""
    waiting: list[Pod] = []
    for pod in sorted(pending, key=lambda p: p.key):
        reservation = trial.snapshot.reservations.get(pod.annotations.get(ANNOTATION_RESERVATION) or "")
        claimed = reservation is not None and _claims(reservation, pod)
        if not pod.spec.gates and not claimed:
            waiting.append(pod)
            continue
        node = pod.nominated_node or (reservation.status.node_name if reservation is not None else "")
        if (claimed or GATE in pod.spec.gates) and node in trial.state.node_index:
            if reservation is not None and claimed:
                _dismiss(trial, placeholders, reservation.uid)
                trial.assume(pod, node)
            elif pod.nominated_node:
                trial.assume(pod, node)
    return waiting


def _expect_owners(trial: Trial, placeholders: dict[str, Pod]) -> None:
    """The pods that rooms are for stand there in place of placeholders, which have none of their labels and rules."""
    for reservation in sorted(trial.snapshot.reservations.values(), key=lambda r: r.name):
        holder = placeholders.get(reservation.uid)
        bound = holder is not None and holder.node in trial.state.node_index and not holder.terminal
        if holder is not None and bound and keeps_its_distance(reservation):
            _dismiss(trial, placeholders, reservation.uid)
            trial.arrive(hypothetical_pod(reservation), holder.node)


def _claims(reservation: Reservation, pod: Pod) -> bool:
    live = reservation.status.phase not in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
    return live and any(owner.uid == pod.uid for owner in reservation.status.current_owners)


def _dismiss(trial: Trial, placeholders: dict[str, Pod], reservation: str) -> None:
    """Once only: the old pod may still be ending while its replacement has claimed the room."""
    placeholder = placeholders.get(reservation)
    if placeholder is not None and placeholder.node in trial.state.node_index:
        trial.take_off(placeholder)
        placeholders[reservation] = msgspec.structs.replace(placeholder, node="")


def _expect_pending(trial: Trial, pending: list[Pod]) -> None:
    fits_nowhere: set[PodClass] = set()
    for pod in sorted(pending, key=lambda p: (-p.spec.priority, p.created_at_s, p.key)):
        if pod.nominated_node in trial.state.node_index:
            # kube-scheduler keeps its room whether it fits or not, and whatever became of others of its kind.
            trial.assume(pod, pod.nominated_node)
            continue
        known = trial.state.cluster.kind_of(pod)
        if known in fits_nowhere:
            continue
        feasible = trial.state.filter(pod).feasible
        if feasible.any():
            trial.assume(pod, most_points(trial.state, pod, feasible))
        else:
            fits_nowhere.add(known)


def _hold(trial: Trial, reservation: Reservation, placeholders: dict[str, Pod]) -> None:
    """Room of a Reservation that no placeholder holds (another engine, or not made yet)."""
    status = reservation.status
    node = status.node_name or reservation.template_node
    if status.phase not in _LIVE or reservation.deleting or node not in trial.state.node_index:
        return
    held_by = placeholders.get(reservation.uid)
    owned = {owner.uid for owner in status.current_owners}
    waits = reservation.preallocated or wants_room(reservation)
    if held_by is not None or (owned and reservation.allocate_once) or waits:
        return
    asked = reservation.template.requests if reservation.template is not None else status.allocatable
    rest = asked - status.allocated
    if owned and not any(amount > 0 for _, amount in rest.items()):
        return  # its owners use all of it
    ghost = Pod(
        namespace="",
        name=f"reservation-{reservation.name}",
        uid=f"reservation/{reservation.name}",
        spec=msgspec.structs.replace(
            reservation.template or PodSpec(),
            requests=rest,
            score_cpu_milli=rest.cpu_milli,
            score_memory_bytes=rest.memory_bytes,
            gates=(),
        ),
    )
    trial.assume(ghost, node)
