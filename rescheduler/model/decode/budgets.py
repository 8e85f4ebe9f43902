"""Decodes ResourceQuotas and ConfigMaps, and who owns a Service.

Names and scopes of quotas follow ``pkg/quota/v1/evaluator/core/pods.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_types import MetaWire, ObjectWire, ResourceList, Wire
from rescheduler.model.records import ConfigMap, Service
from rescheduler.model.resource_quota import QuotaLimit, ResourceQuota, ScopeRequirement
from rescheduler.model.resources import Amount, is_scalar, parse_resources


class ConfigMapWire(ObjectWire):
    """v1.ConfigMap."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


def with_owners(found: Service, meta: MetaWire, shared: SharedParts) -> Service:
    """With the pods that own it."""
    owner_pods = shared.owners(meta.owner_references, found.namespace).pods
    return msgspec.structs.replace(found, owner_pods=owner_pods, selector=found.selector or None)


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
