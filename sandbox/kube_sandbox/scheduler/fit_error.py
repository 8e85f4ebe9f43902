"""The message of kube-scheduler for a pod that fits on no node (FitError). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rescheduler.scheduling.framework import NodeVerdict

NO_NODES = "no nodes available to schedule pods"


def fit_message(verdicts: Sequence[NodeVerdict], after: str = "", everywhere: str = "") -> str:
    """``0/3 nodes are available: 1 Insufficient cpu, ...``.

    ``after``: the message of preemption. ``everywhere``: a reason that holds for the pod on every node, which
    kube-scheduler does not count by nodes.
    """
    if not verdicts:
        return NO_NODES
    reasons = _counted(r.reason for v in verdicts for r in v.refusals)
    text = f"0/{len(verdicts)} nodes are available:{f' {everywhere}.' if everywhere else reasons}"
    return f"{text} {after}" if after else text


def preemption_message(nodes: int, reasons: Iterable[str]) -> str:
    """The same for preemption: its reason for each node, counted."""
    return f"preemption: 0/{nodes} nodes are available:{_counted(reasons)}"


def _counted(reasons: Iterable[str]) -> str:
    texts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f" {', '.join(texts)}." if texts else ""
