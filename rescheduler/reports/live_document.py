"""The document that the live page reads (``/state.json``): types only, described in docs/page.md.

It has of pods no more than their names, and those of moved and planned pods only: what is shown of all pods is their
number on each node. Every list but that of the nodes has a limit.
"""

from __future__ import annotations

import msgspec

from rescheduler.model.names import API_VERSION
from rescheduler.model.node_marks import NodeMark
from rescheduler.reports.figures import Blocker, ShownMove, ShownPolicy


class ShownNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One node. Amounts in milli-CPU and bytes; requested includes reserved."""

    name: str
    zone: str = ""
    marks: tuple[NodeMark, ...] = ()
    taints: tuple[str, ...] = ()
    """Those that people or programs have set, at most five."""
    pods: int = 0
    pods_allocatable: int = 0
    cpu_requested_milli: int = 0
    cpu_reserved_milli: int = 0
    cpu_allocatable_milli: int = 0
    memory_requested_bytes: int = 0
    memory_reserved_bytes: int = 0
    memory_allocatable_bytes: int = 0
    cpu_used_milli: int | None = None
    """Measured; None: not known."""
    memory_used_bytes: int | None = None


class TrendSample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Figures of one moment."""

    at: str
    badly_placed: int
    moves_under_way: int
    pending_pods: int
    nodes_in_use: int
    cpu_requested: float
    """Share of the whole cluster, 0..1."""
    memory_requested: float


class LiveState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything. Times: RFC 3339, "" where there is none."""

    api_version: str = API_VERSION
    kind: str = "State"
    at: str = ""
    """Of the last decision or round; "": there was none."""
    decided_at: str = ""
    source: str = ""
    """Where the state is from, for people."""
    dry_run: bool = False
    leads: bool = True
    """False: another process leads, and this one knows no more than that."""
    leader: str = ""
    headline: str = ""
    nodes: tuple[ShownNode, ...] = ()
    pods: int = 0
    pending_pods: int = 0
    policies: tuple[ShownPolicy, ...] = ()
    blocked: tuple[Blocker, ...] = ()
    moves: tuple[ShownMove, ...] = ()
    moves_in_all: int = 0
    """Under way or planned, also those beyond the limit of ``moves``."""
    finished: tuple[ShownMove, ...] = ()
    samples: tuple[TrendSample, ...] = ()
    warnings: tuple[str, ...] = ()
