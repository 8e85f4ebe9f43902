"""Whether a move waited in vain because its target does not take its placeholder, or the replacement of mode StartFirst (pure).

kube-scheduler, the kubelet or admission refuse it for reasons that our rules do not see, so the next plan would choose the same node. What says nothing of
the node does not count: a quota that is used up, a missing right, an API server or webhook that does not answer, a scheduler that does not run, a move that is paused.
"""

from __future__ import annotations

import re
from typing import Final

from rescheduler.migrations.draft import Draft
from rescheduler.model.conditions import condition
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.pod_creation import NO_RIGHT, QUOTA_USED_UP
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.lifecycle import CONDITION_SCHEDULED, ReservationReason

_FAILED_CALL: Final = re.compile(r"[1-5]\d\d \w+:")
"""How the words of an answer begin with which the API server did not create the placeholder."""
_REJECTED: Final = re.compile(r"(403|422) \w+:")


def target_refused(draft: Draft) -> bool:
    """True if the room is still not held because of the target."""
    observed = draft.observed
    if draft.status.phase is not MigrationPhase.RESERVING or observed.migration.paused:
        return False
    if draft.starts_first:
        seen = observed.start_first
        return (
            seen is not None and seen.replacement is not None and bool(seen.replacement.unschedulable_message)
        )
    return (
        draft.made_reservation and observed.reservation is not None and _unschedulable(observed.reservation)
    )


def _unschedulable(reservation: Reservation) -> bool:
    said = condition(reservation.status.conditions, CONDITION_SCHEDULED)
    if said is None or said.status == "True" or said.reason != ReservationReason.UNSCHEDULABLE:
        return False
    if QUOTA_USED_UP in said.message or NO_RIGHT in said.message:
        return False
    return _FAILED_CALL.match(said.message) is None or _REJECTED.match(said.message) is not None
