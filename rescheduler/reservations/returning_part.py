"""What an owner of a room for several pods leaves goes back to the room (rows K35, K36; pure).

From the moment at which an owner begins to end, a preallocated placeholder of its size waits for what it leaves: gated and nominated
to the node, so kube-scheduler keeps it against all pods of the same or lower priority. Once the owner is gone the placeholder is
bound, and its part is held like the rest. If another pod was faster (the owner ended at once, or its end was not seen in time),
the placeholder waits there until that pod leaves. Nothing counts as held before it is bound. While claimants are on their way it would
be in theirs, so it is deleted for that time, and the hand-over taint keeps other pods off what becomes free (``handover_order``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rescheduler.calls.call import AnyCall
from rescheduler.model.records import Pod
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.reservations.assignment import not_below_zero, same_size
from rescheduler.reservations.draft import Draft
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.placeholder import Part, create_placeholder, digest, placeholder_name
from rescheduler.reservations.preallocation import wait_for_room
from rescheduler.reservations.waits import PlaceholderTurn

_SUFFIX: Final = "back-"
"""Begins what its name has besides that of the first placeholder; a digest follows."""


def missing_part(observed: ObservedReservation, owners: Sequence[Pod], rest: Resources) -> Resources:
    """What the template promises beyond what owners that stay use and the rest that is held; no amount is below 0."""
    template = observed.reservation.template
    found = (NO_RESOURCES if template is None else template.requests) - rest
    for owner in owners:
        found -= NO_RESOURCES if owner.deleting else owner.spec.requests
    return not_below_zero(found)


def waits_for_part(observed: ObservedReservation, holder: Pod) -> bool:
    """True for a placeholder, not bound yet, of what an owner leaves."""
    begins = f"{placeholder_name(observed.reservation)}-{_SUFFIX}"
    return not holder.node and holder.name.startswith(begins)


def waiting_for(observed: ObservedReservation, missing: Resources) -> Pod | None:
    """The placeholder that waits for that part."""
    waiting = (pod for pod in observed.placeholders if waits_for_part(observed, pod))
    return next((p for p in waiting if not p.deleting and same_size(p.spec.requests, missing)), None)


def take_back(draft: Draft, missing: Resources, bound: Sequence[Pod]) -> Iterator[AnyCall]:
    """The next step towards holding the part again, while no claimant is on its way."""
    observed, waits = draft.observed, waiting_for(draft.observed, missing)
    if waits is not None:
        yield from wait_for_room(observed, waits)
        return
    others = [pod for pod in observed.placeholders if all(pod is not one for one in bound)]
    if others or observed.turn is PlaceholderTurn.GIVE_WAY:
        return  # those of an earlier size are deleted first
    ended = "/".join((*sorted(pod.uid for pod in bound), *(f"{k}={n}" for k, n in missing.items())))
    part = Part(size=missing, waits=True, suffix=f"{_SUFFIX}{digest(ended)}", volumes=observed.volumes)
    yield create_placeholder(
        observed.reservation, observed.reservation.status.node_name, draft.settings, part
    )
