"""Pods of moves that may be there or not when a replacement comes, and what follows for its rules about other pods.

The moves of a plan run at once, so the old pod of each may still run, end or be gone, and its replacement may have landed
or not. Which rules count such pods (kube-scheduler 1.37):

* InterPodAffinity counts terminating pods. Required anti-affinity, of either side, is judged with all of them; required
  affinity with every subset of them, because a term that holds now may not hold when the replacement comes.
* PodTopologySpread skips terminating pods: see ``PlannedSpread``. Where moves run at once it is judged also as if none of
  them had begun, so that no move relies on another one.
* What pods hold on their own node (room, ports, disks, attached volumes) is kept by ``Trial``.

A trial shows its moves as done: old pods are off their nodes in the state, replacements stand on their targets. For moves that are
really under way the state shows the cluster as it is: old pods stand, and replacements do not. The rules are the same.

In mode StartFirst a third pod passes: the replacement before its adoption, whose labels are not those that it has later.
Anti-affinity is judged with all of them at once: one pod more can only make it refuse more, so a node that passes beside the
whole union passes beside every part of it. That is not so for required affinity and spread, which have the rules above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.planned_moves import PlannedMove, others
from rescheduler.scheduling.classes import PodClass, TermKey, TermKind
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.lasting_affinity import TransientPod, lasting_affinity
from rescheduler.scheduling.matching import Matcher, demanded_label, matcher_of
from rescheduler.scheduling.pod_topology_spread import CountedPod, SpreadAfter, hard_matchers, spread_after
from rescheduler.scheduling.state import SchedulingState

_Kind = tuple[str, PodSpec, LabelSet]
Label = tuple[str, str]


class Relying(NamedTuple):
    """A planned move that would not hold if another pod moved as well."""

    move: PlannedMove
    rule: str
    """The rule that its replacement would break, in words."""


class TransientPods:
    """The old pods and the replacements of moves, found by their labels and terms."""

    def __init__(
        self, snapshot: Snapshot, state: SchedulingState, *, at_once: bool = True, done: bool = True
    ) -> None:
        """``at_once``: the moves run at once; otherwise the plan is carried out in its order, as time passes.

        ``done``: the state shows the moves as done; otherwise it shows the cluster as it is.
        """
        self._at_once = at_once
        self._done = done
        self._snapshot = snapshot
        self._state = state
        self._disabled = state.profile.disabled
        self._moves: list[PlannedMove] = []
        self._spread = PlannedSpread(state, done=done)
        self._all: list[TransientPod] = []
        self._labelled: dict[Label, list[TransientPod]] = {}
        """By label, the transient pods that carry it."""
        self._carrying: dict[TermKey, list[PlannedMove]] = {}
        """By required anti-affinity term, the moves of which the pod that the state does not show carries it."""
        self._near: dict[_Kind, list[PlannedMove]] = {}
        """Moves whose replacements have required affinity, those of interchangeable replacements together."""
        self._expected: Sequence[TransientPod] = ()

    def add(self, move: PlannedMove) -> None:
        """A move is planned or under way. The state shows it as done, or not, as that of all others."""
        self._moves.append(move)
        self._spread.add(move)
        for one in self._passing(move):
            self._all.append(one)
            for label in one.pod.labels.items():
                self._labelled.setdefault(label, []).append(one)
        for key in self._terms_not_shown(move):
            self._carrying.setdefault(key, []).append(move)
        if move.replacement.spec.pod_affinity:
            self._near.setdefault(_kind(move.replacement), []).append(move)

    def pop(self) -> None:
        """Take the last move back."""
        move = self._moves.pop()
        self._spread.pop(move)
        for one in self._passing(move):
            self._all.pop()
            for label in one.pod.labels.items():
                self._labelled[label].pop()
        for key in self._terms_not_shown(move):
            self._carrying[key].pop()
        if move.replacement.spec.pod_affinity:
            self._near[_kind(move.replacement)].pop()

    @contextmanager
    def beside(self, expected: Iterable[Pod]) -> Iterator[None]:
        """Meanwhile required affinity relies on none of these pods either: they stand in the state, and are not bound yet."""
        before, nodes = self._expected, self._state.node_index
        standing = (one for one in expected if one.node in nodes and not one.deleting)
        self._expected = [TransientPod(one, nodes[one.node], counted=True) for one in standing]
        try:
            yield
        finally:
            self._expected = before

    @contextmanager
    def without(self, landed: Sequence[PlannedMove]) -> Iterator[None]:
        """Meanwhile their pods are no transient pods, but like others."""
        before = self._moves, self._all, self._labelled, self._carrying, self._near
        passing = [one for move in landed for one in self._passing(move)]
        pods = {id(one.pod) for one in passing}
        self._moves = others(self._moves, landed)
        self._all = [one for one in self._all if id(one.pod) not in pods]
        labels = {label for one in passing for label in one.pod.labels.items()}
        standing = ((label, self._labelled[label]) for label in labels)
        self._labelled = self._labelled | {
            label: [one for one in held if id(one.pod) not in pods] for label, held in standing
        }
        terms = {key for move in landed for key in self._terms_not_shown(move)}
        self._carrying = self._carrying | {key: others(self._carrying[key], landed) for key in terms}
        self._near = {kind: others(moves, landed) for kind, moves in self._near.items()}
        try:
            with self._spread.without(landed):
                yield
        finally:
            self._moves, self._all, self._labelled, self._carrying, self._near = before

    def restrict(
        self,
        replacement: Pod,
        feasible: BoolArray,
        ending: Pod | None = None,
        stage: int = 1,
    ) -> None:
        """Leave those of the ``feasible`` nodes on which the rules hold whichever transient pods are there.

        ``ending``: the old pod, taken off, which may still end when the replacement comes; None: it is gone by then.
        ``stage``: of the plan, in which it comes.
        """
        self._spread.restrict(replacement, feasible, stage)
        spread = self._spread_otherwise(replacement)
        if spread is not None:
            spread.restrict(feasible)
        self.restrict_affinity(replacement, feasible, ending)

    def restrict_affinity(self, coming: Pod, feasible: BoolArray, ending: Pod | None = None) -> None:
        """The same without topology spread, which is another question for a pod that is pinned to each node (mode StartFirst)."""
        if InterPodAffinity.name in self._disabled:
            return
        for key, kept_off in self._kept_off(coming, ending).items():
            column = self._state.nodes.column(key)
            free = np.ones(len(column.values) + 1, dtype=np.bool_)  # the last one: nodes without the label
            free[list(kept_off)] = False
            feasible &= free[column.codes]
        lasting = self._lasting_beside(coming, ending)
        if lasting is not None:
            feasible &= lasting

    def leaning_on(self, pod: Pod, replacement: Pod, target: str, stage: int = 1) -> Relying | None:
        """A move whose replacement could be refused if ``pod``, taken off, moves to ``target`` as well, in this stage."""
        spoiled = self._spread.spoiled_by(pod, replacement, self._state.node_index[target], stage)
        if spoiled is not None:
            return Relying(spoiled, "topology spread")
        for moves in self._near.values():
            if moves and self._minds(moves[0].replacement, pod, replacement):
                besides = (self._at(pod, pod.node), self._at(replacement, target))
                lasting = self._lasting(moves[0].replacement, besides)
                if lasting is not None:
                    refused = (move for move in moves if not lasting[move.target])
                    if (first := next(refused, None)) is not None:
                        return Relying(first, "required pod affinity")
        return None

    def _spread_otherwise(self, replacement: Pod) -> SpreadAfter | None:
        """Where its topology spread holds in the world that the state does not show: while no other move has begun, or with all done.

        None if moves do not run at once, or nothing that it minds.
        """
        if not self._at_once or not self._all:
            return None
        cluster = self._state.cluster

        def changes(matcher: Matcher) -> Iterator[CountedPod]:
            # What is not adopted yet stands on no node in either world.
            standing = (p for p in self._like(matcher) if p.pod.node)
            return (CountedPod(p.pod, p.node, -1 if p.counted else 1) for p in standing)

        return spread_after(cluster.ask(replacement), cluster, changes)

    def _lasting_beside(self, replacement: Pod, ending: Pod | None) -> BoolArray | None:
        """Where its required affinity holds whichever transient pods are there, and whether its own old pod is; None: it has none."""
        if not replacement.spec.pod_affinity:
            return None
        own = () if ending is None else (self._at(ending, ending.node),)
        return self._lasting(replacement, (*self._expected, *own))

    def _lasting(self, replacement: Pod, besides: Iterable[TransientPod]) -> BoolArray | None:
        first = replacement.spec.pod_affinity[0]
        passing = self._like(matcher_of(first, replacement.namespace))
        return lasting_affinity(replacement, self._state.cluster, (*passing, *besides))

    def _minds(self, near: Pod, *others: Pod) -> bool:
        matchers = [matcher_of(term, near.namespace) for term in near.spec.pod_affinity]
        return any(all(_matches(self._snapshot, m, other) for m in matchers) for other in others)

    def _at(self, pod: Pod, node: str) -> TransientPod:
        return TransientPod(pod, self._state.node_index[node], counted=False)

    def _like(self, matcher: Matcher) -> Iterable[TransientPod]:
        """The transient pods that the matcher may match."""
        label = demanded_label(matcher.selector)
        return self._all if label is None else self._labelled.get(label, ())

    def _passing(self, move: PlannedMove) -> list[TransientPod]:
        new = TransientPod(move.replacement, move.target, counted=self._done)
        if not self._done and move.pod.deleting:  # a terminating pod that the state shows passes in any case
            return [new]
        found = [TransientPod(move.pod, move.source, counted=not self._done), new]
        if move.unadopted is not None:
            found.append(TransientPod(move.unadopted, move.target, counted=False))
        return found

    def _terms_not_shown(self, move: PlannedMove) -> Iterator[TermKey]:
        return _anti_terms(move.pod if self._done else move.replacement)

    def _kept_off(self, replacement: Pod, ending: Pod | None) -> dict[str, set[int]]:
        """By topology key, the domains that required anti-affinity of old pods or against them keeps it off."""
        found: dict[str, set[int]] = {}
        sources = self._kept_off_by(replacement)
        if ending is not None:
            here = self._state.node_index[ending.node]
            sources = chain(sources, ((here, key) for key in keys_apart(self._snapshot, ending, replacement)))
        codes: dict[str, list[int]] = {}
        for node, key in sources:
            if key not in codes:
                codes[key] = self._state.nodes.column(key).code_list
            code = codes[key][node]
            if code >= 0:  # a node without the label is in no domain
                found.setdefault(key, set()).add(code)
        return found

    def _kept_off_by(self, replacement: Pod) -> Iterator[tuple[int, str]]:
        """(node of an old pod, topology key) of required anti-affinity of either side."""
        if not self._moves:
            return
        cluster = self._state.cluster
        for term in cluster.terms_about(cluster.kind_of(replacement)):
            for move in self._carrying.get(term.key, ()):
                yield move.source if self._done else move.target, term.key.topology_key
        for key in _anti_terms(replacement):
            last: Pod | None = None
            matched = False
            for one in self._like(key.matcher):
                # The scheduler's own rules count what stands in the state.
                if one.counted:
                    continue
                # Mostly pods of one workload come one after the other.
                if last is None or one.pod.labels is not last.labels or one.pod.namespace != last.namespace:
                    matched, last = _matches(self._snapshot, key.matcher, one.pod), one.pod
                if matched:
                    yield one.node, key.topology_key


def keys_apart(snapshot: Snapshot, standing: Pod, coming: Pod) -> Iterator[str]:
    """Topology keys of required anti-affinity of either that matches the other."""
    for owner, match in ((standing, coming), (coming, standing)):
        for key in _anti_terms(owner):
            if key.matcher.matches(match.namespace, match.labels, snapshot.namespaces, own=owner is coming):
                yield key.topology_key


def _kind(replacement: Pod) -> _Kind:
    return replacement.namespace, replacement.spec, replacement.labels


def _matches(snapshot: Snapshot, matcher: Matcher, pod: Pod) -> bool:
    return matcher.matches(pod.namespace, pod.labels, snapshot.namespaces, own=True)


def _anti_terms(pod: Pod) -> Iterator[TermKey]:
    """The required anti-affinity of a pod, as the cluster counts it."""
    for term in pod.spec.pod_anti_affinity:
        yield TermKey(TermKind.REQUIRED_ANTI, matcher_of(term, pod.namespace), term.topology_key)


class PlannedSpread:
    """The moves of a trial as topology spread sees them.

    The moves of one stage of a plan land in an order that spread allows (``coordination.landing_order``); those of a later stage land
    after them. Promised for every move of a plan:

    * it holds after the moves that are planned before it, but for those of a later stage, which have not begun by then;
    * where moves run at once, it holds also as if none had begun, so that no move relies on another one;
    * it still holds at the end of its stage: none that lands in its stage or before spoils it, in whatever order they land.
    """

    def __init__(self, state: SchedulingState, *, done: bool = True) -> None:
        """``done``: the state shows the moves as done."""
        self._state = state
        self._following: list[PlannedMove] = []
        """Moves of stages after the first."""
        self._begun: list[PlannedMove] | None = None if done else []
        """Those that the state does not show as done; all are of one stage. None: it shows all so."""
        self._minding: dict[tuple[str, Label | None], dict[PodClass, list[PlannedMove]]] = {}
        """By namespace and a label that all pods have that it counts: moves whose replacements have hard constraints, by class."""

    def add(self, move: PlannedMove) -> None:
        """A move is planned or under way."""
        if move.stage > 1:
            self._following.append(move)
        if self._begun is not None:
            self._begun.append(move)
        kind = self._state.cluster.kind_of(move.replacement)
        for key in self._keys(move.replacement):
            self._minding.setdefault(key, {}).setdefault(kind, []).append(move)

    def pop(self, move: PlannedMove) -> None:
        """Take the last move back."""
        if move.stage > 1:
            self._following.pop()
        if self._begun is not None:
            self._begun.pop()
        kind = self._state.cluster.kind_of(move.replacement)
        for key in self._keys(move.replacement):
            self._minding[key][kind].pop()

    @contextmanager
    def without(self, landed: Sequence[PlannedMove]) -> Iterator[None]:
        """Meanwhile these moves count no more."""
        before = self._following, self._minding, self._begun
        keys = {key for move in landed for key in self._keys(move.replacement)}
        self._following = others(self._following, landed)
        self._begun = None if self._begun is None else others(self._begun, landed)
        self._minding = self._minding | {
            key: {kind: others(moves, landed) for kind, moves in self._minding[key].items()} for key in keys
        }
        try:
            yield
        finally:
            self._following, self._minding, self._begun = before

    def restrict(self, replacement: Pod, feasible: BoolArray, stage: int) -> None:
        """Leave those of the ``feasible`` nodes that a move of this stage may count on before any later stage begins."""
        found = self._before_later(replacement, stage)
        if found is not None:
            found.restrict(feasible)

    def _before_later(self, replacement: Pod, stage: int) -> SpreadAfter | None:
        """Where its spread holds without the moves of later stages; None if there are none, or nothing that it minds."""
        if not any(move.stage > stage for move in self._following):
            return None
        cluster = self._state.cluster
        return spread_after(cluster.ask(replacement), cluster, lambda _: self._after(stage))

    def spoiled_by(self, pod: Pod, replacement: Pod, target: int, stage: int) -> PlannedMove | None:
        """A planned move of this stage or a later one that would not hold if ``pod``, taken off, moves to ``target`` in this stage."""
        source = self._state.node_index[pod.node]
        coming, staying = CountedPod(replacement, target, 1), CountedPod(pod, source, 1)
        for moves in self._minded(pod, replacement):
            for at, landing in self._from_stage(stage, moves):
                found = self._refused(landing, (coming, *self._after(at)))
                # One that does not hold anyway is not spoilt by this move.
                if found is not None and self._refused([found], (staying, *self._after(at))) is None:
                    return found
        return None

    def _from_stage(
        self, stage: int, moves: Sequence[PlannedMove]
    ) -> Iterable[tuple[int, Sequence[PlannedMove]]]:
        """The moves that land in this stage or later, by stage."""
        if not self._following:
            return ((1, moves),) if stage == 1 else ()
        stages = sorted({move.stage for move in moves if move.stage >= stage})
        return [(at, [move for move in moves if move.stage == at]) for at in stages]

    def _refused(self, landed: Sequence[PlannedMove], changes: Iterable[CountedPod]) -> PlannedMove | None:
        """Of moves of one class of pods that have landed, the first that would be refused if it landed last."""
        world, cluster = tuple(changes), self._state.cluster
        asked = cluster.ask(landed[0].replacement)
        found = spread_after(asked, cluster, lambda _: world, counted_there=True)
        return None if found is None else next((m for m in landed if not found.allows(m.target)), None)

    def _after(self, stage: int) -> Iterator[CountedPod]:
        """What takes back the moves of later stages, and does those that are under way."""
        for move in self._following:
            if move.stage > stage:
                yield CountedPod(move.replacement, move.target, -1)
                yield CountedPod(move.pod, move.source, 1)
        for move in self._begun or ():
            yield CountedPod(move.replacement, move.target, 1)
            if not move.pod.deleting:
                yield CountedPod(move.pod, move.source, -1)

    def _minded(self, pod: Pod, replacement: Pod) -> list[Sequence[PlannedMove]]:
        """Moves that may count one of the two, those of interchangeable replacements together."""
        labels = dict.fromkeys((None, *pod.labels.items()))
        if replacement.labels is not pod.labels:
            labels.update(dict.fromkeys(replacement.labels.items()))
        kinds: dict[PodClass, Sequence[PlannedMove]] = {}
        for label in labels:
            minding = self._minding.get((pod.namespace, label))
            if minding is not None:
                kinds.update(minding)
        return [moves for moves in kinds.values() if moves]

    def _keys(self, replacement: Pod) -> Iterable[tuple[str, Label | None]]:
        cluster = self._state.cluster
        matchers: list[Matcher] = hard_matchers(cluster.ask(replacement), cluster)
        return {(replacement.namespace, demanded_label(m.selector)): None for m in matchers}
