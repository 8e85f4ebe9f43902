"""NodeHealth: pods on nodes that are Ready and have been unhealthy for a while, by their conditions or because Ready comes and goes.

An unhealthy node is no target from the first moment, and is left only after that has lasted. Where most nodes of a zone or of
the cluster are unhealthy at once, the fault is likely to be elsewhere (the network, the detector): nothing leaves them then, as
kube-controller-manager evicts nothing in a zone that is disrupted. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.counted import plural, verb
from rescheduler.model.names import ZONE
from rescheduler.model.node_marks import (
    FAULT_CONDITIONS,
    MOST_FLAPS,
    NOTHING_SEEN,
    NodeMarksSince,
    condition_since_s,
    condition_written,
)
from rescheduler.model.records import Node, Pod
from rescheduler.model.times import format_duration
from rescheduler.model.written import document_key
from rescheduler.policies.framework import PolicyView, PolicyWarning
from rescheduler.policies.objective import Tier
from rescheduler.policies.pod_costs import CostRows, change_of_cost, pods_on, sum_of_costs
from rescheduler.policies.proposals import NODE, Batch, Proposals, by_gain
from rescheduler.policies.wire import PERCENT, Age, ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices
from rescheduler.scheduling.nodes import NodeTable

_STATUSES: Final = ("True", "False", "Unknown")
_LEAST_DISTURBED: Final = 2
"""A single unhealthy node is no event of a whole zone, however few nodes the zone has."""


class NodeHealthArgs(PolicyArgs, frozen=True, kw_only=True, rename=document_key):
    """``conditions``: by ``Type`` (status True) or ``Type=Status`` what makes a node unhealthy, and ``after_s`` how long it must have lasted.

    ``flaps``: a node that stopped being Ready so often ``within_s`` is unhealthy, too; 0: it is not.
    ``most_unhealthy``: percent of the nodes of a zone, or of all; where so many are unhealthy or not Ready, no pod leaves them.
    """

    conditions: tuple[str, ...] = FAULT_CONDITIONS
    after_s: Age = 600.0
    flaps: Annotated[int, msgspec.Meta(ge=0, le=MOST_FLAPS)] = 3
    within_s: Annotated[Age, msgspec.Meta(le=86_400.0)] = 3600.0
    most_unhealthy: Annotated[float, msgspec.Meta(gt=0.0, le=PERCENT)] = 55.0

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if not self.conditions and not self.flaps:
            yield ("conditions",), "is empty, and flaps is 0: no node could be unhealthy"
        for index, written in enumerate(self.conditions):
            kind, equals, status = written.partition("=")
            if not kind or (equals and status not in _STATUSES):
                yield (
                    ("conditions", index),
                    f"is {written!r}; write the type of a condition, or TYPE=STATUS with {', '.join(_STATUSES)}",
                )
            elif kind == "Ready":
                yield (
                    ("conditions", index),
                    "pods on a node that is not Ready are never moved: use flaps for a Ready that comes and goes",
                )

    def unknown_to(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        """Conditions that somebody wrote and no node has, with whichever status."""
        yield from super().unknown_to(nodes)
        known = {condition.type for node in nodes.records for condition in node.conditions}
        for index, written in enumerate(self.conditions):
            if nodes.size and written not in FAULT_CONDITIONS and written.partition("=")[0] not in known:
                yield ("conditions", index), f"no node has a condition {written.partition('=')[0]!r}"


class _Health(NamedTuple):
    """Of all nodes, by index."""

    costs: IntArray
    """1: unhealthy, however long."""
    lasting: BoolArray
    """Those that are to be left."""
    why: dict[int, str]
    """What is wrong with each of those."""
    held: tuple[str, ...]
    """Where most are unhealthy, in words."""


class NodeHealth:
    """Badness: each pod of the scope on an unhealthy node, as a broken rule. Only nodes that have been unhealthy for a while are left."""

    name: str = "NodeHealth"
    tier: ClassVar[Tier] = Tier.HARD

    def __init__(self, args: NodeHealthArgs) -> None:
        self._args = args
        self._scope = args.scope()
        self._wrong = {condition_written(text) for text in args.conditions}

    def candidates(self, view: PolicyView) -> Proposals:
        """All pods on nodes that are to be left."""
        health = self._health(view)
        found: dict[tuple[PodClass, str], list[Pod]] = {}
        for pod, kind, node in pods_on(health.lasting, self._scope, view):
            found.setdefault((kind, health.why[node]), []).append(pod)
        return by_gain(
            Batch.of(self.name, kind, pods, why=("UnhealthyNode", f"node/{NODE} {why}"), tier=self.tier)
            for (kind, why), pods in found.items()
        )

    def badness(self, view: PolicyView) -> IntArray:
        """Pods on unhealthy nodes."""
        return sum_of_costs(self._cost, view)

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """One less, unless it goes to another unhealthy node."""
        return change_of_cost(self._cost, pod, replacement, view)

    def warnings(self, view: PolicyView) -> Iterator[PolicyWarning]:
        """Where most nodes are unhealthy."""
        for words in self._health(view).held:
            yield PolicyWarning(f"{self.name}: {words}; no pod leaves them, for the fault may be elsewhere")

    def _cost(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        costs = self._health(view).costs
        return [(self.tier, costs[nodes])] if self._scope.proposes(kind) and costs.any() else ()

    def _health(self, view: PolicyView) -> _Health:
        snapshot = view.snapshot
        stamp = id(snapshot), snapshot.taken_at_s
        return view.nodes.memo.of((self, _Health), stamp, lambda: self._judge(view))

    def _judge(self, view: PolicyView) -> _Health:
        now_s, since = view.snapshot.taken_at_s, view.snapshot.node_marks_since
        table = view.nodes
        costs, lasting, why = np.zeros(table.size, dtype=np.int64), np.zeros(table.size, dtype=np.bool_), {}
        for index, node in enumerate(table.records):
            seen = since.get(node.name, NOTHING_SEEN)
            found = self._wrong_with(node, seen, now_s)
            if not found:
                continue
            costs[index] = 1
            lasted = [words for words, for_s in found if for_s >= self._args.after_s]
            # Pods of a node that is not Ready are never moved.
            if lasted and node.ready:
                lasting[index], why[index] = True, " and ".join(lasted)
        held = tuple(self._disturbed(table, costs, lasting))
        return _Health(costs, lasting, why, held)

    def _wrong_with(self, node: Node, seen: NodeMarksSince, now_s: float) -> list[tuple[str, float]]:
        """What is wrong, as the end of a sentence, and for how long."""
        found = []
        for condition in node.conditions:
            if (condition.type, condition.status) in self._wrong:
                since_s = condition_since_s(condition, seen, now_s)
                words = f"has the condition {condition.type}={condition.status}"
                found.append((words, now_s - since_s))
        flaps = sum(now_s - lost_s <= self._args.within_s for lost_s in seen.lost_ready)
        if self._args.flaps and flaps >= self._args.flaps:
            within = format_duration(self._args.within_s)
            # That it happened so often is what has to last.
            found.append((f"stopped being Ready {plural(flaps, 'time')} within {within}", np.inf))
        return found

    def _disturbed(self, table: NodeTable, costs: IntArray, lasting: BoolArray) -> Iterator[str]:
        """Takes the nodes of a zone, or all, out of ``lasting`` where most are unhealthy, and says so."""
        if not lasting.any():
            return
        ill = (costs > 0) | np.array([not node.ready for node in table.records])
        zones = np.array([node.labels.get(ZONE) or "" for node in table.records])
        nodes, unhealthy = Counter(zones.tolist()), Counter(zones[ill].tolist())
        for zone, number in [("", int(ill.sum())), *sorted(unhealthy.items())]:
            whole = table.size if not zone else nodes[zone]
            if number < _LEAST_DISTURBED or PERCENT * number < self._args.most_unhealthy * whole:
                continue
            where = table.all if not zone else zones == zone
            if not (lasting & where).any():
                continue
            lasting &= ~where
            place = f" of zone {zone}" if zone else ""
            yield f"{number} of {plural(whole, 'node')}{place} {verb(number, 'is', 'are')} unhealthy or not Ready"
