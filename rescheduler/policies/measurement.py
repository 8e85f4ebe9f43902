"""Which nodes have a measured usage that a decision may rely on. Pure.

An unknown usage is no number: a node without a fresh measurement neither gives nor receives pods where a policy goes by
``usage: actual``, and it is in no mean. Its requests are never taken in place of it, because moves that begin when
metrics-server fails, and are taken back when it is there again, would disturb pods for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.measured import NodeUsage
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp
from rescheduler.scheduling.framework import BoolArray

FRESH_S: Final = 180.0
"""How long a measurement is relied on after its ``timestamp``, which is the end of its ``window``.

metrics-server measures every 15 s (60 s in older versions), and the controller reads every 30 s: a node that is measured
never comes close to it.
"""
_NAMED: Final = 5
"""So many nodes are named in a message."""


class Unmeasured(NamedTuple):
    """The nodes that take no part in policies with ``usage: actual``."""

    nodes: tuple[str, ...]
    """Their names, sorted."""
    of: int
    """How many nodes there are."""
    last_s: float
    """When the usage of one of them was measured last; 0.0: never, as far as is known."""

    @property
    def named(self) -> str:
        """The first of them, for messages."""
        more = len(self.nodes) - _NAMED
        return ", ".join(self.nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def is_fresh(usage: NodeUsage, now_s: float) -> bool:
    """True if the measurement may be relied on; one without a time may not."""
    return usage.measured_at_s > 0 and now_s - usage.measured_at_s <= FRESH_S


def measured(snapshot: Snapshot, names: Sequence[str]) -> BoolArray:
    """Which of these nodes have a measurement that is fresh and settled."""
    usage = snapshot.usage
    known = [
        is_known and usage[name].settled
        for name, is_known in zip(names, _fresh(snapshot, names), strict=True)
    ]
    return np.array(known, dtype=np.bool_)


def _fresh(snapshot: Snapshot, names: Sequence[str]) -> list[bool]:
    usage, now_s = snapshot.usage, snapshot.taken_at_s
    return [name in usage and is_fresh(usage[name], now_s) for name in names]


def unsettled(snapshot: Snapshot, names: Sequence[str]) -> int:
    """How many of these nodes have a fresh measurement that does not count yet."""
    fresh = zip(names, _fresh(snapshot, names), strict=True)
    return sum(is_fresh and not snapshot.usage[name].settled for name, is_fresh in fresh)


def unmeasured(snapshot: Snapshot, names: Sequence[str]) -> Unmeasured:
    """Those without a fresh one."""
    known = _fresh(snapshot, names)
    missing = sorted(name for name, is_known in zip(names, known, strict=True) if not is_known)
    last_s = max(
        (snapshot.usage[name].measured_at_s for name in missing if name in snapshot.usage), default=0.0
    )
    return Unmeasured(tuple(missing), len(names), last_s)


def warning(policy: str, found: Unmeasured) -> str:
    """What a plan says of them."""
    last = f"last measured at {format_timestamp(found.last_s)}" if found.last_s else "never measured"
    part = "and proposes nothing" if len(found.nodes) == found.of else "and judges the others only"
    return (
        f"{policy} with usage: actual leaves out {len(found.nodes)} of {found.of} nodes ({found.named}; {last}) {part}: "
        f"their usage was not measured in the last {FRESH_S:.0f} s. Check metrics-server (kubectl top nodes, "
        "kubectl get apiservice v1beta1.metrics.k8s.io) or usage.prometheus"
    )
