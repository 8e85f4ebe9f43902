"""What is read of a Job besides what it has in common with other controllers of pods."""

from __future__ import annotations

import msgspec


class JobState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What of a Job tells whether it creates another pod for one that is evicted."""

    completions: int | None = None
    """Pods that must succeed; None: one that succeeds ends the Job, and the others run on."""
    succeeded: int = 0
    ignores_disruption: bool = False
    """podFailurePolicy ignores the failure of an evicted pod, whatever its exit code is."""
    ended: str = ""
    """Complete, Failed, or what comes right before (SuccessCriteriaMet, FailureTarget); empty while it runs."""
    deadline_at_s: float = 0.0
    """When activeDeadlineSeconds ends the Job; 0.0: never."""
    managed_by: str = ""
    """Another controller than that of Kubernetes (spec.managedBy); empty: that of Kubernetes."""
