"""Nodes as columns: allocatable, labels as codes, taints as codes, topology domains.

A label key becomes a column of small integers, so that a requirement is judged once per distinct value
instead of once per node. A table never changes: newer records of the same nodes make a new one (``renewed``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescheduler.model.node_marks import reports_fault
from rescheduler.model.records import Node, Taint
from rescheduler.model.selectors import (
    LabelSelector,
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.memo import Memo

Codes = npt.NDArray[np.int32]
NODE_NAME_FIELD = "metadata.name"


@dataclass(frozen=True, eq=False)
class Column:
    """One label over all nodes."""

    key: str
    codes: Codes
    """For each node the index of its value in ``values``; -1 where it lacks the label."""
    values: tuple[str, ...]

    @cached_property
    def present(self) -> BoolArray:
        """Nodes that carry the label."""
        return self.codes >= 0

    @cached_property
    def complete(self) -> bool:
        """True if every node carries the label."""
        return bool(self.present.all())

    @cached_property
    def distinct(self) -> bool:
        """True if no two nodes have the same value."""
        return len(self.values) == int(self.present.sum())

    @cached_property
    def code_list(self) -> list[int]:
        """The codes as a list, which is faster to index one by one."""
        listed: list[int] = self.codes.tolist()
        return listed

    @cached_property
    def code_of(self) -> dict[str, int]:
        """Value -> code."""
        return {value: code for code, value in enumerate(self.values)}

    def spread(self, per_value: IntArray) -> IntArray:
        """``per_value[code]`` for every node, 0 where the label is absent."""
        return per_value[self.codes] if self.complete else np.append(per_value, 0)[self.codes]

    def spread_mask(self, per_value: BoolArray) -> BoolArray:
        """The same for yes and no; nodes without the label are False."""
        if self.complete:
            return per_value[self.codes]
        return np.append(per_value, np.False_)[self.codes]

    def matches(self, requirement: Requirement) -> BoolArray:
        """Nodes whose label meets the requirement."""
        # One answer for each value and a last one for nodes without the label: code -1 finds it by itself.
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        if requirement.operator in (Operator.IN, Operator.NOT_IN):
            for value in requirement.values:
                code = self.code_of.get(value)
                if code is not None:
                    table[code] = True
            if requirement.operator is Operator.NOT_IN:
                np.logical_not(table, out=table)
        else:
            for code, value in enumerate(self.values):
                table[code] = requirement.matches(LabelSet({self.key: value}))
            table[-1] = requirement.matches(LabelSet())
        return table[self.codes]


class NodeTable:
    """All nodes of a snapshot in one fixed order, and what can be said of them without looking at pods."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.records = list(nodes)
        self.names = tuple(node.name for node in nodes)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.size = len(self.names)
        self.all = np.ones(self.size, dtype=np.bool_)
        self.epoch = 0
        """Another number in a renewed table if more than capacity, images and features changed."""
        self.unschedulable = np.fromiter((n.unschedulable for n in nodes), dtype=np.bool_, count=self.size)
        self.schedulable = ~self.unschedulable
        self.usable: BoolArray = np.fromiter(
            (n.usable and not n.leaving for n in nodes), dtype=np.bool_, count=self.size
        )
        """Nodes that pods may be moved to at all, see ``Node.usable`` and ``Node.leaving``."""
        self.hinted = tuple(i for i, node in enumerate(nodes) if node.avoid)
        """Indices of nodes with PreferAvoidPods hints."""
        self.memo = Memo()
        """Results of plugins and policies that depend on the nodes."""
        self._allocatable: dict[str, IntArray] = {}
        self._columns: dict[str, Column] = {}
        self._selectors: dict[object, BoolArray] = {}
        self.taint_codes, self.taint_sets = _code_taints(nodes)
        """For each node the index of its taints among the distinct ``taint_sets``."""

    def renewed(self, nodes: Sequence[Node]) -> NodeTable:
        """The table of newer records of the same nodes with the same labels: what follows from labels is shared."""
        table = NodeTable(nodes)
        same = all(_placement(old) == _placement(new) for old, new in zip(self.records, nodes, strict=True))
        table.epoch = self.epoch if same else self.epoch + 1
        table._columns, table._selectors = self._columns, self._selectors
        table.ranks = self.ranks
        return table

    @cached_property
    def healthy(self) -> BoolArray:
        """Nodes without a known fault (``reports_fault``): nothing but the repair of a rule takes another one."""
        return np.fromiter((not reports_fault(n) for n in self.records), dtype=np.bool_, count=self.size)

    @cached_property
    def ranks(self) -> IntArray:
        """The place of each node in the order of names."""
        ranks = np.empty(self.size, dtype=np.int64)
        ranks[sorted(range(self.size), key=self.names.__getitem__)] = np.arange(self.size)
        return ranks

    def allocatable(self, resource: str) -> IntArray:
        """What each node can hold: milli-CPU, bytes, pods, or units of a scalar; 0 where it does not say."""
        known = self._allocatable.get(resource)
        if known is None:
            known = np.fromiter(
                (node.allocatable.amount(resource) for node in self.records), dtype=np.int64, count=self.size
            )
            self._allocatable[resource] = known
        return known

    def divisor(self, resource: str) -> tuple[IntArray, BoolArray]:
        """Allocatable with 1 instead of 0, and where it is not 0; shared, not to be changed."""
        amounts = self.allocatable(resource)
        return self.memo.of(("divisor", resource), None, lambda: (np.maximum(amounts, 1), amounts > 0))

    def column(self, key: str) -> Column:
        """The label ``key`` over all nodes."""
        known = self._columns.get(key)
        if known is None:
            known = self._columns[key] = _column(key, [node.labels.get(key) for node in self.records])
        return known

    @cached_property
    def name_column(self) -> Column:
        """``metadata.name`` as if it were a label."""
        return _column(NODE_NAME_FIELD, list(self.names))

    def selector_mask(self, selector: NodeSelector) -> BoolArray:
        """Nodes that any term selects."""
        return self._cached(selector, lambda: self._any(selector.terms))

    def term_mask(self, term: NodeSelectorTerm) -> BoolArray:
        """Nodes that one term selects; an empty or malformed one selects none."""
        return self._cached(term, lambda: self._term(term))

    def labels_mask(self, labels: tuple[tuple[str, str], ...]) -> BoolArray:
        """Nodes that carry all the given labels (``spec.nodeSelector``)."""
        return self._cached(
            labels,
            lambda: self._all([Requirement(key, Operator.IN, (value,)) for key, value in labels]),
        )

    def label_selector_mask(self, selector: LabelSelector) -> BoolArray:
        """Nodes whose labels a label selector matches."""
        if selector.invalid:
            return np.zeros(self.size, dtype=np.bool_)
        return self._cached(selector, lambda: self._all(list(selector.requirements)))

    def taint_table(self, judge: Callable[[tuple[Taint, ...]], int]) -> IntArray:
        """``judge`` asked once for each distinct set of taints, spread over the nodes."""
        table = np.fromiter(
            (judge(taints) for taints in self.taint_sets), dtype=np.int64, count=len(self.taint_sets)
        )
        return table[self.taint_codes]

    def _cached(self, key: object, make: Callable[[], BoolArray]) -> BoolArray:
        known = self._selectors.get(key)
        if known is None:
            known = self._selectors[key] = make()
        return known

    def _any(self, terms: Sequence[NodeSelectorTerm]) -> BoolArray:
        mask = np.zeros(self.size, dtype=np.bool_)
        for term in terms:
            mask |= self.term_mask(term)
        return mask

    def _term(self, term: NodeSelectorTerm) -> BoolArray:
        if term.invalid or not (term.expressions or term.fields):
            return np.zeros(self.size, dtype=np.bool_)
        mask = self._all(list(term.expressions))
        for requirement in term.fields:
            mask &= self.name_column.matches(requirement)
        return mask

    def _all(self, requirements: Sequence[Requirement]) -> BoolArray:
        mask = np.ones(self.size, dtype=np.bool_)
        for requirement in requirements:
            mask &= self.column(requirement.key).matches(requirement)
        return mask


def _placement(node: Node) -> tuple[object, ...]:
    """What answers that outlive a table depend on, besides labels."""
    return (
        node.taints,
        node.unschedulable,
        node.ready,
        node.deleting,
        node.do_not_disrupt,
        node.scale_down_disabled,
        node.avoid,
    )


def _column(key: str, values: Sequence[str | None]) -> Column:
    codes: dict[str, int] = {}
    coded = [-1 if value is None else codes.setdefault(value, len(codes)) for value in values]
    return Column(key, np.asarray(coded, dtype=np.int32), tuple(codes))


def _code_taints(nodes: Sequence[Node]) -> tuple[Codes, tuple[tuple[Taint, ...], ...]]:
    codes: dict[tuple[Taint, ...], int] = {}
    coded = [codes.setdefault(node.taints, len(codes)) for node in nodes]
    return np.asarray(coded, dtype=np.int32), tuple(codes)
