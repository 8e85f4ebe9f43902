"""The replacement that will really come: asked for by a dry-run creation, compared with the room, and noted in the status.

Pure. Before room is reserved, and again right before the eviction, the API server is asked for the pod that the controller
would create now. Without the right to ask (manifests/base/dry-run-creation.yaml), or where an answer shows nothing (a quota
that is used up while the old pod counts, a webhook without support for dry runs), the newest sibling and the template count.
Nothing is evicted while the answer is unknown, for a pod that admission refuses, or for a room that is too small.
"""

from __future__ import annotations

from typing import Final

from rescheduler.calls.pods import tried_deletion, tried_hand_over
from rescheduler.migrations.creations import try_creation
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.migration_lifecycle import CONDITION_ADMITTED
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.migrations.observed_migration import ObservedCreation
from rescheduler.model.outcomes import CreationOutcome
from rescheduler.model.own_objects import Condition, told
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import encode_resources, format_amount
from rescheduler.model.times import doubling_s
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.templates import ReplacementSource
from rescheduler.reservations.observed_reservation import soft_mode

FRESH_S: Final = 60.0
"""How old a dry-run creation may be when room is reserved."""
LAST_LOOK_S: Final = 5.0
"""How old it may be when the eviction is rehearsed, and when the move ends by it."""
LOOK_LASTS_S: Final = 0.5
"""How old it may be when the pod is evicted, so that admission that changed a moment ago counts."""
_LAST_BACKOFF_S: Final = 10.0
_RIGHT: Final = "the right to create pods is missing (manifests/base/dry-run-creation.yaml)"


def asked(draft: Draft, fresh_s: float, since_s: float = 0.0) -> bool:
    """True if it is known, as far as it can be, what the controller would create. False: it is asked now, or the status has why.

    ``fresh_s``: how old the answer may be; ``since_s``: it must not be from before. In mode StartFirst nothing is asked,
    because the replacement is created for real before the eviction. Where no dry run shows the replacement, nothing is evicted
    while other pods of the namespace are refused.
    """
    seen = draft.observed.creation
    if seen.refused_beside and not draft.starts_first:
        _wait_beside(draft, seen.refused_beside)
        return False
    if seen.template is None or draft.starts_first:
        return True
    if seen.unread:
        draft.wake(draft.now_s)
        return False
    return _answered(draft, seen, fresh_s, since_s)


def _answered(draft: Draft, seen: ObservedCreation, fresh_s: float, since_s: float) -> bool:
    match seen.outcome:
        case CreationOutcome.NO_RIGHT:
            return True
        case CreationOutcome.UNANSWERED:
            _wait(draft, seen)
        case None:
            _ask(draft)
        case _ if draft.now_s > seen.asked_at_s + fresh_s or seen.asked_at_s < since_s:
            _ask(draft)
        case CreationOutcome.REFUSED:
            refused(draft, seen.message)
        case CreationOutcome.ADMITTED | CreationOutcome.NO_EVIDENCE:
            return True
    return False


def is_its_turn(draft: Draft) -> bool:
    """False, without a dry-run creation, while another move of the same controller has evicted and no replacement exists yet."""
    first, found = draft.observed.evicts_first, draft.observed.replacement
    if not first or (found is not None and found.source is ReplacementSource.DRY_RUN):
        return True
    words = "whose replacement shows what admission adds to new pods"
    draft.say(Why.ANOTHER_MOVE, f"waiting for move {first} of the same workload, {words}")
    return False


def refused(draft: Draft, message: str) -> None:
    """End the move: the controller could not create the replacement."""
    pod = draft.observed.migration.pod_name
    words = f"the API server refuses the replacement of pod {pod}: {message}"
    _note(draft, Condition(CONDITION_ADMITTED, "False", Why.NOT_ADMITTED, words))
    draft.fail(Why.NOT_ADMITTED, words)


def room_suffices(draft: Draft) -> bool:
    """False, and the move ends, if nothing comes back any more, or if it needs more than the room holds. It waits while that is not known.

    Judged with what this round knows, so also without a dry-run creation: a template that grew, a larger newest sibling.
    """
    found = draft.observed.replacement
    if found is None:
        return True
    if found.reason is NoReplacement.NOT_ADMITTED:
        refused(draft, draft.observed.creation.message)
        return False
    if found.reason is NoReplacement.MAY_BE_REMOVED:
        draft.say(Why.OWNER_BUSY, f"pod {draft.observed.migration.pod_name} {found.message}")
        return False
    if found.pod is None:
        draft.fail(Why.REPLACEMENT_CHANGED, f"pod {draft.observed.migration.pod_name} {found.message}")
        return False
    note_source(draft)
    missing = "" if draft.soft else lacking(draft.observed.reservation, found.pod)
    if not missing:
        return True
    name, source = draft.observed.reservation_name, found.origin
    if draft.made_reservation:
        words = f"the replacement has grown since its room was reserved ({missing}; known from {source})"
        draft.fail(Why.REPLACEMENT_CHANGED, f"{words}; a new move reserves room of the right size")
    else:
        words = f"Reservation {name} is too small for the replacement ({missing}; known from {source})"
        draft.fail(Why.RESERVATION_UNFIT, words)
    return False


