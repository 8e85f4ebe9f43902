"""Pods of a trial that are taken as bound and are not: nominated pods, pending ones, claimants in hand-over.

Where they are expected they keep their room. But a replacement may come before them, or they may be bound elsewhere, so
that it must fit without them as well: required affinity and topology spread may hold only because of them, and a volume
that one of them uses counts as attached (NodeVolumeLimits). kube-scheduler
asks in the same way (``RunFilterPluginsWithNominatedPods``): nominated pods are counted on the node in question, then none.
So the rules are asked again while expected pods are what they are now. All other rules only get stricter by a pod more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Pod
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.matching import Matcher, NamespaceScope, matcher_of
from rescheduler.scheduling.pod_topology_spread import constraints_of
from rescheduler.scheduling.state import SchedulingState


class _Expected(NamedTuple):
    """One pod: its record in the snapshot, and as it stands in the trial."""

    waiting: Pod
    placed: Pod


class ExpectedPods:
    """The expected pods of one trial."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._order: list[_Expected] = []
        """All of them, the oldest first."""
        self._of_class: dict[PodClass, list[_Expected]] = {}
        self._minded: dict[PodClass, list[_Expected]] = {}
        """Class of a replacement -> the expected pods that its rules may lean on."""

    def add(self, waiting: Pod, placed: Pod) -> None:
        """The pod ``waiting`` stands as ``placed`` in the state from now on."""
        one = _Expected(waiting, placed)
        self._order.append(one)
        self._of_class.setdefault(self._state.cluster.kind_of(placed), []).append(one)
        self._minded.clear()

    def __len__(self) -> int:
        return len(self._order)

    def pop(self) -> Pod:
        """Take the last one back; gives it as it stood."""
        last = self._order.pop()
        self._of_class[self._state.cluster.kind_of(last.placed)].pop()
        self._minded.clear()
        return last.placed

    def restrict(
        self, replacement: Pod, feasible: BoolArray, further: Callable[[BoolArray], None] = lambda _: None
    ) -> None:
        """Leave those of the ``feasible`` nodes that take the replacement while expected pods are what they are now.

        ``further`` restricts the nodes in that state by more rules.
        """
        if not self._of_class or not feasible.any():
            return
        minded = self._minded_by(replacement)
        if minded:
            with self._waiting(minded):
                feasible &= self._state.feasible(replacement)
                further(feasible)

    @contextmanager
    def _waiting(self, pods: Iterable[_Expected]) -> Iterator[None]:
        """Meanwhile these expected pods are what they are now."""
        state = self._state
        mark = state.checkpoint()
        try:
            for one in pods:
                state.remove(one.placed)
                state.wait(one.waiting)
            yield
        finally:
            state.rollback(mark)

    def _minded_by(self, replacement: Pod) -> list[_Expected]:
        kind = self._state.cluster.kind_of(replacement)
        if kind not in self._minded:
            matchers, namespaces = list(self._matchers(kind)), self._state.cluster.snapshot.namespaces
            self._minded[kind] = [
                one
                for known, pods in self._of_class.items()
                if any(m.matches(known.namespace, known.labels, namespaces, own=True) for m in matchers)
                or _share_volumes(kind, known)
                for one in pods
            ]
        return self._minded[kind]

    def _matchers(self, kind: PodClass) -> Iterator[Matcher]:
        """Of required affinity and of hard topology spread, which a pod more can fulfil."""
        for term in kind.spec.pod_affinity:
            yield matcher_of(term, kind.namespace)
        for _, selector in constraints_of(kind, self._state.cluster, hard=True):
            yield Matcher(NamespaceScope(frozenset((kind.namespace,))), selector)


def _share_volumes(one: PodClass, other: PodClass) -> bool:
    """True if a volume of one would be attached already where the other is."""
    shared = {*one.spec.volumes} & {*other.spec.volumes}
    return any(v.kind is not VolumeKind.CLAIM or one.namespace == other.namespace for v in shared)
