"""Required pod affinity that holds whichever of some pods are there: pods that end, and pods that are not bound yet.

InterPodAffinity counts terminating pods until they are gone, and a pod that would be the first of its kind may start
anywhere. So a term may hold only while a terminating pod is there, or only once it is gone. A node passes here if
kube-scheduler would accept it with every subset of those pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.matching import Matcher, matcher_of
from rescheduler.scheduling.nodes import Column


class TransientPod(NamedTuple):
    """A pod that may be there or not when the asked pod is scheduled."""

    pod: Pod
    node: int
    """Index of its node."""
    counted: bool
    """True if the cluster counts it now."""


def lasting_affinity(pod: Pod, cluster: Cluster, passing: Iterable[TransientPod]) -> BoolArray | None:
    """Nodes on which all required affinity terms of ``pod`` hold, whichever of ``passing`` are there.

    Terminating pods that the cluster counts are passing in any case, and are not among ``passing``. None if the pod
    has no such terms, or the profile does not judge them.
    """
    terms = pod.spec.pod_affinity
    if not terms or InterPodAffinity.name in cluster.profile.disabled:
        return None
    matchers = tuple(matcher_of(term, pod.namespace) for term in terms)
    columns = [cluster.nodes.column(term.topology_key) for term in terms]
    # A pod counts only if it matches all terms at once (kube-scheduler's podMatchesAllAffinityTerms).
    together = cluster.group(matchers, living=False)
    matching = [one for one in passing if _matches_all(matchers, one.pod, cluster)]
    ending = [node for known in together.classes if known.deleting for node in known.nodes]
    counts = [together.in_domains(column).dense().copy() for column in columns]
    for node in (*ending, *(one.node for one in matching if one.counted)):
        _take_away(node, columns, counts)
    if any(count.any() for count in counts) or not _matches_all(matchers, pod, cluster):
        mask = cluster.nodes.all.copy()
        for column, count in zip(columns, counts, strict=True):
            mask &= column.spread_mask(count > 0)
        return mask
    return _beside_all(columns, {*ending, *(one.node for one in matching)}, cluster)


def _beside_all(columns: Sequence[Column], nodes: Iterable[int], cluster: Cluster) -> BoolArray:
    """Where the first pod of its kind may start, whichever of the pods on ``nodes`` is there before it."""
    mask = cluster.nodes.all.copy()
    for column in columns:
        mask &= column.present
    for node in nodes:
        codes = [column.code_list[node] for column in columns]
        # A pod on a node without any of the topology keys is not counted; with some of them it fits no other domain.
        if any(code >= 0 for code in codes):
            for column, code in zip(columns, codes, strict=True):
                mask &= column.codes == code
    return mask


def _take_away(node: int, columns: Sequence[Column], counts: Sequence[IntArray]) -> None:
    for column, count in zip(columns, counts, strict=True):
        code = column.code_list[node]
        if code >= 0:
            count[code] -= 1


def _matches_all(matchers: Sequence[Matcher], pod: Pod, cluster: Cluster) -> bool:
    namespaces = cluster.snapshot.namespaces
    return all(matcher.matches(pod.namespace, pod.labels, namespaces, own=True) for matcher in matchers)
