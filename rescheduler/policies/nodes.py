"""Labels and taints of nodes as columns, so that a selector is judged for all nodes at once.

Each requirement is judged once per distinct label value, not once per node. Immutable apart from caches,
and valid for one set of node records. Arrays are in the order of the nodes handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from rescheduler.model.records import Node, PodSpec, PreferredNodeTerm, Taint, Toleration
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.policies.taints import tolerates
from rescheduler.scheduling.framework import BoolArray, IntArray

_NAME_FIELD = "metadata.name"


class NodeTable:
    """Columns over nodes, with everything judged so far remembered."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.names = tuple(node.name for node in nodes)
        self._all = np.ones(len(nodes), dtype=np.bool_)
        self._columns: dict[str, tuple[IntArray, tuple[str, ...]]] = {}
        self._code_lists: dict[str, list[int]] = {}
        self._requirements: dict[tuple[bool, Requirement], BoolArray] = {}
        self._eligible: dict[tuple[tuple[tuple[str, str], ...], NodeSelector | None], BoolArray] = {}
        self._preferred: dict[tuple[PreferredNodeTerm, ...], IntArray] = {}
        self._tolerated: dict[tuple[Toleration, ...], BoolArray] = {}
        self.taint_codes, self.taint_sets = self._taints()
        self.targetable: BoolArray = np.array(
            [node.ready and not node.unschedulable and not node.deleting for node in nodes], dtype=np.bool_
        )
        """Nodes that may be targets at all: Ready, schedulable, not being deleted (row R75)."""
        order = sorted(range(len(nodes)), key=self.names.__getitem__)
        self.ranks: IntArray = np.empty(len(nodes), dtype=np.int64)
        """The place of each node in the order of names."""
        self.ranks[order] = np.arange(len(nodes))
        self.hinted = tuple(i for i, node in enumerate(nodes) if node.avoid)
        """Nodes with PreferAvoidPods hints."""

    def __len__(self) -> int:
        return len(self.nodes)

    def renew(self, nodes: Sequence[Node]) -> None:
        """Newer records of the same nodes, which differ in nothing that is judged here."""
        self.nodes = tuple(nodes)

    def domains(self, key: str) -> tuple[IntArray, tuple[str, ...]]:
        """Code of each node's value of a label, -1 where it has none; and the values by code."""
        found = self._columns.get(key)
        if found is None:
            codes: dict[str, int] = {}
            column = np.full(len(self.nodes), -1, dtype=np.int64)
            for i, node in enumerate(self.nodes):
                value = node.labels.get(key)
                if value is not None:
                    column[i] = codes.setdefault(value, len(codes))
            found = self._columns[key] = column, tuple(codes)
        return found

    def code_list(self, key: str) -> list[int]:
        """The codes of ``domains`` as a list, which is faster to look single nodes up in."""
        found = self._code_lists.get(key)
        if found is None:
            found = self._code_lists[key] = self.domains(key)[0].tolist()
        return found

    def eligible(self, spec: PodSpec) -> BoolArray:
        """Nodes that meet nodeSelector and required node affinity."""
        key = (spec.node_selector, spec.node_affinity)
        mask = self._eligible.get(key)
        if mask is None:
            mask = self._all
            for label, value in spec.node_selector:
                mask = mask & self._meets(Requirement(label, Operator.IN, (value,)), field=False)
            if spec.node_affinity is not None:
                terms = [self._term(term) for term in spec.node_affinity.terms]
                mask = mask & reduce(np.logical_or, terms, np.zeros(len(self.nodes), dtype=np.bool_))
            self._eligible[key] = mask
        return mask

    def preference(self, spec: PodSpec) -> IntArray:
        """Sum of the weights of preferred node affinity that each node meets."""
        key = spec.node_affinity_preferred
        score = self._preferred.get(key)
        if score is None:
            score = np.zeros(len(self.nodes), dtype=np.int64)
            for preferred in key:
                score += preferred.weight * self._term(preferred.term)
            self._preferred[key] = score
        return score

    def tolerated(self, spec: PodSpec) -> BoolArray:
        """Nodes whose NoSchedule and NoExecute taints the pod tolerates."""
        mask = self._tolerated.get(spec.tolerations)
        if mask is None:
            per_set = [
                all(tolerates(spec.tolerations, taint) for taint in taints if taint.effect in _HARD)
                for taints in self.taint_sets
            ]
            mask = np.array(per_set, dtype=np.bool_)[self.taint_codes]
            self._tolerated[spec.tolerations] = mask
        return mask

    def _taints(self) -> tuple[IntArray, tuple[tuple[Taint, ...], ...]]:
        sets: dict[tuple[Taint, ...], int] = {}
        codes = [sets.setdefault(node.taints, len(sets)) for node in self.nodes]
        return np.array(codes, dtype=np.int64), tuple(sets)

    def _term(self, term: NodeSelectorTerm) -> BoolArray:
        if term.invalid or not (term.expressions or term.fields):
            return np.zeros(len(self.nodes), dtype=np.bool_)
        mask = self._all
        for requirement in term.expressions:
            mask = mask & self._meets(requirement, field=False)
        for requirement in term.fields:
            mask = mask & self._meets(requirement, field=True)
        return mask

    def _meets(self, requirement: Requirement, *, field: bool) -> BoolArray:
        mask = self._requirements.get((field, requirement))
        if mask is None:
            mask = self._by_name(requirement) if field else self._by_label(requirement)
            self._requirements[field, requirement] = mask
        return mask

    def _by_label(self, requirement: Requirement) -> BoolArray:
        codes, values = self.domains(requirement.key)
        answers = [requirement.matches(LabelSet({requirement.key: value})) for value in values]
        answers.append(requirement.matches(LabelSet()))  # code -1: the label is missing
        return np.array(answers, dtype=np.bool_)[codes]

    def _by_name(self, requirement: Requirement) -> BoolArray:
        if requirement.key != _NAME_FIELD:
            return np.zeros(len(self.nodes), dtype=np.bool_)
        answers = [requirement.matches(LabelSet({_NAME_FIELD: name})) for name in self.names]
        return np.array(answers, dtype=np.bool_)


_HARD = ("NoSchedule", "NoExecute")
