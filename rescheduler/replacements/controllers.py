"""Which controllers create a new pod for one that is evicted, and for which pods a scheduler places it. Pure.

It is known, not assumed: for the controllers of Kubernetes by their own code and what they are about to do, for others by
``ReplacementRules``. Where it is not known, the answer is that no pod comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rescheduler.model.job_state import JobState
from rescheduler.model.names import OF_GARBAGE_COLLECTION
from rescheduler.model.never_moves import never_moves
from rescheduler.model.records import OwnerRef, Pod, PodSpec, Workload
from rescheduler.model.replacement_rules import GroupKind, KindThere, ReplacementRules
from rescheduler.replacements.reasons import NoReplacement, NotReplaced

JOB: Final[GroupKind] = ("batch", "Job")
BUILT_IN: Final[frozenset[GroupKind]] = frozenset(
    {("apps", "ReplicaSet"), ("", "ReplicationController"), ("apps", "StatefulSet"), JOB}
)
"""Controllers of Kubernetes that replace their pods. DaemonSets do, too, but on the same node."""
_SCALED: Final = frozenset(kind for _, kind in BUILT_IN - {JOB})
_DEPLOYMENT: Final[GroupKind] = ("apps", "Deployment")
_MAKES_CONTROLLERS: Final[frozenset[GroupKind]] = frozenset({_DEPLOYMENT, ("batch", "CronJob")})
"""Kinds of Kubernetes whose pods belong to the controllers that they make."""
_GROUPS: Final = ("leaderworkerset.sigs.k8s.io/name",)
"""Labels of groups whose controller restarts all pods for one that is lost."""
LONGEST_BACK_OFF_S: Final = 600.0
"""``MaxJobPodFailureBackOff``. A Job with a podFailurePolicy has podReplacementPolicy Failed: its replacement comes once the old pod
has ended, after a back-off of 10 s that doubles with every failure in a row. Failures that are not counted delay it as well."""
_CORE: Final = '""'
"""The core API group, as it is written in YAML."""


class Asked(NamedTuple):
    """What a question about one pod depends on."""

    pod: Pod
    workload: Workload | None
    """The controller; None if it is of another kind than those of Kubernetes, or is not there."""
    above: Workload | None
    """The Deployment of a ReplicaSet; None if there is none, or it is not there."""
    rules: ReplacementRules
    live_pods: int
    """Pods of the controller that neither end nor have ended."""
    now_s: float


def group_kind(owner: OwnerRef) -> GroupKind:
    """API group and kind of an owner."""
    return owner.api_version.rpartition("/")[0], owner.kind


def not_replaced(asked: Asked) -> NotReplaced | None:
    """Why the controller of a pod would create no pod that a scheduler places; None if it would."""
    never = never_moves(asked.pod)
    if never is not None:
        return NotReplaced(NoReplacement.NEVER_MOVES, never.value)
    owner = asked.pod.controller
    if owner is None:
        return None
    return next(_with_others(asked), None) or next(_of_controller(asked, owner), None)


def none_comes(
    owner: OwnerRef, workload: Workload | None, pod_name: str, rules: ReplacementRules, now_s: float
) -> str:
    """Why this controller creates no more pods, for ``pod_name`` that was evicted already; empty if one may still come."""
    if workload is None:
        gone = owner.uid and group_kind(owner) in rules.watched
        return f"{owner.kind} {owner.name} does not exist any more, so no replacement comes" if gone else ""
    if workload.deleting:
        return f"{_named(workload)} is being deleted, so no replacement comes"
    why = ending(workload, workload.job, now_s) if workload.job is not None else ""
    if workload.kind in _SCALED and not workload.replicas:
        why = "is scaled to 0"
    elif workload.kind == "StatefulSet" and _beyond(pod_name, workload):
        why = f"is scaled to {workload.replicas}, and {pod_name} is none of these pods any more"
    return f"{_named(workload)} {why}, so no replacement comes" if why else ""


def _of_controller(asked: Asked, owner: OwnerRef) -> Iterator[NotReplaced]:
    """In the order in which they count: what is configured, whether the controller replaces pods at all, then this one."""
    rules, kind = asked.rules, group_kind(owner)
    if kind in rules.not_replacing:
        message = (
            f"belongs to {_full(owner)}, which creates no other pod according to the configuration "
            "(replacements.notReplacing)"
        )
        yield NotReplaced(NoReplacement.CONTROLLER_NOT_KNOWN, message)
    if kind not in BUILT_IN:
        yield from _custom(asked, owner, kind)
        return
    if kind == JOB and not rules.jobs:
        message = (
            f"belongs to Job {owner.name}, and pods of Jobs are moved only where the configuration says so "
            "(replacements.jobs: true)"
        )
        yield NotReplaced(NoReplacement.JOB, message)
    if asked.workload is None:
        yield from _missing(rules, owner, kind)
    else:
        yield from _of_workload(asked, asked.workload)


def _with_others(asked: Asked) -> Iterator[NotReplaced]:
    """Pods with which others end, or that end with others: a move of one is none of one."""
    pod = asked.pod
    if pod.owns:
        message = f"owns {pod.owns}, which the garbage collector deletes with it"
        yield NotReplaced(NoReplacement.OWNS_OBJECTS, message)
    if pod.owner_pods:
        yield _owned_by_pod("is", pod.namespace, pod.owner_pods)
    for workload in (asked.workload, asked.above):
        if workload is not None and workload.owner_pods:
            yield _owned_by_pod(
                f"belongs to {_named(workload)}, which is", pod.namespace, workload.owner_pods
            )
    group = next((key for key in _GROUPS if pod.labels.get(key) is not None), None)
    if group is not None:
        message = f"belongs to the group {pod.labels.get(group)} (label {group}), which restarts as a whole when a pod is lost"
        yield NotReplaced(NoReplacement.GROUP, message)


def _owned_by_pod(words: str, namespace: str, owners: tuple[OwnerRef, ...]) -> NotReplaced:
    message = (
        f"{words} owned by pod {namespace}/{owners[0].name}, which counts on it and with which it is deleted"
    )
    return NotReplaced(NoReplacement.OWNED_BY_POD, message)


def _custom(asked: Asked, owner: OwnerRef, kind: GroupKind) -> Iterator[NotReplaced]:
    pod, rules = asked.pod, asked.rules
    if kind in _MAKES_CONTROLLERS:
        message = (
            f"belongs to {kind[1]} {owner.name} itself, which creates no pods, only controllers of pods: "
            "another program made it, and what that does is not known"
        )
        yield NotReplaced(NoReplacement.CONTROLLER_NOT_KNOWN, message)
    if kind in rules.replacing:
        return
    entry = f"{{apiGroup: {kind[0] or _CORE}, kind: {kind[1]}}}"
    configure = f"if it does, add {entry} to replacements.controllers in the configuration"
    if not pod.spec.restarts_always:
        message = (
            f"belongs to {_full(owner)} and runs to its end (restartPolicy), so an eviction would be its failure "
            f"unless that creates another one; {configure}"
        )
        yield NotReplaced(NoReplacement.RUNS_TO_ITS_END, message)
    if not of_kubernetes(kind) and KindThere(pod.namespace, *kind) in rules.seen:
        return
    if of_kubernetes(kind):
        why = "a kind of Kubernetes that creates no pods"
    elif rules.watched:
        why = f"which was not seen to replace a pod in namespace {pod.namespace} since the controller started"
    else:
        why = "and what is read now does not show whether it replaces its pods"
    yield NotReplaced(NoReplacement.CONTROLLER_NOT_KNOWN, f"belongs to {_full(owner)}, {why}; {configure}")


def of_kubernetes(kind: GroupKind) -> bool:
    """True for the kinds of Kubernetes itself: the API group of every custom kind has a dot."""
    return "." not in kind[0]


def _missing(rules: ReplacementRules, owner: OwnerRef, kind: GroupKind) -> Iterator[NotReplaced]:
    if kind in rules.watched:
        message = f"would not be replaced: its {owner.kind} {owner.name} does not exist any more"
        yield NotReplaced(NoReplacement.CONTROLLER_GONE, message)
    elif kind == JOB:
        message = (
            f"belongs to Job {owner.name}, which was not read, so it is not known whether it counts a disruption "
            "as a failure"
        )
        yield NotReplaced(NoReplacement.JOB_COUNTS_DISRUPTION, message)


def _of_workload(asked: Asked, workload: Workload) -> Iterator[NotReplaced]:
    pod, named = asked.pod, _named(workload)
    if workload.deleting:
        message = f"would not be replaced: its {named} is being deleted"
        yield NotReplaced(NoReplacement.CONTROLLER_GONE, message)
    yield from _deployment_gone(asked, workload)
    if workload.kind == "StatefulSet" and not _is_member(pod, workload):
        message = f"would not be replaced: its name is none of those that its {named} gives"
        yield NotReplaced(NoReplacement.RELEASED, message)
    kept_by = [one for one in pod.finalizers if one not in OF_GARBAGE_COLLECTION]
    if workload.kind == "StatefulSet" and kept_by:
        message = (
            f"would be replaced only once somebody takes its finalizers off ({', '.join(kept_by)}): "
            f"until then its {named} cannot use its name again"
        )
        yield NotReplaced(NoReplacement.NAME_KEPT, message)
    if workload.selector is not None and not workload.selector.matches(pod.labels):
        message = f"would not be replaced: its labels do not match the selector of its {named} any more"
        yield NotReplaced(NoReplacement.RELEASED, message)
    if workload.job is not None:
        yield from job_refusal(workload, workload.job, asked.now_s)
    surplus = _surplus(asked, workload)
    if surplus is not None:
        message = f"would not be replaced: its {named} has more pods than it wants, and removes pods"
        yield NotReplaced(surplus, message)
    yield from _template_refuses(workload, named)


def _deployment_gone(asked: Asked, workload: Workload) -> Iterator[NotReplaced]:
    """The garbage collector deletes a ReplicaSet after its Deployment, and its pods with it."""
    owner = workload.controller
    if owner is None or group_kind(owner) != _DEPLOYMENT or not asked.rules.watched:
        return
    if asked.above is None or asked.above.deleting:
        message = f"would not be replaced: Deployment {workload.namespace}/{owner.name} was deleted"
        yield NotReplaced(NoReplacement.CONTROLLER_GONE, message)


def _surplus(asked: Asked, workload: Workload) -> NoReplacement | None:
    """Whether the controller wants fewer pods than there are; of a StatefulSet the pods with the highest numbers go."""
    if workload.kind == "StatefulSet":
        return NoReplacement.SURPLUS if _beyond(asked.pod.name, workload) else None
    wanted = workload.replicas if workload.job is None else wanted_pods(workload, workload.job)
    if asked.live_pods <= wanted:
        return None
    return NoReplacement.MAY_BE_REMOVED if wanted else NoReplacement.SURPLUS


def _beyond(pod_name: str, stateful_set: Workload) -> bool:
    """True if the pod has a number that the StatefulSet does not want."""
    number, first = ordinal(pod_name), stateful_set.first_ordinal
    return number is not None and not first <= number < first + stateful_set.replicas


def _is_member(pod: Pod, workload: Workload) -> bool:
    """As ``isMemberOf`` of the StatefulSet controller."""
    return pod.name.rpartition("-")[0] == workload.name and ordinal(pod.name) is not None


def ordinal(pod_name: str) -> int | None:
    """That of a StatefulSet's pod; None: its name ends with no number."""
    number = pod_name.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else None


