"""Tells the operator what keeps policies from doing their work: nodes without measured usage, names that no node has.

Used by the core thread only. Each is told when it begins or changes, not at every decision.
"""

from __future__ import annotations

import structlog

from rescheduler.controller.metrics import Metrics
from rescheduler.model.times import format_timestamp
from rescheduler.policies.measurement import Unmeasured


class UnmeasuredNodes:
    """Nodes that take no part in a policy because their usage is not measured: log and metric."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._nodes: tuple[str, ...] = ()
        self._since_s = 0.0
        self._log = structlog.get_logger("rescheduler.usage")

    def found(self, unmeasured: Unmeasured | None, now_s: float) -> None:
        """A decision at ``now_s`` left these nodes out; None: it left out none."""
        nodes = unmeasured.nodes if unmeasured is not None else ()
        self._metrics.nodes_unmeasured.set(len(nodes))
        if nodes == self._nodes:
            return
        if not self._nodes:
            self._since_s = now_s
        self._nodes = nodes
        since = format_timestamp(self._since_s)
        if unmeasured is None:
            self._log.info(
                "The usage of all nodes is measured again: policies with usage: actual judge all of them",
                since=since,
            )
            return
        self._log.warning(
            "The usage of nodes is not measured: they take no part in policies with usage: actual",
            nodes=unmeasured.named,
            count=len(nodes),
            of=unmeasured.of,
            since=since,
            last_measured=format_timestamp(unmeasured.last_s) if unmeasured.last_s else "never",
            remedy="check metrics-server (kubectl top nodes, kubectl get apiservice v1beta1.metrics.k8s.io) or usage.prometheus",
        )


class UnknownNames:
    """What the policies name and no node has. It is no error: the nodes that have the resource may come later."""

    def __init__(self) -> None:
        self._said: frozenset[str] = frozenset()
        self._log = structlog.get_logger("rescheduler.configuration")

    def found(self, sentences: tuple[str, ...]) -> None:
        """A decision found these. Only what was not there at the decision before is said."""
        for sentence in sentences:
            if sentence not in self._said:
                self._log.warning(
                    "The configuration names something that nodes do not have",
                    problem=sentence,
                    remedy="correct it, or wait for the nodes that have it",
                )
        self._said = frozenset(sentences)
