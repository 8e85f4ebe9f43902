"""Decodes controllers of pods: ReplicaSet, ReplicationController, Deployment, StatefulSet, DaemonSet, Job; and PodGroups.

What of a Job tells whether it replaces an evicted pod is decoded for Jobs only: those parts stay raw bytes until then.
"""

from __future__ import annotations

import datetime as dt
from functools import cache
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import Raw

from rescheduler.model.decode.interning import SharedParts, created_at, kept_annotations, substitute_uid
from rescheduler.model.decode.pod_templates import PodTemplateWire, pod_template
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.selectors import label_selector
from rescheduler.model.decode.wire_types import (
    ABSENT,
    ConditionWire,
    LabelSelectorWire,
    MetaWire,
    ObjectWire,
    Wire,
)
from rescheduler.model.job_state import JobState
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import MAXIMUM_RUNTIME
from rescheduler.model.pod_group import PodGroupRecord, members_of_text
from rescheduler.model.records import Workload
from rescheduler.model.selectors import LabelSelector, Operator, Requirement

_REVISION = "deployment.kubernetes.io/revision"
_decode_selector = msgspec.json.Decoder(LabelSelectorWire).decode
_decode_conditions = msgspec.json.Decoder(list[ConditionWire]).decode
_REPLICA_FAILURE = "ReplicaFailure"
_PROGRESSING, _DEADLINE = "Progressing", "ProgressDeadlineExceeded"
_decode_equalities = msgspec.json.Decoder(dict[str, str | None]).decode


class RollingWire(Wire):
    """rollingUpdate of a strategy."""

    max_surge: int | str | None = None
    partition: int | None = None


class RolloutStrategyWire(Wire):
    """strategy of a Deployment, updateStrategy of the others."""

    type: str | None = None
    rolling_update: RollingWire | None = None


class OrdinalsWire(Wire):
    """spec.ordinals of a StatefulSet."""

    start: int | None = None


class WorkloadSpecWire(Wire):
    """spec of a controller; the selector of a ReplicationController is a plain map."""

    replicas: int | None = None
    parallelism: int | None = None
    selector: Raw = ABSENT
    template: PodTemplateWire | None = None
    strategy: RolloutStrategyWire | None = None
    update_strategy: RolloutStrategyWire | None = None
    min_ready_seconds: int | None = None
    paused: bool | None = None
    suspend: bool | None = None
    ordinals: OrdinalsWire | None = None
    pod_management_policy: str | None = None
    completions: int | None = None
    pod_failure_policy: Raw = ABSENT
    active_deadline_seconds: int | None = None
    managed_by: str | None = None


class WorkloadStatusWire(Wire):
    """status of a controller."""

    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    current_replicas: int | None = None
    ready_replicas: int | None = None
    ready: int | None = None
    number_ready: int | None = None
    desired_number_scheduled: int | None = None
    updated_number_scheduled: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    succeeded: int | None = None
    start_time: Raw = ABSENT
    conditions: Raw = ABSENT


class WorkloadWire(ObjectWire):
    """Any controller of pods."""

    spec: WorkloadSpecWire | None = None
    status: WorkloadStatusWire | None = None


def workload(
    kind: Kind, wire: WorkloadWire, meta: MetaWire, shared: SharedParts, pods: PodDecoder
) -> Workload:
    """The record of a controller."""
    spec, status = wire.spec or WorkloadSpecWire(), wire.status or WorkloadStatusWire()
    namespace, name = intern(meta.namespace or "default"), intern(meta.name or "")
    owners = shared.owners(meta.owner_references, namespace)
    template = pod_template(spec.template, shared, pods)
    stateful, strategy = kind is Kind.STATEFUL_SET, spec.update_strategy or RolloutStrategyWire()
    return Workload(
        kind=kind.value,
        namespace=namespace,
        name=name,
        uid=intern(meta.uid or substitute_uid(kind, namespace, name)),
        api_version=_api_version(kind),
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        controller=owners.controller,
        owner_pods=owners.pods,
        selector=_selector(kind, spec.selector),
        replicas=_replicas(kind, spec),
        ready_replicas=status.ready_replicas or status.ready or status.number_ready or 0,
        template=template.spec,
        template_labels=template.labels,
        annotations=kept_annotations(meta),
        surge=kind is Kind.DEPLOYMENT and _may_surge(spec.strategy or RolloutStrategyWire()),
        paused=bool(spec.paused or spec.suspend),
        rolling_out=_rolling_out(kind, spec, status, meta.generation or 0),
        stalled=kind is Kind.DEPLOYMENT and _stalled(status.conditions),
        deleting=meta.deletion_timestamp is not None,
        min_ready_s=spec.min_ready_seconds or 0,
        creation_refused=_creation_refused(kind, status.conditions),
        template_node=template.node,
        current_revision=status.current_revision or "",
        update_strategy=(strategy.type or "") if stateful else "",
        partition=strategy.rolling_update.partition if stateful and strategy.rolling_update else None,
        current_replicas=status.current_replicas or 0,
        first_ordinal=(spec.ordinals.start or 0) if spec.ordinals else 0,
        in_order=stateful and spec.pod_management_policy != "Parallel",
        revision=status.update_revision or (meta.annotations or {}).get(_REVISION) or "",
        created_at_s=created_at(meta),
        job=_job(spec, status) if kind is Kind.JOB else None,
    )


