"""Whether a Job creates another pod for one that is evicted, and does not count the eviction as a failure. Pure.

By the code of Kubernetes' Job controller (pkg/controller/job): ``manageJob`` for the number of pods,
``matchPodFailurePolicy`` for what counts, ``isPodFailed`` for when the new pod comes. A Job with a podFailurePolicy
has podReplacementPolicy Failed, so its replacement comes once the old pod has ended, after a back-off of 10 s that
doubles with every failure in a row, up to 10 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rescheduler.model.records import JobState, Workload
from rescheduler.replacements.reasons import NoReplacement, NotReplaced

LONGEST_BACK_OFF_S: Final = 600.0
"""``MaxJobPodFailureBackOff``: failures that are not counted delay the next pod as well."""


def wanted_pods(workload: Workload, job: JobState) -> int:
    """Pods that the Job wants at once: its parallelism, but not more than have still to succeed."""
    if job.completions is None:
        return workload.replicas
    return max(0, min(workload.replicas, job.completions - job.succeeded))


def job_refusal(workload: Workload, job: JobState, now_s: float) -> Iterator[NotReplaced]:
    """Why no pod comes back for one of this Job, the strongest reason first."""
    named = f"its Job {workload.namespace}/{workload.name}"
    if job.managed_by:
        message = f"belongs to a Job of controller {job.managed_by} (spec.managedBy), whose rules are not known here"
        yield NotReplaced(NoReplacement.CONTROLLER_NOT_KNOWN, message)
    why = ending(workload, job, now_s)
    if why:
        yield NotReplaced(NoReplacement.JOB_ENDS, f"would not be replaced: {named} {why}")
    if not job.ignores_disruption:
        message = (
            f"would count as a failure of {named}: let the first rule of its spec.podFailurePolicy be "
            "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"
        )
        yield NotReplaced(NoReplacement.JOB_COUNTS_DISRUPTION, message)


def ending(workload: Workload, job: JobState, now_s: float) -> str:
    """Why the Job creates no more pods; empty if it still does."""
    if job.ended:
        return f"has ended or is about to end ({job.ended})"
    if workload.paused:
        return "is suspended"
    if job.deadline_at_s and now_s >= job.deadline_at_s:
        return "has reached its activeDeadlineSeconds"
    if job.completions is None and job.succeeded > 0:
        return "creates no more pods, because one has succeeded and it has no spec.completions"
    return ""
