"""Pods that keep another one off a node by a rule about them: host ports, required anti-affinity of either, hard topology spread.

What is said is necessary: all pods of ``must_leave`` have to leave, and of ``one_of`` one of them. The scheduler's own rules judge what
comes of it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import HostPort, Pod
from rescheduler.scheduling.classes import PodClass, TermKind
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.matching import matcher_of
from rescheduler.scheduling.node_ports import NodePorts
from rescheduler.scheduling.nodes import Column
from rescheduler.scheduling.pod_topology_spread import hard_domains
from rescheduler.scheduling.state import SchedulingState

_ANY = "0.0.0.0"  # noqa: S104 -- what an empty hostIP means
MOST_IN_DOMAIN = 12
"""Pods of a domain that are looked at."""


class Blockers(NamedTuple):
    """Who is in the way on one node."""

    must_leave: tuple[Pod, ...] = ()
    one_of: tuple[Pod, ...] = ()
    """For topology spread; empty: nobody has to leave for it."""
    domain: frozenset[int] = frozenset()
    """Nodes to which none of them may go: their topology domain."""

    @property
    def crowd(self) -> tuple[Pod, ...]:
        """``one_of``, unless one of them must leave anyway."""
        return () if any(pod in self.one_of for pod in self.must_leave) else self.one_of


def blockers(state: SchedulingState, coming: Pod, node: int) -> Blockers | None:
    """Those that stand in the way of ``coming`` on a node (an index); None: more than may be moved."""
    kept: set[int] = set()
    found: dict[str, Pod] = {}
    if coming.spec.host_ports and NodePorts.name not in state.profile.disabled:
        for pod in state.pods_on(state.node_names[node]):
            if any(_clash(mine, other) for mine in coming.spec.host_ports for other in pod.spec.host_ports):
                found[pod.uid] = pod
    if InterPodAffinity.name not in state.profile.disabled:
        for column, kinds in _apart(state, coming):
            for pod in _in_domain(column, node, kinds):
                found[pod.uid] = pod
                kept |= _nodes(column, node)
                if len(found) > MOST_IN_DOMAIN:
                    return None
    crowd: dict[str, Pod] = {}
    for column, kinds in hard_domains(state.cluster.ask(coming), state.cluster, node):
        kept |= _nodes(column, node)
        for pod in sorted(_in_domain(column, node, kinds), key=lambda one: one.key)[:MOST_IN_DOMAIN]:
            crowd[pod.uid] = pod
    return Blockers(tuple(found.values()), tuple(crowd.values()), frozenset(kept))


def _apart(state: SchedulingState, coming: Pod) -> Iterator[tuple[Column, Iterable[PodClass]]]:
    """By topology: the classes of pods that required anti-affinity keeps apart from it."""
    cluster = state.cluster
    for term in coming.spec.pod_anti_affinity:
        group = cluster.group((matcher_of(term, coming.namespace),), living=False)
        yield cluster.nodes.column(term.topology_key), group.classes
    for carried in cluster.terms_about(cluster.kind_of(coming)):
        if carried.key.kind is TermKind.REQUIRED_ANTI:
            yield carried.column, carried.carriers


def _in_domain(column: Column, node: int, kinds: Iterable[PodClass]) -> Iterator[Pod]:
    codes = column.code_list
    domain = codes[node]
    if domain >= 0:
        for kind in kinds:
            for pod, at in zip(kind.pods, kind.nodes, strict=True):
                if codes[at] == domain:
                    yield pod


def _nodes(column: Column, node: int) -> set[int]:
    domain = column.code_list[node]
    return set(np.flatnonzero(column.codes == domain).tolist()) if domain >= 0 else set()


def _clash(one: HostPort, other: HostPort) -> bool:
    if (one.protocol or "TCP", one.port) != (other.protocol or "TCP", other.port):
        return False
    addresses = {one.ip or _ANY, other.ip or _ANY}
    return len(addresses) == 1 or _ANY in addresses
