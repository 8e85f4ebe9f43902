"""What the API server can answer to a dry-run creation of the pod that a controller would create now, as values."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from rescheduler.model.replacement_rules import AdmittedPod

QUOTA_USED_UP: Final = "exceeded quota"
NO_RIGHT: Final = "cannot create resource"
"""Words of the API server in a refusal by a ResourceQuota, and by authorization."""


class CreationOutcome(enum.StrEnum):
    """One per way in which the caller goes on."""

    ADMITTED = "Admitted"
    """201: the answer has the pod as admission completed it."""
    REFUSED = "Refused"
    """Admission or validation refuses the pod, so its controller could not create it either."""
    UNANSWERED = "Unanswered"
    """No answer, 429 or 5xx (also: a webhook that must be asked cannot be reached), or the controller is gone: nothing is known."""
    NO_RIGHT = "NoRight"
    """403 by authorization: this program has no right to create pods in the namespace."""
    NO_EVIDENCE = "NoEvidence"
    """It shows nothing about the replacement: the quota is used up while the old pod counts, a webhook does not support
    dry runs, or the template cannot be read."""


class CreationAnswer(msgspec.Struct, frozen=True):
    """An answer. ``pod``: what was admitted; the refusal if the outcome is REFUSED; None otherwise."""

    outcome: CreationOutcome
    message: str = ""
    """The API server's words; empty if the pod was admitted."""
    pod: AdmittedPod | None = None
