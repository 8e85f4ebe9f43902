"""Measured usage of nodes and pods from metrics.k8s.io, where a metrics server serves it.

Its absence is normal: what goes by measured usage then leaves nodes and pods out. So is one damaged or incomplete entry.
"""

from __future__ import annotations

import msgspec

from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import METRICS
from rescheduler.kube.errors import AccessError, NotFoundError, TryLaterError
from rescheduler.model.decode.usage_metrics import decode_node_metrics, decode_pod_metrics
from rescheduler.model.measured import NodeUsage
from rescheduler.model.usage import NO_READINGS, MeasuredUsage, Readings


def measured_usage(api: KubeApi, *, pods: bool) -> MeasuredUsage:
    """Usage of all nodes, and of all pods if they are asked for. Raises as ``node_usage``."""
    nodes = node_usage(api)
    return MeasuredUsage(nodes, pod_usage(api) if pods and nodes else NO_READINGS)


def node_usage(api: KubeApi) -> tuple[NodeUsage, ...]:
    """Usage of all nodes, sorted by name; empty where nothing measures, or we may not read it.

    Raises TransportError and ApiError other than 401, 403, 404, 429 and 5xx.
    """
    read = (decode_node_metrics(item) for item in _items(api, "nodes"))
    return tuple(sorted((usage for usage in read if usage is not None), key=lambda usage: usage.node))


def pod_usage(api: KubeApi) -> Readings:
    """Usage of all pods; empty and raises as ``node_usage``."""
    read = (decode_pod_metrics(item) for item in _items(api, "pods"))
    return Readings.of(usage for usage in read if usage is not None)


def _items(api: KubeApi, plural: str) -> list[msgspec.Raw]:
    try:
        body = api.get(f"/apis/{METRICS}/{plural}")
    except (NotFoundError, TryLaterError, AccessError):
        return []
    return read_items(body, msgspec.Raw)