def note_source(draft: Draft) -> None:
    """Write into the status from what the size of the replacement is known."""
    found = draft.observed.replacement
    if found is None or found.pod is None or found.source is None:
        return
    requests = encode_resources(found.pod.spec.requests)
    size = ", ".join(f"{name} {amount}" for name, amount in requests.items()) or "nothing"
    words = f"the replacement requests {size}, known from {found.origin}"
    shown = found.source is ReplacementSource.DRY_RUN
    if not shown:
        words = f"{words}; {_why_no_dry_run(draft.observed.creation)}"
    _note(draft, Condition(CONDITION_ADMITTED, "True" if shown else "Unknown", found.source, words))


def _note(draft: Draft, new: Condition) -> None:
    draft.change(conditions=told(draft.status.conditions, new, draft.now_s))


def _why_no_dry_run(seen: ObservedCreation) -> str:
    if seen.template is None:
        return "a dry-run creation is tried only for controllers of Kubernetes itself"
    if seen.outcome is CreationOutcome.NO_RIGHT:
        return f"a dry-run creation would show it exactly, but {_RIGHT}: {seen.message}"
    return f"a dry-run creation did not show it: {seen.message or 'it was not tried'}"


def _ask(draft: Draft) -> None:
    observed = draft.observed
    pod, template = observed.pod, observed.creation.template
    if pod is not None and pod.controller is not None and template is not None:
        gated = not (observed.creation.changes_tried or draft.soft)
        changes = tried_hand_over(pod) if gated else ()
        holder = observed.watch_lag.placeholder
        if holder is not None and not observed.creation.deletion_tried:
            changes += tried_deletion(holder)
        draft.do(try_creation(pod, pod.controller, template, observed.creation.again, changes))


def _wait_beside(draft: Draft, words: str) -> None:
    draft.change(eviction_requested_at_s=0.0)
    draft.say(
        Why.REPLACEMENT_UNKNOWN,
        f"no dry run shows the replacement, and the API server refuses pods of its namespace at the moment ({words})",
    )


def _wait(draft: Draft, seen: ObservedCreation) -> None:
    # The intent keeps the gate on, and no eviction follows as long as nothing is known.
    draft.change(eviction_requested_at_s=0.0)
    draft.say(
        Why.REPLACEMENT_UNKNOWN,
        f"it is not known what would replace the pod: {seen.message}",
    )
    again_s = seen.asked_at_s + doubling_s(draft.settings.first_backoff_s, seen.tries, _LAST_BACKOFF_S)
    if draft.now_s >= again_s:
        _ask(draft)
    else:
        draft.wake(again_s)


def lacking(reservation: Reservation | None, replacement: Pod | None) -> str:
    """What the replacement needs more than the Reservation holds; "" if nothing, or if either is not known."""
    if reservation is None or reservation.template is None or replacement is None:
        return ""
    held, needed = reservation.template, replacement.spec
    short = [
        f"{name}: {format_amount(name, held.requests.amount(name))} held, {format_amount(name, amount)} needed"
        for name, amount in needed.requests.items()
        if amount > held.requests.amount(name)
    ]
    ports = (port for port in needed.host_ports if port not in held.host_ports)
    short += [f"host port {port.port}/{port.protocol}: not held" for port in ports]
    return ", ".join(short)


def reference_fits(draft: Draft) -> bool:
    """False, with the reason in the status, if the move may not go into the Reservation of ``reservationRef``, or not yet.

    Whoever names a Reservation gets no say in it: the pod must be one of its owners', the room must be for one pod, of the
    move's mode, on the right node and large enough.
    """
    observed = draft.observed
    reservation = observed.reservation
    name = observed.migration.reservation_ref
    if observed.reservation_refused:
        draft.fail(Why.RESERVATION_UNFIT, observed.reservation_refused)
        return False
    if reservation is None:
        draft.missing(Why.RESERVATION_FAILED, f"Reservation {name} does not exist")
        return False
    if not observed.owner_of_reservation:
        draft.fail(Why.RESERVATION_UNFIT, f"Reservation {name} is not for pods of this controller")
        return False
    if soft_mode(reservation) and not draft.soft:
        draft.fail(
            Why.RESERVATION_UNFIT,
            f"Reservation {name} is of mode Soft: any pod may take its room before the replacement comes",
        )
        return False
    if not reservation.allocate_once:
        draft.fail(
            Why.RESERVATION_UNFIT,
            f"Reservation {name} is for several pods (allocateOnce: false); a move needs one for a single pod",
        )
        return False
    wanted, held = observed.migration.target_node, reservation.status.node_name
    if wanted and held and wanted != held:
        draft.fail(Why.RESERVATION_UNFIT, f"Reservation {name} is on node/{held}, not on {wanted}")
        return False
    if missing := lacking(reservation, observed.coming):
        draft.fail(Why.RESERVATION_UNFIT, f"Reservation {name} is too small for the replacement ({missing})")
        return False
    if not held:
        draft.say(Why.RESERVING, f"waiting for Reservation {name} to be Available")
        return False
    return True
