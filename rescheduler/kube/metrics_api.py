"""Measured usage of nodes from metrics.k8s.io, where a metrics server serves it.

Its absence is normal: what goes by measured usage then leaves the nodes out. So is one damaged or incomplete entry.
"""

from __future__ import annotations

import msgspec

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import METRICS
from rescheduler.kube.errors import AccessError, NotFoundError, TryLaterError
from rescheduler.model.decode.node_metrics import decode_node_metrics
from rescheduler.model.records import NodeUsage


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
    read = (decode_node_metrics(item) for item in items)
    return tuple(sorted((usage for usage in read if usage is not None), key=lambda usage: usage.node))
