"""Which new pods of a controller come in place of which old pod. Pure.

Pods of a StatefulSet and of an Indexed Job are not interchangeable: each has an ordinal or an index, and its replacement
has the same one. Creation times cannot tell siblings apart: they have whole seconds. Any pod of another controller is as
good as any other: a sibling that is created for a scale-up may take the place, and the other pod counts as the scale-up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeGuard

from rescheduler.model.counted import plural
from rescheduler.model.records import Pod, Workload
from rescheduler.replacements.controllers import JOB, group_kind

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label of the pods of an Indexed Job (``PodIndexLabel``, on by default since 1.28)."""

_COUNTS_ITS_PODS: Final = frozenset({"ReplicaSet", "ReplicationController"})


def may_replace(pod: Pod, evicted: str) -> bool:
    """True if ``pod`` may come in place of the pod of that name, which had the same controller.

    A StatefulSet creates it with the same name (``getPodName``). An Indexed Job names its pods JOB-INDEX-SUFFIX
    (``podGenerateNameWithIndex``): all but the suffix is the same.
    """
    if keeps_name(pod):
        return pod.name == evicted
    if pod.controller is not None and pod.controller.kind == "Job" and COMPLETION_INDEX in pod.labels:
        return pod.name.rpartition("-")[0] == evicted.rpartition("-")[0]
    return True


def keeps_name(pod: Pod) -> bool:
    """True if the replacement has the name of the pod, so that it exists only once the pod is gone."""
    return pod.controller is not None and pod.controller.kind == "StatefulSet"


def starts_after_the_old_ended(pod: Pod) -> bool:
    """True if the replacement is created only once the old pod has ended.

    The name must be free again, or it belongs to a Job: one whose pods may be moved has a podFailurePolicy, and so
    podReplacementPolicy Failed.
    """
    return keeps_name(pod) or (pod.controller is not None and group_kind(pod.controller) == JOB)


def lacks_pods(workload: Workload | None, pods: Iterable[Pod]) -> bool:
    """True if the controller of ``pods`` will create another one now. False also if that is not known.

    A ReplicaSet counts pods that have neither ended nor been deleted (``FilterActivePods``).
    """
    return _counts(workload) and _standing(pods) < workload.replicas


def has_all_pods(workload: Workload | None, pods: Iterable[Pod]) -> str:
    """Why the controller of ``pods`` creates none for one that it has lost: it was scaled down meanwhile; "": it does, or that is not known."""
    if not _counts(workload) or (standing := _standing(pods)) < workload.replicas:
        return ""
    named = f"{workload.kind} {workload.namespace}/{workload.name}"
    return (
        f"{named} is scaled to {workload.replicas} and has {plural(standing, 'pod')}, so no replacement comes"
    )


def _counts(workload: Workload | None) -> TypeGuard[Workload]:
    return workload is not None and not workload.deleting and workload.kind in _COUNTS_ITS_PODS


def _standing(pods: Iterable[Pod]) -> int:
    return sum(not (pod.deleting or pod.terminal) for pod in pods)
