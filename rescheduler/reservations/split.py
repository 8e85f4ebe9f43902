"""Several pods use one Reservation (``allocateOnce: false``): each gets a part of the room, and the rest stays held.

The order of a split was measured (20 of 20 while many other pods competed for the room): the claimants and a smaller
placeholder for the rest are all nominated; the old placeholder is deleted; when it is gone, first the placeholder of
the rest is admitted, then the claimants. All pods that fit are claimed at once; later pods wait until these are bound.

Nothing is remembered: ``rest`` is what the placeholders hold beyond the claimants, ``status.allocatable`` is the rest
plus what the present owners use.

From the moment at which an owner begins to end, a preallocated placeholder of its size waits for what it leaves (rows K35, K36): gated and
nominated to the node, so kube-scheduler keeps it against all pods of the same or lower priority. Once the owner is gone the
placeholder is bound, and its part is held like the rest, with a placeholder of its own until the next split. If another pod was
faster (the owner ended at once, or its end was not seen in time), the placeholder waits there until that pod leaves. Nothing
counts as held before it is bound. While claimants are on their way it would be in theirs, so it is deleted for that time, and
the hand-over taint keeps other pods off what becomes free (``handover_order``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import admit_placeholder, delete_placeholder, nominate, release
from rescheduler.model.counted import plural
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.room_of_move import digest
from rescheduler.reservations.assignment import fits, same_size, taken_by
from rescheduler.reservations.handover import taken_back, ungate
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import Part, create_placeholder, placeholder_name
from rescheduler.reservations.preallocation import (
    is_preallocated,
    recreate,
    wait_for_room,
    waiting_message,
    waits_for_room,
)
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import ReservationEvent
from rescheduler.reservations.waits import HandoverWait, PlaceholderTurn, claim_message, look_again_s

Said = tuple[ReservationEvent | None, str]
"""An event for the table of transitions, if there is one, with its message."""
_BACK: Final = "back-"
"""Begins what the name of a placeholder for such a part has besides that of the first placeholder; a digest follows."""
_NOTHING_SAID: Final[Said] = (None, "")


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
        return not self.whole or not same_size(total(self.whole), self.rest)

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


def split(draft: ReservationDraft) -> Said:
    """The next step for a Reservation that is split. Phases Available and Waiting."""
    stock = _take_stock(draft.observed, draft.status)
    _tell(draft, stock.owners, stock.rest)
    return _hand_over(draft, stock) if stock.flight else _hold(draft, stock)


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


def claim(draft: ReservationDraft, pods: tuple[Pod, ...]) -> None:
    """Give these pods their parts."""
    owners = (*draft.status.current_owners, *map(_reference, pods))
    allocated = draft.status.allocated + used_by(pods, draft.observed.reservation)
    draft.change(current_owners=owners, allocated=allocated)
    draft.enter(ReservationEvent.CLAIMED, f"claimed by {', '.join(str(pod.key) for pod in pods)}")


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
    following = next((h for h in others if same_size(h.spec.requests, rest)), None)
    missing = _missing_part(observed, owners, rest)
    return _Stock(owners=owners, flight=flight, whole=whole, next=following, rest=rest, missing=missing)


def _tell(draft: ReservationDraft, owners: tuple[Pod, ...], rest: Resources) -> None:
    used = used_by(owners, draft.observed.reservation)
    draft.change(current_owners=tuple(map(_reference, owners)), allocated=used, allocatable=rest + used)


def _reference(pod: Pod) -> ObjectRef:
    return ObjectRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


# No claimant is on its way ------------------------------------------------------------------------------


def _hold(draft: ReservationDraft, stock: _Stock) -> Said:
    node, returns = draft.status.node_name, not nothing(stock.missing)
    if stock.whole or (returns and nothing(stock.rest) and stock.owners):
        draft.do(*_others(draft, *stock.whole, _waiting_for(draft.observed, stock.missing)))
        if returns:
            draft.do(*_take_back(draft, stock.missing, stock.whole))
        return ReservationEvent.OWNERS_CHANGED, _holding_words(node, stock)
    if stock.next is not None:
        return _admit_rest(draft, stock.next)
    if not nothing(stock.rest) and is_preallocated(draft.status):
        recreate(draft, stock.rest)
        return _NOTHING_SAID
    if not nothing(stock.rest):
        lost = f"the placeholder on node/{node} {draft.observed.lost}: the room is not held any more"
        return ReservationEvent.PLACEHOLDER_LOST, lost
    if stock.owners:
        used = f"all of it on node/{node} is used by {plural(len(stock.owners), 'pod')}"
        return ReservationEvent.OWNERS_CHANGED, used
    # Its owners used all of it and have ended. What they left is waited for as a preallocated one waits.
    recreate(draft, None)
    ended = f"its owners on node/{node} have ended; waiting until all of it is held again"
    return ReservationEvent.PREALLOCATED, ended


def _holding_words(node: str, stock: _Stock) -> str:
    owners = stock.owners
    back = "" if nothing(stock.missing) else "; what an owner leaves is waited for"
    if not owners:
        return f"room is held on node/{node}{back}"
    return f"used by {plural(len(owners), 'pod')} on node/{node}; the rest is held{back}"


def _admit_rest(draft: ReservationDraft, rest: Pod) -> Said:
    """The claimants are bound or gone, and the placeholder of the rest is not bound yet."""
    draft.do(*_others(draft, rest))
    if draft.calls or any(holder.deleting for holder in draft.observed.placeholders):
        return _NOTHING_SAID
    if waits_for_room(rest) and rest.nominated_node == draft.status.node_name:
        draft.do(admit_placeholder(rest))
        return _NOTHING_SAID
    draft.do(*wait_for_room(draft.observed, rest))
    if rest.unschedulable_message:
        return ReservationEvent.PREALLOCATED, waiting_message(rest)
    return _NOTHING_SAID


def _others(draft: ReservationDraft, *kept: Pod | None) -> Iterable[AnyCall]:
    """Deletes all placeholders but these."""
    for holder in draft.observed.placeholders:
        if not holder.deleting and all(holder is not one for one in kept):
            yield delete_placeholder(holder)


# Claimants are on the way --------------------------------------------------------------------------


def _hand_over(draft: ReservationDraft, stock: _Stock) -> Said:
    # The limit comes before every wait: no reason may keep a pod gated for longer.
    observed, now_s = draft.observed, draft.now_s
    limits_s = {pod.uid: _limit_s(draft, pod) for pod in stock.flight}
    late = tuple(
        pod
        for pod in stock.flight
        if now_s >= limits_s[pod.uid]
        or _refused(observed, stock, pod)
        or (observed.other_node and holds_gate(pod))
    )
    limit_s = min(limits_s.values())
    if late:
        draft.wake(limit_s)
        return _release(draft, stock, late)
    node, wait = draft.status.node_name, observed.wait
    draft.wake(look_again_s(wait, now_s, limit_s))
    if wait is None or wait.reason is not HandoverWait.NODE_NOT_USABLE:
        _next_step(draft, stock, node)
    return ReservationEvent.CLAIMED, claim_message(stock.flight, node, wait, now_s)


def _next_step(draft: ReservationDraft, stock: _Stock, node: str) -> None:
    observed = draft.observed
    needs_rest = stock.splits and not nothing(stock.rest)
    # What waits for the part of an owner keeps it until everything is ready, and other pods are kept off the node.
    waits = _waiting_for(observed, stock.missing) if stock.whole else None
    draft.do(*_others(draft, *stock.whole, waits, stock.next if needs_rest else None))
    if draft.calls:
        return
    if needs_rest and stock.next is None:
        # It must be nominated together with the claimants, so it is created before the old placeholder is deleted.
        suffix = digest(" ".join(sorted(pod.uid for pod in stock.flight)))
        part = Part(size=stock.rest, waits=True, suffix=suffix, volumes=observed.volumes)
        draft.do(create_placeholder(observed.reservation, node, draft.settings, part))
        return
    draft.do(*_together(observed, stock, node))


def _together(observed: ObservedReservation, stock: _Stock, node: str) -> Iterable[AnyCall]:
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


def _limit_s(draft: ReservationDraft, pod: Pod) -> float:
    if holds_gate(pod):
        return pod.created_at_s + draft.settings.gate_limit_s
    return max(pod.created_at_s, draft.observed.claimed_since_s) + draft.settings.landing_limit_s


def _release(draft: ReservationDraft, stock: _Stock, late: tuple[Pod, ...]) -> Said:
    """Release the pods that are late. Their parts go back into the rest if the old placeholder is still bound."""
    kept = tuple(pod for pod in stock.owners if pod not in late)
    rest = stock.rest + used_by(late, draft.observed.reservation) if stock.whole else stock.rest
    _tell(draft, kept, rest)
    message = f"{', '.join(str(pod.key) for pod in late)} was not bound in time and may be bound to any node"
    draft.do(*(release(pod, message) for pod in late if holds_gate(pod)))
    return ReservationEvent.OWNERS_CHANGED, message


# What an owner leaves --------------------------------------------------------------------------------


def _missing_part(observed: ObservedReservation, owners: Sequence[Pod], rest: Resources) -> Resources:
    """What the template promises beyond what owners that stay use and the rest that is held; no amount is below 0."""
    template = observed.reservation.template
    found = (NO_RESOURCES if template is None else template.requests) - rest
    for owner in owners:
        found -= NO_RESOURCES if owner.deleting else owner.spec.requests
    return found.not_below_zero()


def waits_for_part(observed: ObservedReservation, holder: Pod) -> bool:
    """True for a placeholder, not bound yet, of what an owner leaves."""
    begins = f"{placeholder_name(observed.reservation)}-{_BACK}"
    return not holder.node and holder.name.startswith(begins)


def _waiting_for(observed: ObservedReservation, missing: Resources) -> Pod | None:
    """The placeholder that waits for that part."""
    waiting = (pod for pod in observed.placeholders if waits_for_part(observed, pod))
    return next((p for p in waiting if not p.deleting and same_size(p.spec.requests, missing)), None)


def _take_back(draft: ReservationDraft, missing: Resources, bound: Sequence[Pod]) -> Iterator[AnyCall]:
    """The next step towards holding the part again, while no claimant is on its way."""
    observed, waits = draft.observed, _waiting_for(draft.observed, missing)
    if waits is not None:
        yield from wait_for_room(observed, waits)
        return
    others = [pod for pod in observed.placeholders if all(pod is not one for one in bound)]
    if others or observed.turn is PlaceholderTurn.GIVE_WAY:
        return  # those of an earlier size are deleted first
    ended = "/".join((*sorted(pod.uid for pod in bound), *(f"{k}={n}" for k, n in missing.items())))
    part = Part(size=missing, waits=True, suffix=f"{_BACK}{digest(ended)}", volumes=observed.volumes)
    yield create_placeholder(
        observed.reservation, observed.reservation.status.node_name, draft.settings, part
    )
