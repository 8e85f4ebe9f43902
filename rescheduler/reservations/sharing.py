"""Several pods from one Reservation (``allocateOnce: false``): the room is handed out in parts, the rest stays held.

The split, as measured (20 of 20 under a stampede): the claimants and a smaller placeholder for the rest are all
nominated; the old placeholder is deleted; when it is gone the rest is let in first, then the claimants. All pods that
can be served are claimed at once; the next ones wait until these have landed.

Nothing is remembered: ``rest`` is what the placeholder holds beyond the claimants, ``status.allocatable`` is the rest
plus what the present owners use. An owner that ends takes its part with it (rows K35, K36): the room is then free for
anybody, and a stock scheduler gives nobody a way to get it back for sure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, ReservationPhase, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.reservations import actions as act
from rescheduler.reservations.allocation import fits
from rescheduler.reservations.handover import holds_gate, taint_is_settled, take_back, ungate
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.naming import digest
from rescheduler.reservations.observed import ObservedReservation, ReservationSettings
from rescheduler.reservations.parts import Part
from rescheduler.reservations.promised import is_promised, promise_anew, wait_for_room, waits_for_room, words


@dataclass(slots=True, kw_only=True)
class Shared:
    """What one look leads to: the true status, an event for the table if there is one, actions."""

    status: ReservationStatus
    event: ReservationEvent | None = None
    message: str = ""
    actions: list[act.ReservationAction] = field(default_factory=list)
    wake_at_s: float | None = None
    awaits: frozenset[str] = frozenset()
    """Schedulers that must be up to date first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stock:
    """What is there. ``whole``: the bound placeholder that still covers rest and claimants; ``next``: the rest's."""

    owners: tuple[Pod, ...]
    flight: tuple[Pod, ...]
    whole: Pod | None
    next: Pod | None
    rest: Resources

    @property
    def gated(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.flight if holds_gate(pod))


def total(pods: Iterable[Pod]) -> Resources:
    """What the pods ask for together."""
    result = NO_RESOURCES
    for pod in pods:
        result += pod.spec.requests
    return result


def rest_of(status: ReservationStatus) -> Resources:
    """What is held for owners that have not come yet."""
    return status.allocatable - status.allocated


def free_part(observed: ObservedReservation) -> Resources:
    """What new owners may be given now. What claimants that went away were to have counts again."""
    reservation = observed.reservation
    status, template = reservation.status, reservation.template
    if status.phase is ReservationPhase.PENDING:  # held this moment; the status is about to say so
        return template.requests if template is not None else NO_RESOURCES
    return status.allocatable if reservation.allocate_once else _take_stock(observed, status).rest


def nothing(amount: Resources) -> bool:
    """True if no amount is above zero."""
    return not any(value > 0 for _, value in amount.items())


