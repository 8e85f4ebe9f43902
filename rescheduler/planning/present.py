"""What is under way already, applied to a trial: moves, nominated and pending pods, live Reservations.

All of them keep their room. Pending pods are expected where the stock scheduler would put them now, by
priority; those that fit nowhere hold nothing and stand in nobody's way.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rescheduler.model.migration import MoveMode
from rescheduler.model.names import ANNOTATION_RESERVATION, GATE, LABEL_PLACEHOLDER
from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.planning.history import InFlight
from rescheduler.planning.replacement import replacement_of
from rescheduler.planning.trial import Trial

_LIVE = (ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE)


def apply_present(trial: Trial, in_flight: tuple[InFlight, ...]) -> None:
    """Apply moves under way, then nominated and pending pods, then Reservations without a placeholder.

    A pod that two PodMigrations move (people may ask twice) goes once; the other move only holds its room.
    """
    snapshot = trial.snapshot
    placeholders = _placeholders(trial)
    pending = [p for p in trial.index.loose.values() if not p.node and not p.deleting]
    gone: set[str] = set()
    for move in in_flight:
        if move.pod.uid not in gone and _continue(trial, move, placeholders):
            gone.add(move.pod.uid)
    waiting = _hand_over(trial, pending, placeholders)
    _expect_pending(trial, waiting)
    for reservation in sorted(snapshot.reservations.values(), key=lambda r: r.name):
        _hold(trial, reservation, placeholders)


def _placeholders(trial: Trial) -> dict[str, Pod]:
    """Placeholder pods by the name of their Reservation."""
    bound = (pod for known in trial.index.classes if LABEL_PLACEHOLDER in known.labels for pod in known.pods)
    loose = (pod for pod in trial.index.loose.values() if LABEL_PLACEHOLDER in pod.labels)
    return {_reservation_of(pod): pod for pod in sorted((*bound, *loose), key=lambda p: p.key)}


def _reservation_of(placeholder: Pod) -> str:
    owner = placeholder.controller
    return owner.name if owner is not None else placeholder.labels[LABEL_PLACEHOLDER]


def _continue(trial: Trial, move: InFlight, placeholders: dict[str, Pod]) -> bool:
    """Put the replacement on its target; True if that was done."""
    pod, status = move.pod, move.migration.status
    target = status.node_name or move.migration.target_node
    if status.mode is MoveMode.START_FIRST and status.replacement is not None:
        return False  # a pod of its own stands or waits there, and the old pod still holds its room
    standing = pod.node in trial.state.node_index and not pod.terminal
    if not standing or target not in trial.state.node_index or target == pod.node:
        return False
    _dismiss(trial, placeholders, status.reservation_name)
    trial.move(pod, replacement_of(pod, trial.snapshot), target)
    return True


def _hand_over(trial: Trial, pending: list[Pod], placeholders: dict[str, Pod]) -> list[Pod]:
    """Gated replacements take the room of their Reservation; gives the pods that wait without a gate."""
    waiting: list[Pod] = []
    for pod in sorted(pending, key=lambda p: p.key):
        if not pod.spec.gates:
            waiting.append(pod)
            continue
        reservation = trial.snapshot.reservations.get(pod.annotations.get(ANNOTATION_RESERVATION) or "")
        node = pod.nominated_node or (reservation.status.node_name if reservation is not None else "")
        if GATE in pod.spec.gates and node in trial.state.node_index:
            if reservation is not None and any(o.uid == pod.uid for o in reservation.status.current_owners):
                _dismiss(trial, placeholders, reservation.name)
                trial.expect(pod, node)
            elif pod.nominated_node:
                trial.expect(pod, node)
    return waiting


def _dismiss(trial: Trial, placeholders: dict[str, Pod], reservation: str) -> None:
    """Once only: the old pod may still be ending while its replacement has claimed the room."""
    placeholder = placeholders.get(reservation)
    if placeholder is not None and placeholder.node in trial.state.node_index:
        trial.dismiss(placeholder)
        placeholders[reservation] = msgspec.structs.replace(placeholder, node="")


def _expect_pending(trial: Trial, pending: list[Pod]) -> None:
    hopeless: set[tuple[str, int, int]] = set()
    for pod in sorted(pending, key=lambda p: (-p.spec.priority, p.created_at_s, p.key)):
        kind = (pod.namespace, id(pod.spec), id(pod.labels))
        if kind in hopeless:
            continue
        node = _where(trial, pod)
        if node is None:
            hopeless.add(kind)
        else:
            trial.expect(pod, node)


def _where(trial: Trial, pod: Pod) -> str | None:
    if pod.nominated_node in trial.state.node_index:
        return pod.nominated_node
    feasible = trial.state.filter(pod).feasible
    if not feasible.any():
        return None
    points = np.where(feasible, trial.state.score(pod, feasible).total, -1)
    names = trial.state.node_names
    return min((names[i] for i in np.flatnonzero(points == points.max())), default=None)


def _hold(trial: Trial, reservation: Reservation, placeholders: dict[str, Pod]) -> None:
    """Room of a Reservation that no placeholder holds (another engine, or not made yet)."""
    status = reservation.status
    node = status.node_name or reservation.template_node
    if status.phase not in _LIVE or reservation.deleting or node not in trial.state.node_index:
        return
    held_by = placeholders.get(reservation.name)
    owned = {owner.uid for owner in status.current_owners}
    if held_by is not None or (owned and reservation.allocate_once) or reservation.pre_allocation:
        return
    asked = reservation.template.requests if reservation.template is not None else status.allocatable
    rest = asked - status.allocated
    ghost = Pod(
        namespace="",
        name=f"reservation-{reservation.name}",
        uid=f"reservation/{reservation.name}",
        spec=msgspec.structs.replace(reservation.template or PodSpec(), requests=rest, gates=()),
    )
    trial.expect(ghost, node)
