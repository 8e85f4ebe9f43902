"""What is told of a Reservation: its conditions that hold in every phase, and its Events. Pure.

A Reservation has ``Gated`` only once its keys found no place in the gate's store. While it is False, its room is held as ever, but a
new pod of its owners goes where the scheduler likes; once there is place, the condition is True. It has ``OwnersWait`` only once a
pending pod of its owners was seen that cannot use it. It holds its capacity all the same: another owner may fit.
``HeldCompletely`` says what a placeholder does not hold of what the template asks for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rescheduler.model.event import Event, about
from rescheduler.model.own_objects import (
    OWNERS_WAIT,
    Condition,
    condition,
    told,
    who_waits,
    with_fault,
    with_readable,
)
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import milli, units
from rescheduler.model.room_of_move import made_for
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_lifecycle import CONDITION_READY

CONDITION_GATED: Final = "Gated"
_GATE_FULL: Final = "GateFull"
_KEPT_OUT: Final = "OwnerKeptOut"


def reservation_event(reservation: Reservation, reason: str, message: str, *, warning: bool = True) -> Event:
    """An Event of the Reservation."""
    return Event(about(reservation), reason, message, warning)


def is_told(reservation: Reservation, phase: ReservationPhase) -> bool:
    """False for the room of a move whose PodMigration tells the same."""
    return phase is ReservationPhase.FAILED or not made_for(reservation)


def phase_event(reservation: Reservation, status: ReservationStatus) -> Event:
    """That it enters the phase of ``status``. Reason and message are those of its condition Ready."""
    ready = condition(status.conditions, CONDITION_READY)
    reason = (ready.reason if ready else "") or status.phase
    message = (ready.message if ready else "") or f"the Reservation is {status.phase}"
    return reservation_event(reservation, reason, message, warning=status.phase is ReservationPhase.FAILED)


def standing_conditions(observed: ObservedReservation, now_s: float) -> tuple[Condition, ...]:
    """The conditions of a Reservation that can be read, with what holds in every phase: Gated and OwnersWait."""
    found = with_readable(observed.reservation.status.conditions, "", now_s)
    return _with_owners_wait(with_gated(found, observed.ungated, now_s), observed.owners_wait, now_s)


def standing_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Events of what has come to hold: it is left out of the gate, a pod is kept out."""
    message, before = who_waits(status.conditions), who_waits(reservation.status.conditions)
    kept_out = (reservation_event(reservation, _KEPT_OUT, message),) if message not in ("", before) else ()
    return (*gate_events(reservation, status), *kept_out)


def with_gated(conditions: tuple[Condition, ...], ungated: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with why its pods are not held ("": they are); the same value if nothing changes."""
    mended = "KeysStored"
    return with_fault(conditions, CONDITION_GATED, ungated, reason=_GATE_FULL, mended=mended, now_s=now_s)


def gate_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Event of one that is left out from now on."""
    before, now = (condition(s.conditions, CONDITION_GATED) for s in (reservation.status, status))
    if now is None or now.status == "True" or (before is not None and before.status == now.status):
        return ()
    return (reservation_event(reservation, _GATE_FULL, now.message),)


def _with_owners_wait(
    conditions: tuple[Condition, ...], kept_out: str, now_s: float
) -> tuple[Condition, ...]:
    """The conditions with the pod that cannot use it ("": there is none); the same value if nothing changes."""
    old = condition(conditions, OWNERS_WAIT)
    if kept_out:
        return told(conditions, Condition(OWNERS_WAIT, "True", _KEPT_OUT, kept_out), now_s)
    if old is None or old.status == "False":
        return conditions
    return told(conditions, Condition(OWNERS_WAIT, "False", "NoOwnerWaits"), now_s)


Json = dict[str, Any]

_WHOLE_CPU: Final = 1000


def not_held(reservation: Reservation, unbound_claims: Iterable[str]) -> str:
    """For people; "" if all of it is held. ``unbound_claims``: claims of the template that have no volume yet."""
    template = reservation.template
    if template is None:
        return ""
    parts = list(_of_volumes(template, sorted(unbound_claims)))
    if template.spread or template.pod_affinity or template.pod_anti_affinity:
        parts.append("spread and pod affinity were judged when the node was chosen and are not kept true")
    what = [
        *(
            ["huge pages"]
            if any(name.startswith("hugepages-") for name, _ in template.requests.scalars)
            else ()
        ),
        *(["exclusive CPUs"] if asks_for_own_cpus(reservation.template_raw) else ()),
    ]
    if what:
        parts.append(
            f"which NUMA node serves {' and '.join(what)} is decided by the kubelet when the owner comes"
        )
    if runtime := _runtime_class(reservation.template_raw):
        parts.append(
            f"what RuntimeClass {runtime} adds to its pods is held only if spec.overhead of the template says it"
        )
    if not reservation.allocate_once:
        parts.append("one of the node's pod slots is held, not one for each owner")
    return "; ".join(parts)


def _runtime_class(template: bytes) -> str:
    """The RuntimeClass whose overhead admission adds to pods, and not to a template; "": none, or the template has it."""
    spec = msgspec.json.decode(template).get("spec") or {}
    return "" if spec.get("overhead") else str(spec.get("runtimeClassName") or "")


def asks_for_own_cpus(template: bytes) -> bool:
    """True if a kubelet with the static CPU manager gives a container CPUs of its own.

    That is a container of a Guaranteed pod (limits for CPU and memory, requests equal to them) with whole CPUs.
    """
    spec = msgspec.json.decode(template).get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    whole = [c for c in containers if _guaranteed(c) and milli(_limits(c)["cpu"]) % _WHOLE_CPU == 0]
    return bool(whole) and (_guaranteed(spec) or all(map(_guaranteed, containers)))


def _guaranteed(holder: Json) -> bool:
    """``holder``: a container, or a spec with resources of the whole pod."""
    limits = _limits(holder)
    requests = {**limits, **((holder.get("resources") or {}).get("requests") or {})}
    return (
        "cpu" in limits
        and "memory" in limits
        and milli(limits["cpu"]) == milli(requests["cpu"]) > 0
        and units(limits["memory"]) == units(requests["memory"]) > 0
    )


def _limits(holder: Json) -> Json:
    return (holder.get("resources") or {}).get("limits") or {}


def _of_volumes(template: PodSpec, unbound: list[str]) -> Iterable[str]:
    kinds = {volume.kind for volume in template.volumes}
    if kinds & {VolumeKind.CLAIM, VolumeKind.EPHEMERAL}:
        yield "volumes are attached only when the owner comes: attach limits are not held"
    if unbound:
        yield (
            f"claim {', '.join(unbound)} has no volume yet: one was to be had on this node, and is bound or made "
            "only when the owner comes"
        )
    if VolumeKind.EPHEMERAL in kinds:
        yield "ephemeral volumes are made only when the owner comes: where that is possible was not judged"
