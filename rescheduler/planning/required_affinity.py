"""Pods that stay and require another one near: required pod affinity of others, which a move of that one may break. Pure.

kube-scheduler asks the affinity of a pod only when it is scheduled, so nothing refuses a move that takes away the last pod
that another one requires in its topology domain. Where the other one would be started again it would find no node. So such
a move is planned only to nodes where it is still near, or to repair a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.scheduling.classes import PodClass, PodGroup, TermKind
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.matching import matcher_of
from rescheduler.scheduling.nodes import Column


class Required(NamedTuple):
    """A pod that stays requires one that would move."""

    by: Pod
    nodes: BoolArray
    """Where the replacement is near all those that require it."""


def required_near(pod: Pod, replacement: Pod, source: int, cluster: Cluster) -> Required | None:
    """Who requires ``pod``, which is taken off the node ``source``, and has nobody else there; None: nobody."""
    if InterPodAffinity.name in cluster.profile.disabled:
        return None
    kind = cluster.kind_of(pod)
    lonely: list[Pod] = []
    nodes = cluster.nodes.all
    for carriers in _carriers(kind, source, cluster):
        matched = _matched(carriers, cluster)
        if matched not in kind.groups:
            continue
        keys = dict.fromkeys(term.topology_key for term in carriers.spec.pod_affinity)
        columns = [cluster.nodes.column(key) for key in keys]
        for column in columns:
            found = list(_lonely(carriers, matched, column, source, columns))
            if found:
                lonely += found
                comes = matched in cluster.kind_of(replacement).groups
                nodes = nodes & (column.codes == column.code_list[source]) & comes
    return Required(min(lonely, key=lambda one: one.key), nodes) if lonely else None


def _carriers(kind: PodClass, source: int, cluster: Cluster) -> Iterator[PodClass]:
    """Classes of running pods with a required term that matches the pod, some of them in its domain."""
    found: dict[PodClass, None] = {}
    for term in cluster.terms_about(kind):
        code = term.column.code_list[source]
        if term.key.kind is TermKind.REQUIRED and code >= 0 and term.counts.at(code):
            found.update((one, None) for one in term.carriers if one.pods and not one.deleting)
    return iter(found)


def _matched(carriers: PodClass, cluster: Cluster) -> PodGroup:
    """The pods that count for them: those that match all their terms at once (kube-scheduler's podMatchesAllAffinityTerms)."""
    terms = carriers.spec.pod_affinity
    return cluster.group(tuple(matcher_of(term, carriers.namespace) for term in terms), living=False)


def _lonely(
    carriers: PodClass, matched: PodGroup, column: Column, source: int, columns: Sequence[Column]
) -> Iterator[Pod]:
    """Those of these pods whose rule held with the pod on ``source`` and does not without it, in the domain of ``column``."""
    code = column.code_list[source]
    itself = matched in carriers.groups
    if code < 0 or matched.in_domains(column).at(code) > itself:
        return

    def held(node: int) -> bool:
        return all(
            one.code_list[node] >= 0
            and (
                one.code_list[node] == one.code_list[source]
                or matched.in_domains(one).at(one.code_list[node]) > itself
            )
            for one in columns
        )

    for pod, node in zip(carriers.pods, carriers.nodes, strict=True):
        if column.code_list[node] == code and held(node):
            yield pod
