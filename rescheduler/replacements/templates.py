"""Spec and labels of the pod that a controller creates now: template, revision, and what admission adds. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, LABEL_START_FIRST
from rescheduler.model.records import Pod, PodSpec, Toleration, Workload
from rescheduler.model.replacement_rules import AdmittedPod
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.replacements.controllers import ordinal
from rescheduler.replacements.identity import COMPLETION_INDEX, POD_INDEX, POD_NAME
from rescheduler.replacements.reasons import NoReplacement, NotReplaced
from rescheduler.replacements.siblings import REVISION_HASH

ADDED_TOLERATIONS: Final = frozenset(
    {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    }
)
"""Key and effect of the tolerations that Kubernetes itself adds: DefaultTolerationSeconds and PodTolerationRestriction."""


class ReplacementSource(enum.StrEnum):
    """What the size and the rules of a replacement were taken from."""

    DRY_RUN = "DryRun"
    SIBLING = "Sibling"
    TEMPLATE = "Template"
    OLD_POD = "OldPod"
    """The template is not known: the replacement is expected to be like the old pod."""


class Created(NamedTuple):
    """What is known of the new pod, and from where."""

    spec: PodSpec
    labels: LabelSet
    source: ReplacementSource
    origin: str


def revision_to_come(pod: Pod, workload: Workload | None) -> str:
    """The revision that a StatefulSet creates the pod of that ordinal from; "" for other controllers.

    As ``newVersionedStatefulSetPod`` (pkg/controller/statefulset): below the partition the current revision, otherwise the
    update revision; a rolling update without parameters counts the pods that still have the current revision.
    """
    if workload is None or workload.kind != "StatefulSet":
        return ""
    number = ordinal(pod.name)
    if number is None:
        return workload.revision
    kept = workload.partition
    if kept is None:
        kept = workload.current_replicas if workload.update_strategy == "RollingUpdate" else 0
    below = number < workload.first_ordinal + kept
    return (workload.current_revision or workload.revision) if below else workload.revision


class Added(NamedTuple):
    """What admission has added to the requests of a pod. No amount is negative."""

    requests: Resources
    score_cpu_milli: int
    score_memory_bytes: int

    @classmethod
    def of(cls, spec: PodSpec, template: PodSpec) -> Added:
        """What ``spec`` requests beyond the template that it was created from."""
        return cls(
            _larger(spec.requests, template.requests) - template.requests,
            max(0, spec.score_cpu_milli - template.score_cpu_milli),
            max(0, spec.score_memory_bytes - template.score_memory_bytes),
        )

    def to(self, spec: PodSpec) -> PodSpec:
        """``spec`` with as much more."""
        return msgspec.structs.replace(
            spec,
            requests=spec.requests + self.requests,
            score_cpu_milli=spec.score_cpu_milli + self.score_cpu_milli,
            score_memory_bytes=spec.score_memory_bytes + self.score_memory_bytes,
        )


class NewestOf(NamedTuple):
    """The newest pods of a controller."""

    revision: Pod | None
    """Of the revision that the new pod is created from."""
    any: Pod | None
    """Of any revision."""
    specs: Sequence[PodSpec] = ()
    """Of pods of that revision, whatever they request."""
    family: Added | None = None
    """What admission has added to the newest pod of the other workloads of the same controller."""


def created_from(
    pod: Pod, workload: Workload | None, revision: str, siblings: NewestOf, admitted: AdmittedPod | None
) -> Created | NotReplaced:
    """The pod that comes for ``pod``."""
    newest = siblings.revision
    if admitted is not None and admitted.spec is not None:
        spec = _volumes_kept(admitted.spec, pod, workload)
        return Created(
            spec, _own(admitted.labels, pod, workload), ReplacementSource.DRY_RUN, "a dry-run creation"
        )
    if workload is None or workload.template is None:
        like = newest if newest is not None else pod
        return Created(
            _size(_as_created(like, None), pod.spec),
            pod.labels,
            ReplacementSource.OLD_POD,
            f"pod {like.name}",
        )
    found = _of_template(pod, workload, workload.template, revision, siblings)
    if siblings.family is None or isinstance(found, NotReplaced):
        return found
    return found._replace(spec=_size(found.spec, siblings.family.to(workload.template)))


def _of_template(
    pod: Pod, workload: Workload, template: PodSpec, revision: str, siblings: NewestOf
) -> Created | NotReplaced:
    newest, named = siblings.revision, f"template of {workload.kind} {workload.name}"
    if workload.kind == "StatefulSet":
        return _of_stateful_set(pod, workload, template, revision, siblings)
    if workload.kind == "ReplicaSet" and workload.controller is not None:
        # The template of a Deployment's ReplicaSet never changes, so every pod of it shows what admission adds.
        like = newest if newest is not None else pod
        spec = _size(_as_created(like, template), template, pod.spec)
        return Created(spec, pod.labels, ReplacementSource.SIBLING, f"pod {like.name} and the {named}")
    spec = _completed(template, pod, siblings.any)
    labels = _own(workload.template_labels or pod.labels, pod, workload)
    return Created(spec, labels, ReplacementSource.TEMPLATE, named)


def _of_stateful_set(
    pod: Pod,
    workload: Workload,
    template: PodSpec,
    revision: str,
    siblings: NewestOf,
) -> Created | NotReplaced:
    newest, latest = siblings.revision, siblings.any
    named = f"StatefulSet {workload.name}, revision {revision}"
    if pod.labels.get(REVISION_HASH) == revision and (newest is None or newest.uid == pod.uid):
        newest = pod
    if revision != workload.revision:
        if newest is None or not revision:
            message = (
                f"would come back from revision {revision} of its StatefulSet {workload.namespace}/{workload.name}, "
                "and no pod of that revision shows its template"
            )
            return NotReplaced(NoReplacement.REVISION_NOT_KNOWN, message)
        labels = _own(newest.labels, pod, workload)
        # Nothing shows which of them were resized in place, so room is held for the largest.
        spec = _size(_with_added_containers(_as_created(newest, None), latest), pod.spec, *siblings.specs)
        spec = _volumes_kept(spec, pod, workload)
        return Created(spec, labels, ReplacementSource.SIBLING, f"pod {newest.name} of {named}")
    labels = _own(workload.template_labels or pod.labels, pod, workload)
    if revision and newest is not None:
        spec = _size(_with_added_containers(_as_created(newest, template), latest), template, pod.spec)
        return Created(
            _volumes_kept(spec, pod, workload),
            labels,
            ReplacementSource.SIBLING,
            f"pod {newest.name} and the template of {named}",
        )
    return Created(
        _volumes_kept(_completed(template, pod, latest), pod, workload),
        labels,
        ReplacementSource.TEMPLATE,
        f"template of {named}",
    )


def _own(labels: LabelSet, pod: Pod, workload: Workload | None) -> LabelSet:
    """A StatefulSet labels each pod with its own name and number, an Indexed Job with its index: those of the old pod."""
    if workload is None or workload.kind not in ("StatefulSet", "Job"):
        return labels
    named = {k: v for k, v in pod.labels.items() if k in (POD_NAME, POD_INDEX, COMPLETION_INDEX)}
    return type(labels)({**labels, **named})


def _volumes_kept(spec: PodSpec, pod: Pod, workload: Workload | None) -> PodSpec:
    """A StatefulSet gives each pod claims of its own, which the old pod has already."""
    if workload is None or workload.kind != "StatefulSet" or spec.volumes == pod.spec.volumes:
        return spec
    return msgspec.structs.replace(spec, volumes=pod.spec.volumes)


def _as_created(pod: Pod, template: PodSpec | None) -> PodSpec:
    """The spec as the pod was created, without what this controller has changed in it since."""
    spec = pod.spec
    changes: dict[str, Any] = {}
    if spec.gates:
        changes["gates"] = ()
    tolerations = tuple(t for t in spec.tolerations if t.key != ANNOTATION_HANDOVER_TAINT)
    if len(tolerations) < len(spec.tolerations):
        changes["tolerations"] = tolerations
    pinned = pod.labels.get(LABEL_START_FIRST) is not None and template is not None
    if pinned and template is not None and spec.node_affinity != template.node_affinity:
        changes["node_affinity"] = template.node_affinity
    return msgspec.structs.replace(spec, **changes) if changes else spec


def _completed(template: PodSpec, pod: Pod, latest: Pod | None) -> PodSpec:
    """The template with what admission adds, as far as that is known without a pod that was created from it."""
    live = pod.spec
    added = tuple(t for t in live.tolerations if t not in template.tolerations and _by_admission(t, template))
    spec = msgspec.structs.replace(
        template,
        priority=live.priority,
        preempts=live.preempts,
        tolerations=template.tolerations + added,
    )
    return _size(_with_added_containers(spec, latest), live, *(() if latest is None else (latest.spec,)))


def _by_admission(toleration: Toleration, template: PodSpec) -> bool:
    # ExtendedResourceToleration tolerates taints that are named after a requested resource.
    of_resource = any(name == toleration.key for name, _ in template.requests.scalars)
    return (toleration.key, toleration.effect) in ADDED_TOLERATIONS or of_resource


def _with_added_containers(spec: PodSpec, latest: Pod | None) -> PodSpec:
    """``spec`` with room for containers that admission adds to the newest pod of the controller, and not yet to ``spec``.

    That pod may have been created from another template, so all that is known is that they request no more than it does.
    """
    if latest is None or latest.spec.image_containers <= spec.image_containers:
        return spec
    other = latest.spec
    return Added(other.requests, other.score_cpu_milli, other.score_memory_bytes).to(spec)


def _size(spec: PodSpec, *others: PodSpec) -> PodSpec:
    """``spec`` with the largest request per resource of all of them."""
    requests, cpu_milli, memory_bytes = spec.requests, spec.score_cpu_milli, spec.score_memory_bytes
    for other in others:
        requests = _larger(requests, other.requests)
        cpu_milli = max(cpu_milli, other.score_cpu_milli)
        memory_bytes = max(memory_bytes, other.score_memory_bytes)
    if requests == spec.requests:
        return spec
    return msgspec.structs.replace(
        spec, requests=requests, score_cpu_milli=cpu_milli, score_memory_bytes=memory_bytes
    )


def _larger(one: Resources, other: Resources) -> Resources:
    if one == other:
        return one
    names = sorted({name for name, _ in one.scalars} | {name for name, _ in other.scalars})
    return Resources(
        cpu_milli=max(one.cpu_milli, other.cpu_milli),
        memory_bytes=max(one.memory_bytes, other.memory_bytes),
        ephemeral_bytes=max(one.ephemeral_bytes, other.ephemeral_bytes),
        pods=max(one.pods, other.pods),
        scalars=tuple((name, max(one.scalar(name), other.scalar(name))) for name in names),
    )
