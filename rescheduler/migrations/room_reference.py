"""Whether a move may go into the Reservation that ``reservationRef`` names: before anything is reserved or evicted.

Pure. Whoever names a Reservation gets no say in it: the pod must be one of its owners', the room must be for one pod, of the
move's mode, on the right node and large enough.
"""

from __future__ import annotations

from rescheduler.migrations.draft import Draft
from rescheduler.migrations.lifecycle import MigrationReason as Why
from rescheduler.migrations.replacement_checks import lacking
from rescheduler.reservations.observed import soft_mode


def reference_fits(draft: Draft) -> bool:
    """False, with the reason in the status, if the move may not go into the Reservation, or not yet."""
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
        draft.fail(Why.RESERVATION_UNFIT, f"Reservation {name} is on node {held}, not on {wanted}")
        return False
    if missing := lacking(reservation, observed.coming):
        draft.fail(Why.RESERVATION_UNFIT, f"Reservation {name} is too small for the replacement ({missing})")
        return False
    if not held:
        draft.say(Why.RESERVING, f"waiting for Reservation {name} to be Available")
        return False
    return True