@cache
def _api_version(kind: Kind) -> str:
    resource = RESOURCES[kind]
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def _job(spec: WorkloadSpecWire, status: WorkloadStatusWire) -> JobState:
    """The state of a Job. Raises DAMAGE."""
    managed_by, started, deadline_s = spec.managed_by or "", status.start_time, spec.active_deadline_seconds
    return JobState(
        completions=spec.completions,
        succeeded=status.succeeded or 0,
        ignores_disruption=_ignores_disruption(spec.pod_failure_policy),
        ended=_ended(status.conditions),
        deadline_at_s=0.0
        if deadline_s is None or bytes(started) in _EMPTY
        else _decode_time(started).timestamp() + deadline_s,
        managed_by="" if managed_by == _OWN_CONTROLLER else managed_by,
    )


def _creation_refused(kind: Kind, conditions: Raw) -> str:
    """What the API server says of the pods that it refuses now; "" if it refuses none."""
    if kind not in {Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER} or bytes(conditions) in _EMPTY:
        return ""
    failing = (c for c in _decode_conditions(conditions) if c.type == _REPLICA_FAILURE and c.status == "True")
    return next(
        (c.message or c.reason or _REPLICA_FAILURE for c in failing if c.reason != "FailedDelete"), ""
    )


def _stalled(conditions: Raw) -> bool:
    """True if its condition Progressing says so; without spec.progressDeadlineSeconds the API server writes 600."""
    return bytes(conditions) not in _EMPTY and any(
        c.type == _PROGRESSING and c.status == "False" and c.reason == _DEADLINE
        for c in _decode_conditions(conditions)
    )


def _selector(kind: Kind, raw: Raw) -> LabelSelector | None:
    content = bytes(raw)
    if content in _EMPTY:
        return None
    if kind is not Kind.REPLICATION_CONTROLLER:
        return label_selector(_decode_selector(content))
    equalities = sorted(_decode_equalities(content).items())
    return LabelSelector(tuple(Requirement(key, Operator.IN, (value or "",)) for key, value in equalities))


def _replicas(kind: Kind, spec: WorkloadSpecWire) -> int:
    """Desired number of pods; the API server's default is 1. A DaemonSet has no such field."""
    if kind is Kind.DAEMON_SET:
        return 0
    desired = spec.parallelism if kind is Kind.JOB else spec.replicas
    return 1 if desired is None else desired


def _may_surge(strategy: RolloutStrategyWire) -> bool:
    """True if a rollout may run more pods than replicas; the default is RollingUpdate with 25%."""
    if strategy.type == "Recreate":
        return False
    surge = strategy.rolling_update.max_surge if strategy.rolling_update else None
    return surge not in (0, "0", "0%")


def _rolling_out(kind: Kind, spec: WorkloadSpecWire, status: WorkloadStatusWire, generation: int) -> bool:
    """True while pods of an older template are being replaced; False if there is no status to tell."""
    if status.observed_generation is None:
        return False
    if status.observed_generation < generation:
        return True
    updated = status.updated_replicas or 0
    match kind:
        case Kind.DEPLOYMENT:
            return updated < _replicas(kind, spec) or (status.replicas or 0) > updated
        case Kind.STATEFUL_SET:
            strategy = spec.update_strategy or RolloutStrategyWire()
            partitioned = strategy.rolling_update is not None and bool(strategy.rolling_update.partition)
            held_back = strategy.type == "OnDelete" or partitioned
            return not held_back and status.current_revision != status.update_revision
        case Kind.DAEMON_SET:
            return (status.updated_number_scheduled or 0) < (status.desired_number_scheduled or 0)
        case _:
            return False


_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_DISRUPTION: Final = "DisruptionTarget"
"""Condition that the API server sets on a pod before it evicts it."""
_ENDS: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
_EMPTY: Final = (b"", b"null")


class FailureRuleWire(Wire):
    """batch/v1 PodFailurePolicyRule; the API server completes the status of a pattern to True."""

    action: str | None = None
    on_pod_conditions: list[ConditionWire] | None = None


class FailurePolicyWire(Wire):
    """batch/v1 PodFailurePolicy."""

    rules: list[FailureRuleWire] | None = None


_decode_policy = msgspec.json.Decoder(FailurePolicyWire).decode
_decode_time = msgspec.json.Decoder(dt.datetime).decode


def _ignores_disruption(policy: Raw) -> bool:
    """As ``matchPodFailurePolicy`` (pkg/controller/job): the first rule that matches the failed pod counts.

    The exit code of a program that is asked to end is its own choice, so any rule with another action that comes
    first might match.
    """
    if bytes(policy) in _EMPTY:
        return False
    for rule in _decode_policy(policy).rules or ():
        if rule.action != "Ignore":
            return False
        if any(c.type == _DISRUPTION and c.status in (None, "True") for c in rule.on_pod_conditions or ()):
            return True
    return False


def _ended(conditions: Raw) -> str:
    if bytes(conditions) in _EMPTY:
        return ""
    met = {c.type for c in _decode_conditions(conditions) if c.status == "True"}
    return next((kind for kind in _ENDS if kind in met), "")


class PodGroupWire(ObjectWire):
    """A PodGroup. What is in its spec is another program's: what cannot be read is taken as not said."""

    spec: Any = None


def pod_group(wire: PodGroupWire, meta: MetaWire, shared: SharedParts) -> PodGroupRecord:
    """The record of a PodGroup."""
    del shared
    spec = wire.spec if isinstance(wire.spec, dict) else {}
    least = spec.get("minMember")
    match spec:
        case {"schedulingPolicy": {"gang": {"minCount": count}}}:  # Kubernetes' own; a basic one has none
            least = count
    return PodGroupRecord(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        maximum_runtime=(meta.annotations or {}).get(MAXIMUM_RUNTIME) or "",
        min_member=members_of_text(str(least)) if type(least) is int else 0,
    )
