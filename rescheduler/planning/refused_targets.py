"""Nodes that did not take, or did not keep, a placeholder for a workload lately: no targets until a back-off has passed. Pure.

kube-scheduler, admission or a kubelet may refuse a placeholder for reasons that our rules do not see (a plugin, an extender, a device, a policy). A
plan that chose such a node would choose it again after each failure. Other workloads are not concerned.
"""

from __future__ import annotations

from collections.abc import Mapping

from rescheduler.model.past_moves import node_digest
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.past_moves import PastMoves, refusals
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.nodes import NodeTable


class RefusedTargets:
    """The nodes of one snapshot, for pods of any workload."""

    def __init__(self, nodes: NodeTable, snapshot: Snapshot) -> None:
        self._nodes, self._snapshot = nodes, snapshot
        found = refusals(snapshot)
        self._past = PastMoves(found, (), snapshot.taken_at_s) if found else None
        self._by_digest = {node_digest(name): i for i, name in enumerate(nodes.names)} if found else {}
        self._until: dict[tuple[str, str], Mapping[int, float]] = {}

    def kind(self, pod: Pod) -> tuple[int, ...]:
        """The same for pods to which the same nodes are closed."""
        return tuple(sorted(self._closed_to(pod)))

    def allowed(self, pod: Pod) -> BoolArray | None:
        """Nodes that are not closed to the pod; None: all."""
        closed = self._closed_to(pod)
        if not closed:
            return None
        found: BoolArray = self._nodes.all.copy()
        found[list(closed)] = False
        return found

    def closed(self, pod: Pod, node: str) -> bool:
        """True if the node is closed to the pod."""
        return self._nodes.index.get(node) in self._closed_to(pod)

    def refusal(self, pod: Pod, nodes: BoolArray) -> tuple[str, str]:
        """Why the pod does not move to these nodes, as the end of a sentence that begins with them; and their names."""
        until = [(until_s, self._nodes.names[i]) for i, until_s in self._closed_to(pod).items() if nodes[i]]
        names = ", ".join(sorted(name for _, name in until))
        left_s = min(until)[0] - self._snapshot.taken_at_s
        why = f"did not take the placeholder of an earlier move of its workload ({names})"
        return f"{why}; the next try is in {left_s:.0f} s", names

    def _closed_to(self, pod: Pod) -> Mapping[int, float]:
        """Nodes, and until when."""
        if self._past is None:
            return {}
        key = pod.namespace, self._snapshot.workload_uid(pod)
        known = self._until.get(key)
        if known is None:
            until = self._past.refused_until(*key).items()
            known = self._until[key] = {
                self._by_digest[digest]: until_s for digest, until_s in until if digest in self._by_digest
            }
        return known
