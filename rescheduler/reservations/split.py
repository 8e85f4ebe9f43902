"""Several pods use one Reservation (``allocateOnce: false``): each gets a part of the room, and the rest stays held.

The order of a split was measured (20 of 20 while many other pods competed for the room): the claimants and a smaller
placeholder for the rest are all nominated; the old placeholder is deleted; when it is gone, first the placeholder of
the rest is admitted, then the claimants. All pods that fit are claimed at once; later pods wait until these are bound.

Nothing is remembered: ``rest`` is what the placeholders hold beyond the claimants, ``status.allocatable`` is the rest
plus what the present owners use. What an owner that ends leaves is held again (``returning_part``); until the next split it has a
placeholder of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import admit_placeholder, delete_placeholder, nominate, release
from rescheduler.model.counted import plural
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.reservations.assignment import fits, taken_by
from rescheduler.reservations.handover import holds_gate, taken_back, ungate
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.naming import digest
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.placeholder import Part, create_placeholder
from rescheduler.reservations.preallocation import (
    is_preallocated,
    recreated,
    wait_for_room,
    waiting_message,
    waits_for_room,
)
from rescheduler.reservations.returning_part import missing_part, take_back, waiting_for, waits_for_part
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import HandoverWait, claim_message, look_again_s


@dataclass(slots=True, kw_only=True)
class SplitStep:
    """The outcome of one step: the status, an event for the table of transitions if there is one, and calls."""

    status: ReservationStatus
    event: ReservationEvent | None = None
    message: str = ""
    calls: list[AnyCall] = field(default_factory=list)
    wake_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stock:
    """What is there. ``whole``: the bound placeholders that still cover rest and claimants; ``next``: that of the rest."""

    owners: tuple[Pod, ...]
    flight: tuple[Pod, ...]
    whole: tuple[Pod, ...]
    next: Pod | None
    rest: Resources
    missing: Resources
    """What owners that have ended, or are about to, leave to the room."""

    @property
    def splits(self) -> bool:
        """False if the claimants request nothing: the bound placeholder is the one of the rest already."""
        return not self.whole or not _same(total(self.whole), self.rest)

    @property
    def gated(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.flight if holds_gate(pod))


def total(pods: Iterable[Pod]) -> Resources:
    """The sum of what the pods request."""
    result = NO_RESOURCES
    for pod in pods:
        result += pod.spec.requests
    return result


def used_by(pods: Iterable[Pod], reservation: Reservation) -> Resources:
    """The sum of what the pods take of the room."""
    result = NO_RESOURCES
    for pod in pods:
        result += taken_by(pod, reservation)
    return result


def rest_of(status: ReservationStatus) -> Resources:
    """What is held for owners that have not come yet."""
    return status.allocatable - status.allocated


def free_part(observed: ObservedReservation) -> Resources:
    """What new owners may get now, including the parts of claimants that were deleted before they were bound."""
    reservation = observed.reservation
    status, template = reservation.status, reservation.template
    if (
        status.phase is ReservationPhase.PENDING
    ):  # the placeholder was bound a moment ago, and the status does not show it yet
        return template.requests if template is not None else NO_RESOURCES
    return status.allocatable if reservation.allocate_once else _take_stock(observed, status).rest


def nothing(amount: Resources) -> bool:
    """True if no amount is above zero."""
    return not any(value > 0 for _, value in amount.items())


def flying(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Owners that have claimed a part and are not bound yet."""
    return tuple(pod for pod in _present(observed) if not pod.node)


def split(
    observed: ObservedReservation, status: ReservationStatus, now_s: float, settings: ReservationSettings
) -> SplitStep:
    """The next step for a Reservation that is split. Phases Available and Waiting."""
    stock = _take_stock(observed, status)
    result = SplitStep(status=_told(observed.reservation, status, stock.owners, stock.rest))
    if stock.flight:
        _hand_over(result, observed, stock, now_s, settings)
    else:
        _hold(result, observed, stock, settings)
    return result


def too_small(observed: ObservedReservation, status: ReservationStatus) -> Iterable[AnyCall]:
    """Deletes placeholders of one owner's part where all of it is waited for, because all owners have ended."""
    template, rest = observed.reservation.template, rest_of(status)
    wanted = rest if not nothing(rest) or template is None else template.requests
    for holder in observed.placeholders:
        if not holder.deleting and not fits(wanted, holder.spec.requests):
            yield delete_placeholder(holder)


def covering(observed: ObservedReservation) -> Pod | None:
    """A bound placeholder that still holds the room of the claimants besides the rest; it is deleted for them."""
    stock = _take_stock(observed, observed.reservation.status)
    return next(iter(stock.whole), None) if stock.splits else None


def emptied(observed: ObservedReservation) -> bool:
    """True if no placeholder holds the room of the claimants any more."""
    whole = _take_stock(observed, observed.reservation.status).whole
    return not whole and not any(holder.deleting and holder.node for holder in observed.placeholders)


