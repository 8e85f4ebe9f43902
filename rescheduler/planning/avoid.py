"""Nodes to avoid. PreferAvoidPods hints: a bounded list on the node a pod left, with a time for each reason.

The planner does not send a pod of that controller back there for the same reason while an entry holds, and
takes such a node last for other reasons. An entry counts for pods of its own namespace only, because anybody may write any
uid into the ownerReferences of a pod; and of a full list the namespace with most entries loses one.

Nodes that did not take, or did not keep, a placeholder for a workload lately are no targets until a back-off has passed:
kube-scheduler, admission or a kubelet may refuse it for reasons that our rules do not see (a plugin, a device, a policy), and a plan
would choose the node again after each failure. Other workloads are not concerned. A node whose kubelet did not take a pod lately is no
target for that namespace: of that only, because anybody may bind a pod of their own to a full node. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.past_moves import node_digest
from rescheduler.model.records import OwnerRef, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.past_moves import PastMoves, refusals
from rescheduler.policies.wire import MOST_HINT_S, registered
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.nodes import NodeTable

LIMIT: Final = 20
"""Entries that a node carries at most. Beyond it, of the namespace with most of them the one that ends first is dropped."""

NOT_TAKEN_S: Final = 600.0
"""So long a node is no target for a namespace of which its kubelet did not take a pod."""
DEFAULT_TTL_S: Final = 1800.0
TTL_S: Final = {
    "LowNodeUtilization": 1800.0,
    "HighNodeUtilization": 3600.0,
    "Defragmentation": 3600.0,
    "NodeAffinity": 3600.0,
    "InterPodAntiAffinity": 1800.0,
    "PodAffinity": 1800.0,
    "NodeTaints": 3600.0,
    "NodeHealth": 3600.0,
    "TooManyRestarts": 86_400.0,
    "TopologySpread": 900.0,
}
"""Seconds by policy: long where the node is the trouble, short where only the distribution was."""


def holds(
    entries: Iterable[AvoidEntry], namespace: str, controller_uid: str, now_s: float
) -> tuple[AvoidEntry, ...]:
    """The entries for the pods of a controller in a namespace that have not ended."""
    wanted = (namespace, controller_uid)
    return tuple(e for e in entries if (e.namespace, e.controller_uid) == wanted and e.expires_at_s > now_s)


def entry_for(
    owner: OwnerRef, namespace: str, reason: str, now_s: float, ttl_s: float | None = None
) -> AvoidEntry:
    """The hint to leave on the node that a pod of ``owner`` is moved away from, in whole seconds. ``ttl_s`` None: by the reason."""
    lasts_s = TTL_S.get(registered(reason), DEFAULT_TTL_S) if ttl_s is None else min(ttl_s, MOST_HINT_S)
    return AvoidEntry(
        controller_kind=owner.kind,
        controller_name=owner.name,
        controller_uid=owner.uid,
        namespace=namespace,
        reason=reason,
        expires_at_s=float(math.ceil(now_s + lasts_s)),
    )


def with_entry(entries: Iterable[AvoidEntry], new: AvoidEntry, now_s: float) -> tuple[AvoidEntry, ...]:
    """The list with ``new`` added, or what lasts longer of its kind, ended entries dropped, and cut to LIMIT."""
    found = [*entries, new]
    longest = max((e for e in found if _of(e) == _of(new)), key=lambda e: e.expires_at_s)
    kept = [longest, *(e for e in entries if e.expires_at_s > now_s and _of(e) != _of(new))]
    kept.sort(key=_order)
    while len(kept) > LIMIT:
        many = Counter(e.namespace for e in kept)
        most = max(many.values())
        kept.remove(next(e for e in kept if many[e.namespace] == most))
    return tuple(kept)


def collected(
    entries: Iterable[AvoidEntry], alive_controllers: Iterable[str], now_s: float
) -> tuple[AvoidEntry, ...]:
    """The list without entries that have ended or whose controller (uid) no longer exists."""
    alive = frozenset(alive_controllers)
    return tuple(
        sorted((e for e in entries if e.expires_at_s > now_s and e.controller_uid in alive), key=_order)
    )


def _of(entry: AvoidEntry) -> tuple[str, str, str]:
    return entry.namespace, entry.controller_uid, entry.reason


def _order(entry: AvoidEntry) -> tuple[float, str, str, str]:
    return entry.expires_at_s, entry.namespace, entry.controller_name, entry.reason


class _Closed(NamedTuple):
    """A node that is no target."""

    until_s: float
    why: str
    """The end of a sentence that begins with the node."""


_NO_PLACEHOLDER: Final = "did not take the placeholder of an earlier move of its workload"


class RefusedTargets:
    """The nodes of one snapshot, for pods of any workload."""

    def __init__(self, nodes: NodeTable, snapshot: Snapshot, ended: Iterable[Pod]) -> None:
        """``ended``: pods that are over."""
        self._nodes, self._snapshot = nodes, snapshot
        found = refusals(snapshot)
        self._past = PastMoves(found, (), snapshot.taken_at_s) if found else None
        self._by_digest = {node_digest(name): i for i, name in enumerate(nodes.names)} if found else {}
        self._by_kubelet = _not_taken(nodes, ended, snapshot.taken_at_s)
        self._until: dict[tuple[str, str], Mapping[int, _Closed]] = {}

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
        closed = {i: one for i, one in self._closed_to(pod).items() if nodes[i]}
        names = ", ".join(sorted(self._nodes.names[i] for i in closed))
        left_s = min(one.until_s for one in closed.values()) - self._snapshot.taken_at_s
        why = " or ".join(sorted({one.why for one in closed.values()}))
        return f"{why} ({names}); the next try is in {left_s:.0f} s", names

    def _closed_to(self, pod: Pod) -> Mapping[int, _Closed]:
        """Nodes, and until when."""
        by_kubelet = self._by_kubelet.get(pod.namespace, {})
        if self._past is None:
            return by_kubelet
        key = pod.namespace, self._snapshot.workload_uid(pod)
        known = self._until.get(key)
        if known is None:
            until = self._past.refused_until(*key).items()
            known = self._until[key] = by_kubelet | {
                self._by_digest[digest]: _Closed(until_s, _NO_PLACEHOLDER)
                for digest, until_s in until
                if digest in self._by_digest
            }
        return known


def _not_taken(nodes: NodeTable, ended: Iterable[Pod], now_s: float) -> dict[str, dict[int, _Closed]]:
    """By namespace, the nodes whose kubelets did not take a pod of it lately."""
    found: dict[str, dict[int, _Closed]] = {}
    for pod in sorted((pod for pod in ended if pod.not_taken and pod.node in nodes.index), key=_since_s):
        if (until_s := _since_s(pod) + NOT_TAKEN_S) > now_s:
            why = f"did not take a pod of namespace {pod.namespace} ({pod.not_taken})"
            found.setdefault(pod.namespace, {})[nodes.index[pod.node]] = _Closed(until_s, why)
    return found


def _since_s(pod: Pod) -> float:
    """When the kubelet saw it."""
    return pod.started_at_s or pod.created_at_s
