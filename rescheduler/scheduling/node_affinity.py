"""NodeAffinity: nodeSelector and node affinity of the pod, and affinity that the profile adds.

A required affinity whose every term names nodes (matchFields ``metadata.name``) narrows the nodes before
any filter runs; kube-scheduler then reports the others with a reason of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.model.records import Node, PodSpec, PreferredNodeTerm
from rescheduler.model.selectors import NodeSelectorTerm, Operator
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices, Refusal
from rescheduler.scheduling.nodes import NODE_NAME_FIELD, NodeTable
from rescheduler.scheduling.plugin import FilterPlugin, normalise

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"
REASON_NARROWED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


class NodeAffinity(FilterPlugin):
    """Judges node labels and names."""

    name: ClassVar[str] = "NodeAffinity"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- the plugin protocol
        """Refuses if every term demands several names at once."""
        names = named_nodes(ask.kind.spec)
        if names is not None and not names:
            return Refusal(self.name, REASON_CONFLICT, unresolvable=True)
        return None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that the pod's and the profile's required affinity select."""
        added = cluster.profile.added_affinity
        spec = ask.kind.spec
        if added is None and not spec.node_selector and spec.node_affinity is None:
            return None
        mask = required_mask(spec, cluster.nodes)
        return mask if added is None else mask & cluster.nodes.selector_mask(added)

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- pods do not matter to it
    ) -> tuple[Refusal, ...]:
        """The profile's affinity is judged first; all reasons are unresolvable."""
        added = cluster.profile.added_affinity
        if added is not None and not cluster.nodes.selector_mask(added)[node]:
            return (Refusal(self.name, REASON_ENFORCED, unresolvable=True),)
        if required_mask(ask.kind.spec, cluster.nodes)[node]:
            return ()
        return (Refusal(self.name, REASON, unresolvable=True),)

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray | None:
        """Weights of the matching preferred terms."""
        added = cluster.profile.added_affinity_preferred
        preferred = ask.kind.spec.node_affinity_preferred
        if not added and not preferred:
            return None
        return normalise(preferred_weights(added + preferred, cluster.nodes)[nodes])


def selects(spec: PodSpec, node: Node) -> bool:
    """True if its node selector and required node affinity let it onto the node."""
    if any(node.labels.get(key) != value for key, value in spec.node_selector):
        return False
    return spec.node_affinity is None or spec.node_affinity.matches(node.labels, node.name)


def required_mask(spec: PodSpec, nodes: NodeTable) -> BoolArray:
    """Nodes that nodeSelector and required node affinity select."""
    mask = nodes.all
    if spec.node_selector:
        mask = nodes.labels_mask(spec.node_selector)
    if spec.node_affinity is not None:
        mask = mask & nodes.selector_mask(spec.node_affinity)
    return mask


def named_nodes(spec: PodSpec) -> frozenset[str] | None:
    """Names of the only nodes that required affinity allows, None if some term does not name nodes."""
    if spec.node_affinity is None or not spec.node_affinity.terms:
        return None
    found: set[str] = set()
    for term in spec.node_affinity.terms:
        names = _names_of(term)
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _names_of(term: NodeSelectorTerm) -> set[str] | None:
    names: set[str] | None = None
    for requirement in term.fields:
        if requirement.key == NODE_NAME_FIELD and requirement.operator is Operator.IN:
            values = set(requirement.values)
            names = values if names is None else names & values
    return names


def preferred_weights(terms: tuple[PreferredNodeTerm, ...], nodes: NodeTable) -> IntArray:
    """Sum of the weights of the preferred terms that each node meets."""

    def add_up() -> IntArray:
        weights: IntArray = np.zeros(nodes.size, dtype=np.int64)
        for term in terms:
            weights += term.weight * nodes.term_mask(term.term)
        return weights

    return nodes.memo.of(("preferred", terms), None, add_up)
