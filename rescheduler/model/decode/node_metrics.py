"""Decodes NodeMetrics of metrics.k8s.io, of an answer of the API or of a dump. Pure.

One that is damaged or incomplete is no measurement: the node is left out where a policy goes by measured usage.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.records import NodeUsage
from rescheduler.model.resources import Amount, QuantityError, milli, units
from rescheduler.model.times import TimestampError, parse_timestamp

GROUP: Final = "metrics.k8s.io"
NODE_METRICS: Final = "NodeMetrics"


class _Usage(msgspec.Struct):
    cpu: Amount
    memory: Amount


class _Meta(msgspec.Struct):
    name: str


class _NodeMetrics(msgspec.Struct):
    metadata: _Meta
    usage: _Usage
    timestamp: str = ""


_decode = msgspec.json.Decoder(_NodeMetrics).decode


def decode_node_metrics(item: msgspec.Raw | memoryview) -> NodeUsage | None:
    """The measured usage of a node; None: it cannot be read."""
    try:
        metrics = _decode(item)
        return NodeUsage(
            metrics.metadata.name,
            milli(metrics.usage.cpu),
            units(metrics.usage.memory),
            parse_timestamp(metrics.timestamp) if metrics.timestamp else 0.0,
        )
    except (msgspec.DecodeError, QuantityError, TimestampError):
        return None
