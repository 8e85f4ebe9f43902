"""A plan carried out move by move, each judged by the scheduler's rules when its turn comes, in any order of the moves of a stage.

Moves of a stage run at once: the old pods of all of them may still stand or end while a replacement comes, so it must have its room
beside all of them, and no rule about other pods may refuse it, whether the old pods are still there or gone. Topology spread may
allow one order of landing only: a replacement that it refuses waits until others of its stage have landed, as the controller has it
(``coordination.landing_order``). A move is refused if anything else refuses it, or if it waits for ever.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from rescheduler.model.holding import placed_on
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Move
from rescheduler.replacements.identity import keeps_name
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState

ROOM = ("cpu", "memory", "pods")


@dataclass(frozen=True)
class Replayed:
    """The cluster after the moves, and the moves that were refused."""

    snapshot: Snapshot
    refused: tuple[Move, ...]


def replay(
    snapshot: Snapshot, stages: Sequence[Sequence[Move]], order: random.Random | None = None
) -> Replayed:
    """Carry out one stage after the other. A move that is refused is not made.

    ``order``: mixes the moves of each stage; None: they keep the order of the plan.
    """
    refused: list[Move] = []
    for stage in stages:
        moves = list(stage)
        if order is not None:
            order.shuffle(moves)
        done = _Stage(snapshot)
        refused += done.run(moves)
        snapshot = dataclasses.replace(snapshot, pods=done.pods)
    return Replayed(snapshot, tuple(refused))


class _Stage:
    """The moves of one stage."""

    def __init__(self, now: Snapshot) -> None:
        self.pods = dict(now.pods)
        """As they stand after the moves so far."""
        self._gone = SchedulingState(now)
        """The old pods of the moves so far are gone."""
        self._ending = SchedulingState(now)
        """They end."""
        self._crowded = SchedulingState(now)
        """All of them still hold their rooms."""
        self._replacements = Replacements(now)
        self._by_uid = {pod.uid: pod for pod in now.pods.values()}

    def run(self, moves: Sequence[Move]) -> list[Move]:
        """Gives what is refused."""
        refused: list[Move] = []
        waiting = list(moves)
        landed = True
        while waiting and landed:
            landed, asked, waiting = False, waiting, []
            for move in asked:
                why = self._refusal(move)
                if not why:
                    landed = True
                elif why == PodTopologySpread.name:
                    waiting.append(move)
                else:
                    refused.append(move)
        return refused + waiting

    def _refusal(self, move: Move) -> str:
        """Make the move; the plugin that refuses it, in which case it is not made, or ""."""
        old = self._by_uid[move.pod.uid]
        new = self._replacements.of(old).pod
        if new is None or old.node != move.source:
            return "Replacement"
        at = self._gone.node_index[move.target]
        marks = [(state, state.checkpoint()) for state in (self._gone, self._ending, self._crowded)]
        self._gone.remove(old)
        self._ending.remove(old)
        if not keeps_name(old):
            self._ending.place_terminating(old)
        self._crowded.place(new, move.target)
        why = _refused(self._gone, new, at) or _refused(self._ending, new, at) or _overfull(self._crowded, at)
        if why:
            for state, mark in marks:
                state.rollback(mark)
            return why
        self._gone.place(new, move.target)
        self._ending.place(new, move.target)
        del self.pods[old.key]
        landed = _landed(old, new, move.target)
        self.pods[landed.key] = landed
        return ""


def _landed(old: Pod, new: Pod, target: str) -> Pod:
    named = msgspec.structs.replace(new, uid=old.uid, created_at_s=old.created_at_s)
    return placed_on(target, named, phase=old.phase, ready=True)


def _refused(state: SchedulingState, new: Pod, node: int) -> str:
    result = state.filter(new)
    return "" if result.feasible[node] else _plugin(result.plugins, int(result.refused_by[node]))


def _plugin(plugins: Sequence[str], code: int) -> str:
    return plugins[code] if code >= 0 else "Everywhere"


def _overfull(state: SchedulingState, node: int) -> str:
    names = (*ROOM, *(name for name, _ in state.cluster.nodes.records[node].allocatable.scalars))
    full = any(state.requested(name)[node] > state.allocatable(name)[node] for name in names)
    return "NodeResourcesFit" if full else ""
