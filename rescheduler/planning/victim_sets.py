"""Sets of pods without which a node would take another one: as few as possible, the cheapest first.

Who blocks by a rule must leave; of the others so many as cover what is missing, none of whom could stay. Pure: what a set needs
elsewhere is bounded from below (``RoomLevels``), and found out by the search.
What is said of blockers is necessary: all of ``must_leave`` have to leave, and of ``one_of`` one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.records import HostPort, Pod
from rescheduler.planning.room_levels import Needs, RoomLevels
from rescheduler.planning.trial import Trial
from rescheduler.policies.planned_moves import cover, taken_of
from rescheduler.policies.proposals import reluctance
from rescheduler.scheduling.classes import PodClass, TermKind
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.matching import matcher_of
from rescheduler.scheduling.node_ports import NodePorts
from rescheduler.scheduling.nodes import Column
from rescheduler.scheduling.pod_topology_spread import hard_domains
from rescheduler.scheduling.state import SchedulingState

_PODS: Final = 14
"""Pods of a node that are combined: those that leave most ..."""
_SMALL: Final = 4
"""... and so many of those that leave least."""
_TOGETHER: Final = 4


class Arrival(NamedTuple):
    """A pod that is to come to a node."""

    coming: Pod
    needs: Needs
    moves: int
    """So many at most may be made for it."""
    depth: int


class VictimSet(NamedTuple):
    """Pods that leave a node together."""

    pods: tuple[Pod, ...]
    domain: frozenset[int]
    """Nodes to which they may not go, besides their own."""


@dataclass(slots=True, kw_only=True)
class VictimSets:
    """Finds them in one trial."""

    trial: Trial
    levels: RoomLevels
    cost: Callable[[Pod], float]
    """What a move of a pod costs."""
    leavers: dict[int, list[Pod]] = field(default_factory=dict)
    """By node: pods that leave it for rooms that were planned before."""

    def of(self, wanted: Arrival, node: int, may_go: Callable[[Pod], bool]) -> list[VictimSet]:
        """The sets of a node (an index). An empty one: those that leave anyway are enough."""
        blocking = blockers(self.trial.state, wanted.coming, node)
        if (
            blocking is None
            or not all(map(may_go, blocking.must_leave))
            or self._least(blocking.must_leave) > wanted.moves
        ):
            return []
        missing = self._missing(wanted.needs, node, blocking.must_leave)
        if missing or blocking.crowd:
            able = [pod for pod in self._able(wanted, node, blocking, missing) if may_go(pod)]
            found = sorted(self._enough(wanted, blocking, missing, _few(able, missing)), key=self._order)
        else:
            found = [blocking.must_leave] if blocking.must_leave or self.leavers.get(node) else []
        return [VictimSet(pods, blocking.domain) for pods in found]

    def _missing(self, needs: Needs, node: int, gone: Sequence[Pod]) -> list[tuple[str, int]]:
        """What is still missing once these, and those that leave anyway, have left."""
        leaving = (*self.leavers.get(node, ()), *gone)
        lacking = (
            (
                name,
                needed - self.levels.free.at(name, node) - sum(taken_of(pod.held, name) for pod in leaving),
            )
            for name, needed in needs
        )
        return [(name, amount) for name, amount in lacking if amount > 0]

    def _able(self, wanted: Arrival, node: int, blocking: Blockers, missing: Needs) -> Iterator[Pod]:
        """Pods that could leave besides, as far as their level tells."""
        state, must = self.trial.state, {pod.uid for pod in blocking.must_leave}
        there = state.pods_on(state.node_names[node]) if missing else ()
        least = min(wanted.moves - len(must), wanted.depth)
        for pod in {pod.uid: pod for pod in (*there, *blocking.crowd)}.values():
            if pod.uid not in must and self.levels.level(pod) < least:
                yield pod

    def _enough(
        self, wanted: Arrival, blocking: Blockers, missing: Needs, able: Sequence[Pod]
    ) -> Iterator[tuple[Pod, ...]]:
        must, wanting = blocking.must_leave, {pod.uid for pod in blocking.crowd}
        for number in range(1, min(_TOGETHER, wanted.moves - len(must)) + 1):
            for some in combinations(able, number):
                enough = cover(some, missing) and (not wanting or not wanting.isdisjoint(p.uid for p in some))
                if (
                    enough
                    and self._least((*must, *some)) <= wanted.moves
                    and _none_spare(some, missing, wanting)
                ):
                    yield (*must, *some)

    def _order(self, pods: Sequence[Pod]) -> tuple[object, ...]:
        return (
            self._least(pods),
            round(sum(map(self.cost, pods)), 2),
            max(map(reluctance, pods)),
            sum(pod.held.cpu_milli for pod in pods),
            [pod.key for pod in pods],
        )

    def _least(self, pods: Sequence[Pod]) -> int:
        """Moves that it takes at least to move these."""
        return sum(1 + self.levels.level(pod) for pod in pods)


def _few(pods: list[Pod], missing: Needs) -> list[Pod]:
    if len(pods) <= _PODS:
        return pods
    pods = sorted(pods, key=lambda pod: (-_part(pod, missing), pod.key))
    return [*pods[: _PODS - _SMALL], *pods[-_SMALL:]]


def _none_spare(pods: Sequence[Pod], missing: Needs, wanting: set[str]) -> bool:
    """True if none of them could stay."""
    for one in pods:
        rest = [pod for pod in pods if pod is not one]
        if rest and cover(rest, missing) and (not wanting or not wanting.isdisjoint(pod.uid for pod in rest)):
            return False
    return True


def _part(pod: Pod, missing: Needs) -> float:
    return sum(min(1.0, taken_of(pod.held, name) / amount) for name, amount in missing)


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
