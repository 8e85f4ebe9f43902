"""Plan, move, plan again, until nothing moves: what happened on the way, and whether it came to an end.

The moves of each plan are carried out in full before the next plan, by the records of what comes back; nothing else changes.
Pure but for the time that it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.holding import placed_on
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.avoid import entry_for, with_entry
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.planner import plan
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.objective import TIERS
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.state import SchedulingState

CYCLES: Final = 50
"""A cluster that moves pods for longer is called restless; with one move at once a cycle makes one move."""


@dataclass(frozen=True, slots=True)
class Course:
    """What planning a cluster again and again did."""

    cluster: Snapshot
    """As it stands at the end."""
    moves: tuple[int, ...]
    """By cycle."""
    returns: tuple[str, ...]
    """Pods that came back to a node that they had left, and nothing had become better by it; in words."""
    returns_after_others: tuple[str, ...]
    """Pods that came back after others had moved, which made it worth while: see ``Been.words``."""
    swaps: tuple[str, ...]
    """Pods of one owner that a plan moved to each other's node, in words."""
    badness: tuple[tuple[int, ...], ...]
    """Of the placement before each cycle, and at the end."""

    @property
    def at_rest(self) -> bool:
        """True if the last plan moved nothing."""
        return not self.moves or self.moves[-1] == 0

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not happen, in words."""
        restless = () if self.at_rest else (f"restless: moves by cycle {self.moves}",)
        rising = tuple(
            f"cycle {i}: badness {before} -> {after}"
            for i, (before, after) in enumerate(zip(self.badness, self.badness[1:], strict=False))
            if self.moves[i] and not after < before
        )
        return (*restless, *self.returns, *self.swaps, *rising)


def course_of(
    cluster: Snapshot,
    policies: Sequence[Policy],
    inputs: PlanningInputs,
    *,
    hints: bool,
) -> Course:
    """Plan and move until a plan moves nothing, at most ``CYCLES`` times.

    ``hints``: moves leave hints on the nodes that pods left, as the controller does; they must not be needed for rest.
    """
    been = Been()
    moves: list[int] = []
    swaps: list[str] = []
    state = SchedulingState(cluster)
    badness = [badness_of(cluster, policies, state)]
    for number in range(CYCLES):
        made = plan(cluster, policies, inputs, state)
        moves.append(len(made.moves))
        if not made.moves:
            break
        been.carried_out(number, made, badness[-1])
        swaps.extend(f"cycle {number}: {found}" for found in swapped(made))
        cluster = moved(cluster, made)
        if hints:
            cluster = _hinted(cluster, made)
        badness.append(badness_of(cluster, policies, state))
    returns, after_others = tuple(been.returns), tuple(been.after_others)
    return Course(cluster, tuple(moves), returns, after_others, tuple(swaps), tuple(badness))


class _Left(NamedTuple):
    """A pod left a node."""

    number: int
    """Of the move, counted over all cycles."""
    move: Move
    badness: tuple[int, ...]
    """Of the placement before the plan that moved it."""


class Been:
    """Where pods have been. A placement never comes back, but one pod may, once the moves of others have made it worth while."""

    def __init__(self) -> None:
        self.returns: list[str] = []
        self.after_others: list[str] = []
        self._left: dict[tuple[str, str], _Left] = {}
        self._number = 0

    def carried_out(self, cycle: int, made: Plan, badness: tuple[int, ...]) -> None:
        """The moves of a plan. ``badness``: of the placement before it."""
        for move in made.moves:
            pod = f"{move.pod.namespace}/{move.pod.name}"
            left = self._left.get((pod, move.target))
            if left is not None:
                others = self._number - left.number - 1
                worth = others > 0 and badness < left.badness
                found = self.after_others if worth else self.returns
                found.append(f"cycle {cycle}: {_return_words(move, left, others)}")
            self._left[pod, move.source] = _Left(self._number, move, badness)
            self._number += 1


def _return_words(move: Move, left: _Left, others: int) -> str:
    """Why it left, and why it returns: by policy, what either move changes."""
    before, now = (_effect_words(m) for m in (left.move, move))
    return f"{_words(move)} returns after {others} moves of others; it left for {before}, returns for {now}"


def _effect_words(move: Move) -> str:
    return ", ".join(f"{effect.policy} {effect.change.by_tier()}" for effect in move.effects)


def badness_of(cluster: Snapshot, policies: Sequence[Policy], state: SchedulingState) -> tuple[int, ...]:
    """The sum over the policies, by tier."""
    state.sync(cluster)
    view = PolicyView.of(cluster, state)
    total: IntArray = np.zeros(TIERS, dtype=np.int64)
    for policy in policies:
        total += policy.badness(view)
    return tuple(total.tolist())


def moved(cluster: Snapshot, made: Plan) -> Snapshot:
    """The cluster once all moves of a plan have been carried out."""
    replacements = Replacements(cluster)
    pods = dict(cluster.pods)
    for move in made.moves:
        key = ObjectKey(move.pod.namespace, move.pod.name)
        old = pods.pop(key)
        new = replacements.of(cluster.pods[key]).pod
        if new is None:
            raise LookupError(f"pod {key} was moved, and nothing comes back for it")
        landed = _landed(old, new, move.target)
        pods[landed.key] = landed
    return dataclasses.replace(cluster, pods=pods)


def _hinted(cluster: Snapshot, made: Plan) -> Snapshot:
    """The nodes that pods left carry hints, which hold for as long as the course takes."""
    nodes, now_s = dict(cluster.nodes), cluster.taken_at_s
    for move in made.moves:
        owner = cluster.pods[ObjectKey(move.pod.namespace, move.pod.name)].controller
        if owner is not None:
            node = nodes[move.source]
            entry = entry_for(owner, move.pod.namespace, move.policy, now_s)
            nodes[move.source] = msgspec.structs.replace(node, avoid=with_entry(node.avoid, entry, now_s))
    return dataclasses.replace(cluster, nodes=nodes)


def swapped(made: Plan) -> Iterator[str]:
    """Pairs of moves of one owner's pods that go to and fro between two nodes."""
    ways: dict[tuple[object, ...], Move] = {}
    for move in made.moves:
        if move.controller is None:
            continue
        owner = (move.pod.namespace, move.controller.kind, move.controller.name)
        back = ways.get((*owner, move.target, move.source))
        if back is not None:
            yield f"{_words(move)} swaps with {_words(back)}"
        ways[(*owner, move.source, move.target)] = move


def _landed(old: Pod, new: Pod, node: str) -> Pod:
    named = msgspec.structs.replace(new, uid=old.uid, name=old.name, created_at_s=old.created_at_s)
    return placed_on(node, named, phase=old.phase, ready=True)


def _words(move: Move) -> str:
    return f"{move.pod.name} {move.source} -> {move.target} ({move.policy}, {move.reason})"
