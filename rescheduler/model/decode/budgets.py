"""Decodes PodDisruptionBudgets, PriorityClasses, Services and ConfigMaps."""

from __future__ import annotations

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.selectors import label_selector
from rescheduler.model.decode.wire_types import LabelSelectorWire, MetaWire, ObjectWire, Wire
from rescheduler.model.records import ConfigMap, DisruptionBudget, PriorityClass, Service


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
    owner_pods = shared.owner_pods(meta.owner_references, namespace)
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
    )
