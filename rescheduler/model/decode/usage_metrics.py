"""Decodes NodeMetrics and PodMetrics of metrics.k8s.io, of an answer of the API or of a dump. Pure.

One that is damaged or incomplete is no measurement: the node or pod is left out where a policy goes by measured usage.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.measured import NodeUsage
from rescheduler.model.resources import Amount, QuantityError, milli, nano, units
from rescheduler.model.times import TimestampError, parse_timestamp
from rescheduler.model.usage import usage_key

GROUP: Final = "metrics.k8s.io"
NODE_METRICS: Final = "NodeMetrics"
POD_METRICS: Final = "PodMetrics"
_NANO: Final = 1_000_000_000
_NANO_PER_MILLI: Final = 1_000_000
_PLAIN: Final = {"n": 1, "u": 1_000, "m": _NANO_PER_MILLI, "i": 0}
"""How metrics-server writes amounts: 123n, 45m, 678Ki."""


class _Usage(msgspec.Struct, gc=False):
    cpu: Amount
    memory: Amount


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _NodeMetrics(msgspec.Struct):
    metadata: _Meta
    usage: _Usage
    timestamp: str = ""


class _Container(msgspec.Struct, gc=False):
    usage: _Usage


class _PodMetrics(msgspec.Struct):
    metadata: _Meta
    containers: list[_Container]
    timestamp: str = ""


_decode = msgspec.json.Decoder(_NodeMetrics).decode
_decode_pod = msgspec.json.Decoder(_PodMetrics).decode


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


def decode_pod_metrics(item: msgspec.Raw | memoryview) -> tuple[int, float, float, float] | None:
    """Of a pod its key, when it was measured, its CPU in milli and its memory in bytes; None: it cannot be read."""
    try:
        metrics = _decode_pod(item)
        usage = [container.usage for container in metrics.containers]
        if not usage:
            return None
        return (
            usage_key(metrics.metadata.namespace, metrics.metadata.name),
            parse_timestamp(metrics.timestamp),
            sum(_nano(one.cpu) for one in usage) / _NANO_PER_MILLI,
            sum(_nano(one.memory) for one in usage) / _NANO,
        )
    except (msgspec.DecodeError, QuantityError, TimestampError):
        return None


def _nano(amount: Amount) -> int:
    """As ``nano``, without its memory of texts: amounts of pods hardly ever come again, and would push out those that do."""
    if isinstance(amount, str) and amount[:-2].isdigit():
        if amount.endswith("Ki") and amount.isascii():
            return int(amount[:-2]) * 1024 * _NANO
        factor = _PLAIN.get(amount[-1], 0)
        if factor and amount[:-1].isdigit() and amount.isascii():
            return int(amount[:-1]) * factor
    return nano(amount)
