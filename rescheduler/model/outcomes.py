"""What the API server can answer to an eviction and to a dry-run creation of a replacement, as values (eviction.go; measured on 1.37)."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from rescheduler.model.replacement_rules import AdmittedPod


class EvictionOutcome(enum.StrEnum):
    """One per way in which the caller goes on."""

    EVICTED = "Evicted"
    """201: the pod is terminating (or was already)."""
    BLOCKED = "Blocked"
    """429 with cause DisruptionBudget: keep the Reservation and wait."""
    STALE = "Stale"
    """429 because the budget's status is not of its current generation: try again soon."""
    OVERLOADED = "Overloaded"
    """429 without that cause (priority and fairness), or a failure before the pod is deleted: obey Retry-After."""
    GONE = "Gone"
    """404: no pod of that name."""
    REPLACED = "Replaced"
    """409: a pod of that name with another uid."""
    MULTIPLE_BUDGETS = "MultipleBudgets"
    """500: more than one PodDisruptionBudget matches; the subresource never evicts such a pod."""
    FORBIDDEN = "Forbidden"
    """401, 403, 400, 422: rights, or admission, which chooses its code (a ValidatingAdmissionPolicy: 422)."""
    FAILED = "Failed"
    """Anything else."""
    AWAITED = "Awaited"
    """It is asked for by an EvictionRequest, and a responder of the pod's owner is at work: it may happen at any moment."""
    UNKNOWN = "Unknown"
    """No answer, or a failing server: the eviction may or may not have happened; look at the pod."""


class EvictionResult(msgspec.Struct, frozen=True):
    """An answer. ``retry_after_s`` None: the server did not say."""

    outcome: EvictionOutcome
    message: str = ""
    retry_after_s: float | None = None


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
    """No answer, 429 or 5xx (also: a webhook that must be asked cannot be reached), or the controller is gone or not at work: nothing is known."""
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
