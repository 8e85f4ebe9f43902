"""Completes ResourceQuotas, ConfigMaps and Services.

Names and scopes of quotas follow ``pkg/quota/v1/evaluator/core/pods.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from rescheduler.model.config_map import ConfigMap
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_types import MetaWire
from rescheduler.model.names import ANNOTATION_VALID_UNTIL
from rescheduler.model.own_objects import seconds_of
from rescheduler.model.records import Service
from rescheduler.model.resource_quota import QuotaLimit, ResourceQuota
from rescheduler.model.resources import Amount, is_scalar, parse_resources


def with_owners(found: Service, meta: MetaWire, shared: SharedParts) -> Service:
    """With the pods that own it."""
    owner_pods = shared.owners(meta.owner_references, found.namespace).pods
    return msgspec.structs.replace(found, owner_pods=owner_pods, selector=found.selector or None)


def with_annotations(found: ConfigMap, meta: MetaWire, shared: SharedParts) -> ConfigMap:
    """With its annotations. Without a time that can be read its keys hold no pod: nor does the gate policy hold one then."""
    del shared
    until = seconds_of(meta.noted.get(ANNOTATION_VALID_UNTIL, ""))
    return msgspec.structs.replace(found, annotations=meta.noted, valid_until_s=until)


_REQUESTS: Final = "requests."
_COUNTS: Final = "count/"
_NAMES: Final = {"count/pods": "pods"}
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def with_limits(found: ResourceQuota, meta: MetaWire, shared: SharedParts) -> ResourceQuota:
    """With what it limits, from both its fields."""
    del meta, shared
    return msgspec.structs.replace(found, limits=tuple(_limits(found.hard, found.used)))


def _limits(hard: Mapping[str, Amount], used: Mapping[str, Amount]) -> Iterator[QuotaLimit]:
    for name, most in sorted(hard.items()):
        resource = _NAMES.get(name, name.removeprefix(_REQUESTS))
        if resource in _NATIVE or (is_scalar(resource) and not resource.startswith(_COUNTS)):
            yield QuotaLimit(resource, _amount(resource, most), _amount(resource, used.get(name)))


def _amount(resource: str, amount: Amount | None) -> int:
    return parse_resources({resource: amount}).amount(resource)
