"""Hard topology spread beside the moves of one trial: what a move may count on, and what it may not spoil. Pure.

The moves of one stage of a plan land in an order that spread allows (``coordination.landing_order``); those of a later stage land
after them. Promised for every move of a plan:

* it holds after the moves that are planned before it, but for those of a later stage, which have not begun by then;
* where moves run at once, it holds also as if none had begun, so that no move relies on another one;
* it still holds at the end of its stage: none that lands in its stage or before spoils it, in whatever order they land.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rescheduler.model.records import Pod
from rescheduler.policies.planned_moves import PlannedMove
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.matching import Matcher, demanded_label
from rescheduler.scheduling.pod_topology_spread import CountedPod, SpreadAfter, hard_matchers, spread_after
from rescheduler.scheduling.state import SchedulingState

Label = tuple[str, str]


class PlannedSpread:
    """The moves of a trial as topology spread sees them."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._following: list[PlannedMove] = []
        """Moves of stages after the first."""
        self._minding: dict[tuple[str, Label | None], dict[PodClass, list[PlannedMove]]] = {}
        """By namespace and a label that all pods have that it counts: moves whose replacements have hard constraints, by class."""

    def add(self, move: PlannedMove) -> None:
        """A move is planned: its old pod is off its node in the state, its replacement is on the target."""
        if move.stage > 1:
            self._following.append(move)
        kind = self._state.cluster.kind_of(move.replacement)
        for key in self._keys(move.replacement):
            self._minding.setdefault(key, {}).setdefault(kind, []).append(move)

    def pop(self, move: PlannedMove) -> None:
        """Take the last move back."""
        if move.stage > 1:
            self._following.pop()
        kind = self._state.cluster.kind_of(move.replacement)
        for key in self._keys(move.replacement):
            self._minding[key][kind].pop()

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
        """What takes back the moves of later stages."""
        for move in self._following:
            if move.stage > stage:
                yield CountedPod(move.replacement, move.target, -1)
                yield CountedPod(move.pod, move.source, 1)

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