def _template_refuses(workload: Workload, named: str) -> Iterator[NotReplaced]:
    if workload.template_node:
        message = (
            f"would return to node/{workload.template_node}: the template of its {named} sets spec.nodeName"
        )
        yield NotReplaced(NoReplacement.TEMPLATE_NAMES_NODE, message)
    if workload.template is not None:
        yield from waits_for_others(workload.template, f"the template of its {named} has")


def waits_for_others(spec: PodSpec, given_by: str) -> Iterator[NotReplaced]:
    """What keeps a new pod from being placed alone. ``given_by``: the beginning of a sentence that ends with it."""
    if spec.gates:
        message = f"would wait for another program: {given_by} scheduling gates ({', '.join(spec.gates)})"
        yield NotReplaced(NoReplacement.TEMPLATE_GATED, message)
    if spec.scheduling_group:
        message = (
            f"would be placed together with others: {given_by} PodGroup {spec.scheduling_group} "
            "(spec.schedulingGroup)"
        )
        yield NotReplaced(NoReplacement.GROUP, message)


def _named(workload: Workload) -> str:
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _full(owner: OwnerRef) -> str:
    """Kind, name and API group, for a reader who has to find the kind."""
    group = group_kind(owner)[0]
    return f"{owner.kind} {owner.name} (API group {group or _CORE})"


# Jobs: ``manageJob``, ``matchPodFailurePolicy`` and ``isPodFailed`` of pkg/controller/job


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
