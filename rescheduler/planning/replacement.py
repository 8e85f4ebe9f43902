"""The pod that a controller would create in place of an evicted one. Pure.

It is not the old pod: it comes from the template of the owner as it is now (a StatefulSet may have been
changed since), and it has no node. What admission added to the old pod (priority, tolerations, injected
containers) is assumed to be added again, so per resource the larger of the two requests counts: a room that
is too small would send the replacement elsewhere.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.names import LABEL_START_FIRST
from rescheduler.model.records import Pod, PodPhase, PodSpec, Workload
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot

UID_SUFFIX: Final = "/replacement"
"""Marks the uid of a pod that does not exist yet."""


class Replacements:
    """Replacements for the pods of one snapshot; what pods share is worked out once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._made: dict[tuple[int, int, int], Pod] = {}

    def of(self, pod: Pod) -> Pod:
        """The same as ``replacement_of``; pods that share spec and labels share those of the replacement."""
        key = (id(pod.spec), id(pod.labels), id(pod.controller))
        first = self._made.get(key)
        if first is None:
            first = self._made[key] = replacement_of(pod, self._snapshot)
            return first
        return msgspec.structs.replace(
            first, name=_name(pod), uid=pod.uid + UID_SUFFIX, annotations=pod.annotations
        )


def _name(pod: Pod) -> str:
    keeps_name = pod.controller is not None and pod.controller.kind == "StatefulSet"
    return pod.name if keeps_name else f"{pod.name}-replacement"


def replacement_of(pod: Pod, snapshot: Snapshot) -> Pod:
    """The pending pod that takes the place of ``pod``; a StatefulSet gives it the same name.

    A ReplicaSet of a Deployment never changes its template, so there the old pod's own spec (which admission
    has completed) is taken. If the template is unknown, the old pod's spec is taken as well.
    """
    owner = pod.controller
    workload = snapshot.workloads.get(owner.uid) if owner is not None else None
    spec, labels = pod.spec, pod.labels
    if workload is not None and workload.template is not None:
        fixed = workload.kind == "ReplicaSet" and workload.controller is not None
        spec = _grown(_unpinned(pod, workload.template), workload.template)
        if not fixed:
            spec = _renewed(pod, workload, workload.template)
        if not fixed and workload.template_labels:
            labels = workload.template_labels
        if workload.kind == "StatefulSet":
            # Its controller labels each pod with its own name and number.
            labels = type(labels)({**pod.labels, **labels})
    return Pod(
        namespace=pod.namespace,
        name=_name(pod),
        uid=pod.uid + UID_SUFFIX,
        spec=spec,
        labels=labels,
        annotations=pod.annotations,
        controller=owner,
        held=spec.requests,
        phase=PodPhase.PENDING,
        created_at_s=snapshot.taken_at_s,
    )


def starts_after_the_old_ended(pod: Pod) -> bool:
    """True if the replacement exists only once the old pod is gone: StatefulSets reuse the name."""
    return pod.controller is not None and pod.controller.kind == "StatefulSet"


def _unpinned(pod: Pod, template: PodSpec) -> PodSpec:
    """A pod that mode StartFirst moved is pinned to its node; the next one of its ReplicaSet is not."""
    if pod.labels.get(LABEL_START_FIRST) is None or pod.spec.node_affinity == template.node_affinity:
        return pod.spec
    return msgspec.structs.replace(pod.spec, node_affinity=template.node_affinity)


def _grown(live: PodSpec, template: PodSpec) -> PodSpec:
    requests = _larger(live.requests, template.requests)
    return live if requests == live.requests else msgspec.structs.replace(live, requests=requests)


def _renewed(pod: Pod, workload: Workload, template: PodSpec) -> PodSpec:
    live = pod.spec
    tolerations = template.tolerations + tuple(t for t in live.tolerations if t not in template.tolerations)
    return msgspec.structs.replace(
        template,
        requests=_larger(live.requests, template.requests),
        score_cpu_milli=max(live.score_cpu_milli, template.score_cpu_milli),
        score_memory_bytes=max(live.score_memory_bytes, template.score_memory_bytes),
        priority=live.priority,
        preempts=live.preempts,
        tolerations=tolerations,
        volumes=live.volumes if workload.kind == "StatefulSet" else template.volumes,
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
