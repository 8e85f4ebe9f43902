"""What required anti-affinity between pods makes of placeholders, which have no labels of the pods that they stand for. Pure.

"Alone but for my own app" (a selector with NotIn or DoesNotExist over all namespaces) lets the replacement in and refuses its placeholder;
and a pod with such a rule is refused by the placeholder of any other room beside it. So both are judged: the placeholder by the
rules of the pods that stand or are to come, and the pod by the placeholders that stand or are to come.

A placeholder does not get the labels of its pods instead: tenants choose those, and would choose by them which Services, budgets and
policies of the controller's own namespace select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, LABEL_PLACEHOLDER
from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.selectors import LabelSet
from rescheduler.policies.planned_moves import PlannedMove, others
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.matching import matcher_of, parsed
from rescheduler.scheduling.nodes import Column
from rescheduler.scheduling.state import SchedulingState

Standing = Iterable[tuple[Pod, int]]
"""Pods that the state does not show, each with the node (an index) where it stands or is to stand."""

PLUGIN: Final = InterPodAffinity.name
HOLDER_APART: Final = "required anti-affinity keeps a placeholder and another pod or room apart"
_LABELS: Final = LabelSet({LABEL_PLACEHOLDER: "room", LABEL_CREATED_BY: CREATED_BY})
_FILTER: Final = InterPodAffinity()


class PlaceholderRules:
    """Answers for one state. ``namespace``: that of placeholders."""

    def __init__(self, state: SchedulingState, namespace: str) -> None:
        self._state = state
        self._holder = Pod(namespace=namespace, name="", uid="", spec=PodSpec(), labels=_LABELS)

    def takes_holder(self, others: Standing = ()) -> BoolArray | None:
        """Nodes where no pod refuses a placeholder; None: everywhere. ``others`` count beside the pods of the state."""
        cluster = self._state.cluster
        found = _FILTER.mask(cluster.ask(self._holder), cluster)
        for pod, node in others:
            for column in self.shunned(pod):
                found = _without(found, column, node, self._state)
        return found

    def apart(self, pod: Pod, holders: Iterable[int]) -> BoolArray | None:
        """Nodes where the pod's own anti-affinity refuses none of the placeholders on the nodes ``holders``; None: everywhere."""
        found: BoolArray | None = None
        columns = self.shunned(pod)
        for node in set(holders) if columns else ():
            for column in columns:
                found = _without(found, column, node, self._state)
        return found

    def shunned(self, pod: Pod) -> tuple[Column, ...]:
        """The topology keys of its required anti-affinity terms that match placeholders."""
        terms = pod.spec.pod_anti_affinity
        if not terms:
            return ()
        cluster = self._state.cluster
        return cluster.kind_of(pod).memo.of(
            ("shunned", self._holder.namespace), None, lambda: self._shunned(pod)
        )

    def _shunned(self, pod: Pod) -> tuple[Column, ...]:
        terms, cluster, holder = pod.spec.pod_anti_affinity, self._state.cluster, self._holder
        if not parsed(terms):
            return ()
        return tuple(
            cluster.nodes.column(term.topology_key)
            for term in terms
            if matcher_of(term, pod.namespace).matches(
                holder.namespace, holder.labels, cluster.snapshot.namespaces, own=True
            )
        )


def _without(found: BoolArray | None, column: Column, node: int, state: SchedulingState) -> BoolArray | None:
    """Without the nodes of the domain of ``node``; a node without the key belongs to none."""
    code = column.code_list[node]
    if code < 0:
        return found
    kept: BoolArray = state.cluster.nodes.all.copy() if found is None else found
    kept &= column.codes != code
    return kept


def both(one: BoolArray | None, other: BoolArray | None) -> BoolArray | None:
    """Nodes of both; None: everywhere."""
    if one is None or other is None:
        return other if one is None else one
    found: BoolArray = one & other
    return found


class PlannedHolders:
    """The placeholders of a plan: those of moves that are planned or under way, and that of one more move."""

    def __init__(self, rules: PlaceholderRules) -> None:
        self._rules = rules
        self._moves: list[PlannedMove] = []
        self._minding: list[PlannedMove] = []
        """Those whose old pods have rules about placeholders."""

    def add(self, move: PlannedMove) -> None:
        """A move is planned."""
        self._moves.append(move)
        if self._rules.shunned(move.pod):
            self._minding.append(move)

    def pop(self) -> None:
        """The last one is taken back."""
        last = self._moves.pop()
        if self._minding and self._minding[-1] is last:
            self._minding.pop()

    @contextmanager
    def without(self, landed: Sequence[PlannedMove]) -> Iterator[None]:
        """Meanwhile these moves are done."""
        before = self._moves, self._minding
        self._moves, self._minding = others(self._moves, landed), others(self._minding, landed)
        try:
            yield
        finally:
            self._moves, self._minding = before

    def allowed(self, pod: Pod, source: int, replacement: Pod) -> BoolArray | None:
        """Nodes where the placeholder for ``replacement`` and it itself are not refused because of placeholders; None: everywhere.

        The old ``pod`` and those of the other moves still stand when placeholders come: several moves run at once.
        """
        leaving = [(move.pod, move.source) for move in self._minding]
        if pod.spec.pod_anti_affinity:
            leaving.append((pod, source))
        return both(self._rules.takes_holder(leaving), self._apart(replacement))

    def arrivals(self, pod: Pod) -> BoolArray | None:
        """The same for the room of a pending pod, which is kept until others have left."""
        return both(self._rules.takes_holder(), self._apart(pod))

    def _apart(self, coming: Pod) -> BoolArray | None:
        return self._rules.apart(coming, (move.target for move in self._moves))
