"""A plan carried out move by move, each judged by the scheduler's rules when its turn comes.

A move is refused if the scheduler would not put the replacement on the target with the old pod off, or if the room is not there
while the old pods of all moves of its stage still stand (the room is reserved first, and moves of a stage run at once).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Move
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

ROOM = ("cpu", "memory", "pods")


@dataclass(frozen=True)
class Replayed:
    """The cluster after the moves, and the moves that were refused."""

    snapshot: Snapshot
    refused: tuple[Move, ...]


def replay(snapshot: Snapshot, stages: Sequence[Sequence[Move]]) -> Replayed:
    """Carry out one stage after the other. A move that is refused is not made."""
    pods = dict(snapshot.pods)
    refused: list[Move] = []
    for stage in stages:
        refused += _stage(dataclasses.replace(snapshot, pods=dict(pods)), stage, pods)
    return Replayed(dataclasses.replace(snapshot, pods=pods), tuple(refused))


def _stage(now: Snapshot, moves: Sequence[Move], pods: dict[ObjectKey, Pod]) -> list[Move]:
    """Changes ``pods``; gives what was refused."""
    state, crowded = SchedulingState(now), SchedulingState(now)
    replacements = Replacements(now)
    by_uid = {pod.uid: pod for pod in now.pods.values()}
    refused = []
    for move in moves:
        old = by_uid[move.pod.uid]
        new = replacements.of(old).pod
        at = state.node_index[move.target]
        if new is None or old.node != move.source:
            refused.append(move)
            continue
        state.remove(old)
        mark = crowded.checkpoint()
        crowded.place(new, move.target)
        if not state.feasible(new)[at] or not _within(crowded, at):
            crowded.rollback(mark)
            state.place(old, old.node)
            refused.append(move)
            continue
        state.place(new, move.target)
        del pods[old.key]
        landed = msgspec.structs.replace(
            new, node=move.target, uid=old.uid, phase=old.phase, ready=True, created_at_s=old.created_at_s,
            held=new.spec.requests,
        )  # fmt: skip
        pods[landed.key] = landed
    return refused


def _within(state: SchedulingState, node: int) -> bool:
    names = (*ROOM, *(name for name, _ in state.cluster.nodes.records[node].allocatable.scalars))
    return all(state.requested(name)[node] <= state.allocatable(name)[node] for name in names)
