"""Decodes PodDisruptionBudgets, ResourceQuotas, PriorityClasses, Services and ConfigMaps.

Names and scopes of quotas follow ``pkg/quota/v1/evaluator/core/pods.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.selectors import label_selector
from rescheduler.model.decode.wire_types import LabelSelectorWire, MetaWire, ObjectWire, ResourceList, Wire
from rescheduler.model.records import ConfigMap, DisruptionBudget, PriorityClass, Service
from rescheduler.model.resource_quota import QuotaLimit, ResourceQuota, ScopeRequirement
from rescheduler.model.resources import Amount, is_scalar, parse_resources


class BudgetSpecWire(Wire):
    """policy/v1 PodDisruptionBudgetSpec."""

    selector: LabelSelectorWire | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatusWire(Wire):
    """policy/v1 PodDisruptionBudgetStatus."""

    observed_generation: int | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    disrupted_pods: dict[str, str | None] | None = None


class BudgetWire(ObjectWire):
    """policy/v1 PodDisruptionBudget."""

    spec: BudgetSpecWire | None = None
    status: BudgetStatusWire | None = None


class PriorityClassWire(ObjectWire):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class ConfigMapWire(ObjectWire):
    """v1.ConfigMap."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class ServiceSpecWire(Wire):
    """v1.ServiceSpec."""

    selector: dict[str, str | None] | None = None


class ServiceWire(ObjectWire):
    """v1.Service."""

    spec: ServiceSpecWire | None = None


def budget(wire: BudgetWire, meta: MetaWire, shared: SharedParts) -> DisruptionBudget:
    """The record of a PodDisruptionBudget. Without a status it allows no disruption."""
    del shared
    spec, status = wire.spec or BudgetSpecWire(), wire.status or BudgetStatusWire()
    return DisruptionBudget(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        selector=label_selector(spec.selector),
        disruptions_allowed=status.disruptions_allowed or 0,
        current_healthy=status.current_healthy or 0,
        desired_healthy=status.desired_healthy or 0,
        expected_pods=status.expected_pods or 0,
        observed=(status.observed_generation or 0) >= (meta.generation or 0),
        always_allow_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        disrupted_pods=tuple(sorted(status.disrupted_pods or ())),
    )


def priority_class(wire: PriorityClassWire, meta: MetaWire, shared: SharedParts) -> PriorityClass:
    """The record of a PriorityClass."""
    del shared
    preempts = wire.preemption_policy != "Never"
    return PriorityClass(meta.name or "", wire.value or 0, preempts, bool(wire.global_default))


def service(wire: ServiceWire, meta: MetaWire, shared: SharedParts) -> Service:
    """The record of a Service."""
    selector = (wire.spec.selector if wire.spec else None) or {}
    pairs = tuple(sorted((key, value or "") for key, value in selector.items()))
    namespace = meta.namespace or "default"
    owner_pods = shared.owners(meta.owner_references, namespace).pods
    return Service(namespace, meta.name or "", pairs or None, owner_pods)


def config_map(wire: ConfigMapWire, meta: MetaWire, shared: SharedParts) -> ConfigMap:
    """The record of a ConfigMap."""
    del shared
    return ConfigMap(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        data=wire.data or {},
        annotations={key: text or "" for key, text in (meta.annotations or {}).items()},
        resource_version=meta.resource_version or "",
        binary_data=wire.binary_data or {},
    )


_REQUESTS: Final = "requests."
_COUNTS: Final = "count/"
_NAMES: Final = {"count/pods": "pods"}
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class ScopeWire(Wire):
    """One of spec.scopeSelector.matchExpressions."""

    scope_name: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class ScopeSelectorWire(Wire):
    """spec.scopeSelector."""

    match_expressions: list[ScopeWire] | None = None


class QuotaSpecWire(Wire):
    """spec of a ResourceQuota."""

    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelectorWire | None = None


class QuotaStatusWire(Wire):
    """status of a ResourceQuota."""

    used: ResourceList | None = None


class ResourceQuotaWire(ObjectWire):
    """v1 ResourceQuota."""

    spec: QuotaSpecWire | None = None
    status: QuotaStatusWire | None = None


def resource_quota(wire: ResourceQuotaWire, meta: MetaWire, shared: SharedParts) -> ResourceQuota:
    """The record of a ResourceQuota."""
    del shared
    spec, status = wire.spec or QuotaSpecWire(), wire.status or QuotaStatusWire()
    return ResourceQuota(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        limits=tuple(_limits(spec.hard or {}, status.used or {})),
        scopes=tuple(_scopes(spec)),
    )


def _scopes(spec: QuotaSpecWire) -> Iterator[ScopeRequirement]:
    for scope in spec.scopes or ():
        yield ScopeRequirement(scope)
    for found in (spec.scope_selector or ScopeSelectorWire()).match_expressions or ():
        yield ScopeRequirement(found.scope_name or "", found.operator or "Exists", tuple(found.values or ()))


def _limits(hard: ResourceList, used: ResourceList) -> Iterator[QuotaLimit]:
    for name, most in sorted(hard.items()):
        resource = _NAMES.get(name, name.removeprefix(_REQUESTS))
        if resource in _NATIVE or (is_scalar(resource) and not resource.startswith(_COUNTS)):
            yield QuotaLimit(resource, _amount(resource, most), _amount(resource, used.get(name)))


def _amount(resource: str, amount: Amount | None) -> int:
    return parse_resources({resource: amount}).amount(resource)