def returns(observed: ObservedReservation) -> bool:
    """True while a part that an owner leaves, or has left, is not held."""
    reservation = observed.reservation
    if reservation.allocate_once or not reservation.status.current_owners:
        return False
    return not nothing(_take_stock(observed, reservation.status).missing)


def claim(reservation: Reservation, status: ReservationStatus, pods: tuple[Pod, ...]) -> ReservationStatus:
    """The status after these pods have been given their parts."""
    owners = (*status.current_owners, *map(_reference, pods))
    allocated = status.allocated + used_by(pods, reservation)
    return msgspec.structs.replace(status, current_owners=owners, allocated=allocated)


def _present(observed: ObservedReservation) -> tuple[Pod, ...]:
    node = observed.reservation.status.node_name
    return tuple(
        pod
        for pod in observed.owners
        if not pod.terminal and pod.node in ("", node) and not (pod.deleting and not pod.node)
    )


def _take_stock(observed: ObservedReservation, status: ReservationStatus) -> _Stock:
    owners = _present(observed)
    flight = tuple(pod for pod in owners if not pod.node)
    standing = [h for h in observed.placeholders if not h.deleting and not h.terminal]
    bound = tuple(h for h in standing if h.node)
    rest, whole = rest_of(status), bound[:0]
    # Bound placeholders that are too small for rest and claimants together are those of the rest: the split is done.
    flying = used_by(flight, observed.reservation)
    if bound and fits(rest + flying, total(bound)):
        whole, rest = bound, total(bound) - flying
    others = (h for h in standing if not waits_for_part(observed, h) and all(h is not one for one in whole))
    following = next((h for h in others if _same(h.spec.requests, rest)), None)
    missing = missing_part(observed, owners, rest)
    return _Stock(owners=owners, flight=flight, whole=whole, next=following, rest=rest, missing=missing)


def _told(
    reservation: Reservation, status: ReservationStatus, owners: tuple[Pod, ...], rest: Resources
) -> ReservationStatus:
    used = used_by(owners, reservation)
    return msgspec.structs.replace(
        status,
        current_owners=tuple(map(_reference, owners)),
        allocated=used,
        allocatable=rest + used,
    )


def _reference(pod: Pod) -> ObjectRef:
    return ObjectRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _same(one: Resources, other: Resources) -> bool:
    return fits(one, other) and fits(other, one)


# No claimant is on its way ------------------------------------------------------------------------------


def _hold(
    result: SplitStep, observed: ObservedReservation, stock: _Stock, settings: ReservationSettings
) -> None:
    node = result.status.node_name
    returns = not nothing(stock.missing)
    if stock.whole or (returns and nothing(stock.rest) and stock.owners):
        _take_back(result, observed, stock, settings)
        result.event = ReservationEvent.OWNERS_CHANGED
        result.message = _holding_words(node, stock)
    elif stock.next is not None:
        _admit_rest(result, observed, stock.next)
    elif not nothing(stock.rest) and is_preallocated(result.status):
        result.calls.extend(recreated(observed, result.status, stock.rest, settings))
    elif not nothing(stock.rest):
        result.event = ReservationEvent.PLACEHOLDER_LOST
        result.message = f"the placeholder on node {node} is gone: the room is not held any more"
    elif stock.owners:
        result.event = ReservationEvent.OWNERS_CHANGED
        result.message = f"all of it on node {node} is used by {plural(len(stock.owners), 'pod')}"
    else:
        # Its owners used all of it and have ended. What they left is waited for as a preallocated one waits.
        result.calls.extend(recreated(observed, result.status, None, settings))
        result.event = ReservationEvent.PREALLOCATED
        result.message = f"its owners on node {node} have ended; waiting until all of it is held again"


def _take_back(
    result: SplitStep, observed: ObservedReservation, stock: _Stock, settings: ReservationSettings
) -> None:
    waits = waiting_for(observed, stock.missing)
    result.calls.extend(_delete_others(observed, *stock.whole, waits))
    if not nothing(stock.missing):
        result.calls.extend(take_back(observed, stock.missing, stock.whole, settings))


def _holding_words(node: str, stock: _Stock) -> str:
    owners = stock.owners
    back = "" if nothing(stock.missing) else "; what an owner leaves is waited for"
    if not owners:
        return f"room is held on node {node}{back}"
    return f"used by {plural(len(owners), 'pod')} on node {node}; the rest is held{back}"


def _admit_rest(result: SplitStep, observed: ObservedReservation, rest: Pod) -> None:
    """The claimants are bound or gone, and the placeholder of the rest is not bound yet."""
    result.calls.extend(_delete_others(observed, rest))
    if result.calls or any(holder.deleting for holder in observed.placeholders):
        return
    if waits_for_room(rest) and rest.nominated_node == result.status.node_name:
        result.calls.append(admit_placeholder(rest))
        return
    result.calls.extend(wait_for_room(observed, rest))
    if rest.unschedulable_message:
        result.event, result.message = ReservationEvent.PREALLOCATED, waiting_message(rest)


