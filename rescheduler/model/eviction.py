"""What the eviction subresource can answer, as values (kubernetes eviction.go; measured on 1.37)."""

from __future__ import annotations

import enum

import msgspec


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
    """403: rights or an admission webhook."""
    FAILED = "Failed"
    """Anything else."""
    UNKNOWN = "Unknown"
    """No answer, or a failing server: the eviction may or may not have happened; look at the pod."""


class EvictionResult(msgspec.Struct, frozen=True):
    """An answer. ``retry_after_s`` None: the server did not say."""

    outcome: EvictionOutcome
    message: str = ""
    retry_after_s: float | None = None
