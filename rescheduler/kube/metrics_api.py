"""Measured usage of nodes from metrics.k8s.io, where a metrics server serves it.

Its absence is normal: what goes by measured usage then leaves the nodes out. So is one damaged or incomplete entry.
"""

from __future__ import annotations

import msgspec

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import METRICS
from rescheduler.kube.errors import AccessError, NotFoundError, TryLaterError
from rescheduler.model.records import NodeUsage
from rescheduler.model.resources import Amount, QuantityError, milli, units
from rescheduler.model.times import TimestampError, parse_timestamp


class _Usage(msgspec.Struct):
    cpu: Amount
    memory: Amount


class _Meta(msgspec.Struct):
    name: str


class _NodeMetrics(msgspec.Struct):
    metadata: _Meta
    usage: _Usage
    timestamp: str = ""


class _NodeMetricsList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


def node_usage(api: KubeApi) -> tuple[NodeUsage, ...]:
    """Usage of all nodes, sorted by name; empty where nothing measures, or we may not read it.

    Raises TransportError and ApiError other than 401, 403, 404, 429 and 5xx.
    """
    try:
        body = api.get(f"/apis/{METRICS}/nodes")
    except (NotFoundError, TryLaterError, AccessError):
        return ()
    items = read_answer(body, _NodeMetricsList).items or []
    read = (_usage(item) for item in items)
    return tuple(sorted((usage for usage in read if usage is not None), key=lambda usage: usage.node))


def _usage(item: msgspec.Raw) -> NodeUsage | None:
    try:
        metrics = msgspec.json.decode(item, type=_NodeMetrics)
        return NodeUsage(
            metrics.metadata.name,
            milli(metrics.usage.cpu),
            units(metrics.usage.memory),
            parse_timestamp(metrics.timestamp) if metrics.timestamp else 0.0,
        )
    except (msgspec.DecodeError, QuantityError, TimestampError):
        return None