def _delete_others(observed: ObservedReservation, *kept: Pod | None) -> Iterable[AnyCall]:
    for holder in observed.placeholders:
        if not holder.deleting and all(holder is not one for one in kept):
            yield delete_placeholder(holder)


# Claimants are on the way --------------------------------------------------------------------------


def _hand_over(
    result: SplitStep,
    observed: ObservedReservation,
    stock: _Stock,
    now_s: float,
    settings: ReservationSettings,
) -> None:
    # The limit comes before every wait: no reason may keep a pod gated for longer.
    limits_s = {pod.uid: _limit_s(observed, pod, settings) for pod in stock.flight}
    late = tuple(
        pod
        for pod in stock.flight
        if now_s >= limits_s[pod.uid]
        or _refused(observed, stock, pod)
        or (observed.other_node and holds_gate(pod))
    )
    limit_s = min(limits_s.values())
    if late:
        result.wake_at_s = limit_s
        _release(result, observed.reservation, stock, late)
        return
    node, wait = result.status.node_name, observed.wait
    result.event = ReservationEvent.CLAIMED
    result.message = claim_message(stock.flight, node, wait, now_s)
    result.wake_at_s = look_again_s(wait, now_s, limit_s)
    if wait is not None and wait.reason is HandoverWait.NODE_NOT_USABLE:
        return
    needs_rest = stock.splits and not nothing(stock.rest)
    # What waits for the part of an owner keeps it until everything is ready, and other pods are kept off the node.
    waits = waiting_for(observed, stock.missing) if stock.whole else None
    result.calls.extend(_delete_others(observed, *stock.whole, waits, stock.next if needs_rest else None))
    if result.calls:
        return
    if needs_rest and stock.next is None:
        # It must be nominated together with the claimants, so it is created before the old placeholder is deleted.
        suffix = digest(" ".join(sorted(pod.uid for pod in stock.flight)))
        part = Part(size=stock.rest, waits=True, suffix=suffix, volumes=observed.volumes)
        result.calls.append(create_placeholder(observed.reservation, node, settings, part))
        return
    result.calls.extend(_next_step(observed, stock, node))


def _next_step(observed: ObservedReservation, stock: _Stock, node: str) -> Iterable[AnyCall]:
    """Claimants and the placeholder of the rest take each step together: one that came later could lose its room."""
    rest = stock.next if stock.splits else None
    unbound = (*((rest,) if rest is not None and not rest.node else ()), *stock.gated)
    if observed.wait is not None:
        return taken_back(observed, unbound)
    missing = [pod for pod in unbound if pod.nominated_node != node]
    if missing:
        return [nominate(pod, node) for pod in missing]
    if any(holder.deleting for holder in observed.placeholders):
        return ()
    waiting = [pod for pod in observed.placeholders if waits_for_part(observed, pod)]
    if stock.splits and stock.whole and waiting:
        return tuple(map(delete_placeholder, waiting))
    if stock.splits and stock.whole:
        return tuple(delete_placeholder(holder, unbound, node) for holder in stock.whole)
    # The placeholder of the rest first: it has a higher priority than most pods, so no pod can preempt it.
    admitted = rest is not None and waits_for_room(rest)
    rests = (admit_placeholder(rest),) if admitted and rest is not None else ()
    return (*rests, *(ungate(observed, pod) for pod in stock.gated))


def _refused(observed: ObservedReservation, stock: _Stock, pod: Pod) -> bool:
    """True for a claimant without a gate that no longer fits, while its part is still held."""
    return bool(observed.unfit) and bool(stock.whole) and not holds_gate(pod)


def _limit_s(observed: ObservedReservation, pod: Pod, settings: ReservationSettings) -> float:
    if holds_gate(pod):
        return pod.created_at_s + settings.gate_limit_s
    return max(pod.created_at_s, observed.claimed_since_s) + settings.landing_limit_s


def _release(result: SplitStep, reservation: Reservation, stock: _Stock, late: tuple[Pod, ...]) -> None:
    """Release the pods that are late. Their parts go back into the rest if the old placeholder is still bound."""
    kept = tuple(pod for pod in stock.owners if pod not in late)
    rest = stock.rest + used_by(late, reservation) if stock.whole else stock.rest
    result.status = _told(reservation, result.status, kept, rest)
    names = ", ".join(str(pod.key) for pod in late)
    result.event = ReservationEvent.OWNERS_CHANGED
    result.message = f"{names} was not bound in time and may be bound to any node"
    result.calls.extend(release(pod, result.message) for pod in late if holds_gate(pod))