def flying(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Owners that have claimed a part and are not bound yet."""
    return tuple(pod for pod in _present(observed) if not pod.node)


def share(
    observed: ObservedReservation, status: ReservationStatus, now_s: float, settings: ReservationSettings
) -> Shared:
    """The next step for a room that is handed out in parts. Phases Available and Waiting."""
    stock = _take_stock(observed, status)
    shared = Shared(status=_told(status, stock.owners, stock.rest))
    if stock.flight:
        _hand_over(shared, observed, stock, now_s, settings)
    else:
        _hold(shared, observed, stock)
    return shared


def emptied(observed: ObservedReservation) -> bool:
    """True if no placeholder stands for the room of the claimants any more."""
    whole = _take_stock(observed, observed.reservation.status).whole
    return whole is None and not any(holder.deleting and holder.node for holder in observed.holders)


def claim(status: ReservationStatus, pods: tuple[Pod, ...]) -> ReservationStatus:
    """The status after these pods have been given their parts."""
    owners = (*status.current_owners, *map(_reference, pods))
    return msgspec.structs.replace(status, current_owners=owners, allocated=status.allocated + total(pods))


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
    standing = [h for h in observed.holders if not h.deleting and not h.terminal]
    bound = next((h for h in standing if h.node), None)
    rest, whole = rest_of(status), None
    if bound is not None and fits(rest + total(flight), bound.spec.requests):
        whole, rest = bound, bound.spec.requests - total(flight)
    following = next((h for h in standing if h is not whole and _same(h.spec.requests, rest)), None)
    return _Stock(owners=owners, flight=flight, whole=whole, next=following, rest=rest)


def _told(status: ReservationStatus, owners: tuple[Pod, ...], rest: Resources) -> ReservationStatus:
    used = total(owners)
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


# Nobody is on the way ------------------------------------------------------------------------------


def _hold(shared: Shared, observed: ObservedReservation, stock: _Stock) -> None:
    node = shared.status.node_name
    if stock.whole is not None:
        shared.actions.extend(_dismiss_others(observed, stock.whole))
        shared.event = ReservationEvent.OWNERS_CHANGED
        shared.message = _holding_words(node, stock.owners)
    elif stock.next is not None:
        _let_rest_in(shared, observed, stock.next)
    elif not nothing(stock.rest) and is_promised(shared.status):
        shared.actions.extend(promise_anew(observed, shared.status, stock.rest))
    elif not nothing(stock.rest):
        shared.event = ReservationEvent.PLACEHOLDER_LOST
        shared.message = f"the placeholder on node {node} is gone: the room is not held any more"
    elif stock.owners:
        shared.event = ReservationEvent.HANDED_OUT
        shared.message = f"all of the room on node {node} is used by its owners"
    else:
        shared.event = ReservationEvent.CLAIMANT_LOST
        shared.message = "the last claimant went away in the middle of the hand-over"


def _holding_words(node: str, owners: tuple[Pod, ...]) -> str:
    if not owners:
        return f"room is held on node {node}"
    return f"used by {len(owners)} pod{'s' if len(owners) > 1 else ''} on node {node}; the rest is held"


def _let_rest_in(shared: Shared, observed: ObservedReservation, rest: Pod) -> None:
    """The claimants have gone ahead (or away) and the rest's placeholder is not bound yet."""
    shared.actions.extend(_dismiss_others(observed, rest))
    if any(holder.deleting for holder in observed.holders):
        return
    if waits_for_room(rest) and rest.nominated_node == shared.status.node_name:
        shared.actions.append(act.AdmitPlaceholder(rest.key, rest.uid))
        return
    shared.actions.extend(wait_for_room(observed, rest))
    if rest.unschedulable_message:
        shared.event, shared.message = ReservationEvent.PROMISED, words(rest)


def _dismiss_others(observed: ObservedReservation, *kept: Pod | None) -> Iterable[act.ReservationAction]:
    for holder in observed.holders:
        if not holder.deleting and all(holder is not one for one in kept):
            yield act.delete_placeholder(holder)


# Claimants are on the way --------------------------------------------------------------------------


def _hand_over(
    shared: Shared,
    observed: ObservedReservation,
    stock: _Stock,
    now_s: float,
    settings: ReservationSettings,
) -> None:
    late = _overdue(stock, now_s, settings)
    shared.wake_at_s = min(_limit_s(pod, settings) for pod in stock.flight)
    if late:
        _let_go(shared, stock, late)
        return
    shared.event = ReservationEvent.CLAIMED
    names = ", ".join(str(pod.key) for pod in stock.flight)
    shared.message = f"claimed by {names}"
    if not observed.node_usable and stock.gated:
        shared.message += f"; waiting for node {shared.status.node_name} to be Ready and schedulable"
        return
    split = stock.whole is None or not _same(stock.whole.spec.requests, stock.rest)
    needs_rest = split and not nothing(stock.rest)
    shared.actions.extend(_dismiss_others(observed, stock.whole, stock.next if needs_rest else None))
    if shared.actions:
        return
    if needs_rest and stock.next is None:
        suffix = digest(" ".join(sorted(pod.uid for pod in stock.flight)))
        part = Part(size=stock.rest, waits=True, suffix=suffix, volumes=observed.volumes)
        shared.actions.append(act.CreatePlaceholder(observed.reservation, shared.status.node_name, part))
        return
    _swap(shared, observed, stock, now_s, settings, split=split)


def _swap(
    shared: Shared,
    observed: ObservedReservation,
    stock: _Stock,
    now_s: float,
    settings: ReservationSettings,
    *,
    split: bool,
) -> None:
    node, rest = shared.status.node_name, stock.next if split else None
    unbound = (*((rest,) if rest is not None and not rest.node else ()), *stock.gated)
    if split and stock.whole is not None:
        limit_s = min(_limit_s(pod, settings) for pod in stock.flight)
        awaited = settings.lag.awaited(unbound, now_s, limit_s=limit_s, held_s=settings.gate_limit_s)
        if awaited is not None:
            shared.actions.extend(take_back(unbound, stock.whole))
            shared.wake_at_s, shared.awaits = awaited.until_s, awaited.schedulers
            return
    missing = [pod for pod in unbound if pod.nominated_node != node]
    begun = len(missing) < len(unbound)  # neighbours wait for us already
    if missing and (begun or not observed.after_landing):
        shared.actions.extend(act.Nominate(pod.key, pod.uid, node) for pod in missing)
    if missing or any(holder.deleting for holder in observed.holders):
        return
    if split and stock.whole is not None:
        ready_s = taint_is_settled(observed, now_s, settings)
        if ready_s is not None:
            shared.wake_at_s = min(shared.wake_at_s or ready_s, ready_s)
        elif not observed.crowded:
            shared.actions.append(act.delete_placeholder(stock.whole))
        return
    if observed.before_landing:
        return
    if rest is not None and waits_for_room(rest):
        shared.actions.append(act.AdmitPlaceholder(rest.key, rest.uid))
    shared.actions.extend(ungate(observed, pod) for pod in stock.gated)


def _limit_s(pod: Pod, settings: ReservationSettings) -> float:
    limit_s = settings.gate_limit_s if holds_gate(pod) else settings.landing_limit_s
    return pod.created_at_s + limit_s


def _overdue(stock: _Stock, now_s: float, settings: ReservationSettings) -> tuple[Pod, ...]:
    return tuple(pod for pod in stock.flight if now_s >= _limit_s(pod, settings))


def _let_go(shared: Shared, stock: _Stock, late: tuple[Pod, ...]) -> None:
    """Their parts go back into the rest if the old placeholder still stands, else they are lost."""
    kept = tuple(pod for pod in stock.owners if pod not in late)
    rest = stock.rest if stock.whole is None else stock.rest + total(late)
    shared.status = _told(shared.status, kept, rest)
    names = ", ".join(str(pod.key) for pod in late)
    shared.event = ReservationEvent.OWNERS_CHANGED
    shared.message = f"{names} did not land in time and may go anywhere"
    shared.actions.extend(act.ReleasePod(pod.key, pod.uid, shared.message) for pod in late if holds_gate(pod))
